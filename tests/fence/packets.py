"""Packets and frames that are made by hand: a part of attempt.py. Whether they arrive is seen elsewhere."""
import socket, struct, subprocess


def hardware_address(by):
    """A neighbour's, or the one that is named: `01-80-c2-00-00-0e`."""
    if by.count("-") == 5:
        return bytes.fromhex(by.replace("-", ""))
    with socket.socket(family(by), socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", socket.getaddrinfo(by, 9, type=socket.SOCK_DGRAM)[0][4])
    shown = ""
    while "lladdr" not in shown:
        shown = subprocess.check_output(["ip", "neigh", "show", by.split("%")[0]], text=True)
    return bytes.fromhex(shown.split("lladdr ")[1].split()[0].replace(":", ""))


def own_address():
    """The hardware address of this container."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as link:
        link.bind(("eth0", 0))
        return link.getsockname()[4]


def emit(by, packet, tags=b"", sender=None):
    """Sends an IP packet as it is, by way of a neighbour: behind tags of VLANs, from a hardware address."""
    kind = b"\x86\xdd" if packet[0] >> 4 == 6 else b"\x08\x00"
    return frame(hardware_address(by), tags + kind + packet, sender)


def frame(to, rest, sender=None):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as link:
        link.bind(("eth0", 0))
        link.send(to + (sender or link.getsockname()[4]) + rest)
    return "sent"


def four(source, address, body, ttl=64, protocol=17, options=b"", offset=0):
    ends = socket.inet_aton(source) + socket.inet_aton(address)
    words, total = 5 + len(options) // 4, 20 + len(options) + len(body)
    head = struct.pack("!BBHHHBBH", 0x40 | words, 0, total, 7, offset, ttl, protocol, 0) + ends + options
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + body


def six(source, address, body, limit=64, header=17):
    ends = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, address)
    return struct.pack("!IHBB", 6 << 28, len(body), header, limit) + ends + body


def starts(source, port, address, to, by, sender=None):
    """A datagram that begins a flow, from whatever address it says, and from a neighbour's hardware address."""
    packet = datagram(source, address, int(port), int(to))
    return emit(by, packet, sender=sender and hardware_address(sender))


SECRET = struct.pack("!4H", 4000, 443, 16, 0) + b"c2vjcmv0"


def icmp_six(source, address, body, limit=64):
    """A message of ICMPv6 (RFC 4443)."""
    ends = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, address)
    total = checksum(ends + struct.pack("!IxxxB", len(body), 58) + body)
    return six(source, address, body[:2] + struct.pack("!H", total) + body[4:], limit, 58)


def returned(source, address, by, how):
    """A packet in the name of SOURCE that the gateway BY cannot forward: it would say so to SOURCE, with what
    is in the packet."""
    is_six = ":" in source
    if how == "expired":
        packet = six(source, address, SECRET, 1) if is_six else four(source, address, SECRET, 1)
    if how == "whole":
        packet = six(source, address, SECRET) if is_six else four(source, address, SECRET)
    if how == "part":
        # The first part of a datagram, of which the others never come.
        part = struct.pack("!BBHI", 17, 0, 1, 9) + SECRET
        packet = six(source, address, part, 64, 44) if is_six else four(source, address, SECRET, offset=0x2000)
    if how == "options":
        # Of IPv6 an unknown one, which is to be reported to the sender; of IPv4 a damaged one.
        unknown = bytes([17, 0, 0x9E, 4, 0, 0, 0, 0]) + SECRET
        packet = six(source, address, unknown, 64, 0) if is_six else four(
            source, address, SECRET, options=b"\x07\x40\x04\x00")
    return emit(by, packet)


def echo(source, address, by):
    """Asks for an echo (RFC 792, RFC 4443) of what is in it."""
    body = struct.pack("!BBHHH", 128 if ":" in source else 8, 0, 0, 7, 1) + SECRET
    if ":" not in source:
        body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
        return emit(by, four(source, address, body, protocol=1))
    return emit(by, icmp_six(source, address, body))


def by_frame(source, address, port, by):
    """A datagram in a frame to a hardware address that is named; whether it is answered."""
    sport = 41000 + sum((source + address + port + by).encode()) % 10000
    with bound(socket.socket(family(address), socket.SOCK_DGRAM), [f"from={source}/{sport}"]) as sock:
        emit(by, datagram(source, address, sport, int(port)))
        return "open" if sock.recv(5) == b"hello" else "odd"


def segment(source, address, ports, flags, sequence=(1000, 0)):
    """One of TCP. What is added up beside it is the same for IPv4 and IPv6."""
    body = struct.pack("!HHIIBBHHH", *ports, *sequence, 0x50, flags, 1000, 0, 0)
    ends = socket.inet_pton(family(source), source) + socket.inet_pton(family(address), address)
    total = checksum(ends + struct.pack("!IxxxB", len(body), 6) + body)
    return body[:16] + struct.pack("!H", total) + body[18:]


def begins(source, address, port, by):
    """The first segment of a connection, in the name of SOURCE."""
    body = segment(source, address, (41998, int(port)), 2)
    packet = six(source, address, body, header=6) if ":" in source else four(source, address, body, protocol=6)
    return emit(by, packet)


def asks(source, target):
    """Asks TARGET for its hardware address, in the name of SOURCE (RFC 826, RFC 4861): it remembers who asks."""
    to, own = hardware_address(target), own_address()
    if ":" not in source:
        head = struct.pack("!HHBBH", 1, 0x800, 6, 4, 1)
        return frame(to, b"\x08\x06" + head + own + socket.inet_aton(source) + bytes(6) + socket.inet_aton(target))
    body = struct.pack("!BBHI", 135, 0, 0, 0) + socket.inet_pton(socket.AF_INET6, target) + b"\1\1" + own
    return frame(to, b"\x86\xdd" + icmp_six(source, target, body, 255))


def fragment(following):
    """The header of a fragment that is the whole packet (RFC 8200 4.5)."""
    return struct.pack("!BBHI", following, 0, 0, 77)


FOR_DESTINATION = bytes([6, 0, 1, 4, 0, 0, 0, 0])


def hidden(source, address, port, by):
    """Where it is allowed: a header for the destination behind two of fragments, of which the kernel takes off one."""
    body = segment(source, address, (41999, int(port)), 2)
    return emit(by, six(source, address, fragment(44) + fragment(60) + FOR_DESTINATION + body, header=44))


def hidden_on_flow(source, address, port, by):
    """On a flow that is allowed: the same behind one that vouches for the packet (RFC 4302)."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as link:
        link.bind(("eth0", 3))
        link.settimeout(LIMIT)
        with bound(socket.socket(socket.AF_INET6, socket.SOCK_STREAM), [f"from={source}"]) as sock:
            sock.connect((address, int(port)))
            ports, sent = (sock.getsockname()[1], int(port)), b""
            # What acknowledges the greeting, or is sent after it.
            sock.recv(5)
            while len(sent) < 74 or struct.unpack("!HH", sent[54:58]) != ports or sent[67] & 2:
                sent = link.recv(2048)
            body = segment(source, address, ports, 16, struct.unpack("!II", sent[58:66]))
            vouching = bytes([60, 4, 0, 0]) + struct.pack("!II", 1, 1) + bytes(12)
            return emit(by, six(source, address, vouching + FOR_DESTINATION + body, header=51))


def routed(source, by, to, sport):
    """On a flow with the gateway BY, which is allowed, packets that say that they are to go on to TO."""
    asked = query([b"good", b"allowed", b"example"], "A")
    with bound(socket.socket(family(by), socket.SOCK_DGRAM), [f"from={source}/{sport}"]) as sock:
        sock.connect((by, 53))
        sock.send(asked)
        sock.recv(4096)
    body = struct.pack("!4H", int(sport), 53, 16, 0) + b"c2vjcmv0"
    if ":" not in by:
        for kind in (131, 137):
            options = bytes([kind, 7, 4]) + socket.inet_aton(to) + b"\0"
            emit(by, four(source, by, body, options=options))
        return "sent"
    ends = socket.inet_pton(socket.AF_INET6, to) + socket.inet_pton(socket.AF_INET6, by)
    # A header of segments (RFC 8754), by itself and behind one for the destination.
    segments = bytes([4, 4, 1, 1, 0, 0, 0]) + ends
    emit(by, six(source, by, b"\x11" + segments + body, 64, 43))
    emit(by, six(source, by, fragment(44) + fragment(43) + b"\x11" + segments + body, 64, 44))
    return emit(by, six(source, by, b"\x2b\0\1\4\0\0\0\0\x11" + segments + body, 64, 60))


def tagged(source, address, by, tags):
    """A datagram behind tags of VLANs: the digits of each, as they are in the frame."""
    return emit(by, four(source, address, SECRET), bytes.fromhex(tags))


def unknown_sender(source, address, by):
    """A datagram from a hardware address that no device has."""
    return emit(by, four(source, address, SECRET), sender=b"\x02\0\0\0\0\x63")


def with_options(source, address, by):
    """A datagram that has its way recorded (RFC 791), or is behind a header for its destination (RFC 8200)."""
    if ":" in address:
        return emit(by, six(source, address, bytes([17, 0, 1, 4, 0, 0, 0, 0]) + SECRET, 64, 60))
    return emit(by, four(source, address, SECRET, options=b"\x07\x07\x04\0\0\0\0\0"))


def carried(source, address, by, protocol, to=None):
    """A packet in a packet for the gateway (RFC 2003, RFC 2473, RFC 2784), in a frame to it or elsewhere."""
    inner = four(source, address, SECRET)
    if protocol == "47":
        inner = b"\0\0\x08\0" + inner
    if ":" in by:
        return emit(to or by, six("fd81:1::9", by, inner, 64, int(protocol)))
    return emit(to or by, four(source, by, inner, protocol=int(protocol)))


def claims(address, by):
    """News (ARP) that this container has an address of others."""
    own, at = own_address(), socket.inet_aton(address)
    for operation in (1, 2):
        announcement = struct.pack("!HHBBH", 1, 0x800, 6, 4, operation) + own + at + hardware_address(by) + at
        frame(b"\xff" * 6, b"\x08\x06" + announcement)
    return "sent"


def redirects(source, address, by):
    """Says that ADDRESS is reached by this container (RFC 792)."""
    inner = four(by, address, SECRET)
    body = struct.pack("!BBH", 5, 1, 0) + socket.inet_aton(source) + inner
    body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
    return emit(by, four(source, by, body, protocol=1))


def flags(source, address, by, which):
    """A segment with such flags (0x29: FIN, PSH and URG), which no TCP sends: it is of no connection."""
    body = segment(source, address, (41997, 443), int(which, 16))
    packet = six(source, address, body, header=6) if ":" in source else four(source, address, body, protocol=6)
    return emit(by, packet)
