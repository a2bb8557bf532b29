"""Tries to get out: attempt.py reads lines `NAME KIND ARGUMENTS…`, and prints `NAME RESULT` for each.

All at once; what hears nothing within LIMIT seconds is `shut`."""
import socket, struct, subprocess, sys, threading

LIMIT = 1.0
TYPES = {"A": 1, "CNAME": 5, "MX": 15, "TXT": 16, "AAAA": 28, "HTTPS": 65, "SVCB": 64, "ANY": 255, "CAA": 257}
CODES = {0: "", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def bound(sock, options):
    for option in options:
        key, value = option.split("=")
        if key == "from":
            host, _, port = value.partition("/")
            sock.bind(socket.getaddrinfo(host, int(port or 0))[0][4])
        if key == "device":
            sock.setsockopt(socket.SOL_SOCKET, 25, value.encode())
        if key == "mark":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, int(value, 16))
    sock.settimeout(LIMIT)
    return sock


def tcp(address, port, *options):
    with bound(socket.socket(family(address), socket.SOCK_STREAM), options) as sock:
        # With the interface, for an address of a link.
        sock.connect(socket.getaddrinfo(address, int(port), type=socket.SOCK_STREAM)[0][4])
        return "open" if sock.recv(5) == b"hello" else "odd"


def udp(address, port, *options):
    with bound(socket.socket(family(address), socket.SOCK_DGRAM), options) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sock.connect(socket.getaddrinfo(address, int(port), type=socket.SOCK_DGRAM)[0][4])
        sock.send(b"x")
        return "open" if sock.recv(5) == b"hello" else "odd"


def opened_fast(address, port):
    """What is sent with the first packet (RFC 7413)."""
    with bound(socket.socket(family(address), socket.SOCK_STREAM), ()) as sock:
        try:
            sock.sendto(b"x", socket.MSG_FASTOPEN, (address, int(port)))
        except BlockingIOError:
            pass
        return "open" if sock.recv(5) == b"hello" else "odd"


def big(address, port):
    """A datagram in fragments."""
    with bound(socket.socket(family(address), socket.SOCK_DGRAM), ()) as sock:
        sock.connect((address, int(port)))
        sock.send(b"x" * 4000)
        return "open" if sock.recv(5) == b"hello" else "odd"


def ping(address):
    kind, reply, protocol = (128, 129, 58) if ":" in address else (8, 0, 1)
    with bound(socket.socket(family(address), socket.SOCK_RAW, protocol), ()) as sock:
        head = struct.pack("!BBHHH", kind, 0, 0, 77, 1)
        if protocol == 1:
            total = sum(struct.unpack("!4H", head))
            total = (total & 0xFFFF) + (total >> 16)
            head = head[:2] + struct.pack("!H", ~total & 0xFFFF) + head[4:]
        sock.connect((address, 0))
        sock.send(head)
        # Of IPv4 with its header. Errors about other packets come here, too.
        while sock.recv(100)[20 if protocol == 1 else 0] != reply:
            pass
        return "open"


def raw(address, protocol, *options):
    """A packet of any protocol: whether it arrives is seen elsewhere."""
    with bound(socket.socket(family(address), socket.SOCK_RAW, int(protocol)), options) as sock:
        sock.sendto(b"\0" * 40, (address, 0))
        return "sent"


def spoof(source, address, port):
    """A datagram in another's name: whether it arrives is seen elsewhere."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:
        body = struct.pack("!4H", 4000, int(port), 9, 0) + b"x"
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 1, 0, 64, 17, 0,
                           socket.inet_aton(source), socket.inet_aton(address))
        sock.sendto(head + body, (address, 0))
        return "sent"


def message(address, port, host):
    """An ICMP error about a flow of another, which the kernel finds related to it."""
    inner = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 29, 1, 0, 64, 17, 0,
                        socket.inet_aton(address), socket.inet_aton(host))
    inner += struct.pack("!4H", int(port), 4000, 9, 0)
    body = struct.pack("!BBHI", 3, 1, 0, 0) + inner
    total = sum(struct.unpack(f"!{len(body) // 2}H", body))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    body = body[:2] + struct.pack("!H", ~total & 0xFFFF) + body[4:]
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sock:
        sock.sendto(body, (address, 0))
        return "sent"


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF or 0xFFFF


def datagram(source, address, sport, port):
    """An IP packet with a datagram of UDP."""
    inet = family(address)
    ends = socket.inet_pton(inet, source) + socket.inet_pton(inet, address)
    body = struct.pack("!4H", sport, port, 9, 0) + b"x"
    pseudo = ends + (struct.pack("!IxxxB", 9, 17) if inet == socket.AF_INET6 else struct.pack("!xBH", 17, 9))
    body = body[:6] + struct.pack("!H", checksum(pseudo + body)) + body[8:]
    if inet == socket.AF_INET6:
        return struct.pack("!IHBB", 6 << 28, 9, 17, 64) + ends + body
    head = struct.pack("!BBHHHBBH", 0x45, 0, 29, 1, 0, 64, 17, 0) + ends
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + body


def link(source, kind, target="fd81:5::10"):
    """A message of ICMPv6 to all nodes of the link, about this address."""
    target = socket.inet_pton(socket.AF_INET6, target)
    body = bytes([int(kind), 0, 0, 0, 0, 0, 0, 0])
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind(("eth0", 0))
        own = sock.getsockname()[4]
        if kind == "135":
            body += target + (b"\1\1" + own if source != "::" else b"")
        if kind == "136":
            body += target + b"\2\1" + own
        if kind == "133":
            body += b"\1\1" + own
        ends = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, "ff02::1")
        total = checksum(ends + struct.pack("!IxxxB", len(body), 58) + body)
        body = body[:2] + struct.pack("!H", total) + body[4:]
        head = struct.pack("!IHBB", 6 << 28, len(body), 58, 255) + ends
        sock.send(b"\x33\x33\0\0\0\1" + own + b"\x86\xdd" + head + body)
    return "sent"


def answer(address, port, by):
    """Begins a flow in the name of ADDRESS towards itself, by way of BY, and answers it."""
    own = "fd81:1::9" if ":" in address else "10.81.1.9"
    own, zone = ("fe80::9", "%eth0") if address.startswith("fe80:") else (own, "")
    sport = 20000 + sum((address + by).encode()) % 20000
    emit(by + zone, datagram(address, own, int(port), sport))
    return udp(address + zone, port, f"from={own}{zone}/{sport}")


def query(labels, kind):
    body = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    return struct.pack("!6H", 4711, 0x100, 1, 0, 0, 0) + body + struct.pack("!2H", TYPES[kind], 1)


def exchange(server, message, over, limit=10):
    if over == "udp":
        with socket.socket(family(server), socket.SOCK_DGRAM) as sock:
            sock.settimeout(limit)
            sock.connect(socket.getaddrinfo(server, 53, type=socket.SOCK_DGRAM)[0][4])
            sock.send(message)
            return sock.recv(65535)
    with socket.socket(family(server), socket.SOCK_STREAM) as sock:
        sock.settimeout(10)
        sock.connect((server, 53))
        sock.sendall(struct.pack("!H", len(message)) + message)
        stream = sock.makefile("rb")
        return stream.read(struct.unpack("!H", stream.read(2))[0])


def skip(data, at):
    while data[at] and data[at] < 192:
        at += 1 + data[at]
    return at + (2 if data[at] >= 192 else 1)


def said(data):
    number, flags, questions, answers, _, more = struct.unpack("!6H", data[:12])
    assert number == 4711 and flags & 0x8000, data
    if flags & 15:
        return CODES[flags & 15]
    if flags & 0x200:
        return "truncated"
    at, found, longest = 12, [], 0
    for _ in range(questions):
        at = skip(data, at) + 4
    for _ in range(answers):
        at = skip(data, at)
        kind, _, ttl, length = struct.unpack("!2HIH", data[at : at + 10])
        at += 10
        longest = max(longest, ttl)
        if kind in (1, 28):
            found.append(socket.inet_ntop(family(":" if kind == 28 else ""), data[at : at + length]))
        elif kind != 5:
            found.append(f"type{kind}")
        at += length
    assert longest <= 3600, "a time to live of %d" % longest
    found = sorted(set(found)) if len(found) < 20 else [f"{len(set(found))} addresses"]
    return ",".join(found + ["additional"] * (more > 0)) or "nothing"


def ask(server, name, kind="A", over="udp"):
    return said(exchange(server, query([part.encode() for part in name.split(".")], kind), over))


def dotted(server, first, rest):
    """A label with a dot in it."""
    labels = [first.replace("!", ".").encode()] + [part.encode() for part in rest.split(".")]
    return said(exchange(server, query(labels, "A"), "udp"))


def option(code, data):
    return struct.pack("!2H", code, len(data)) + data


def laden(server, name, flags, size, payload, over="udp"):
    """A query that carries whatever its form has room for: the case of letters, bits of its header and of
    EDNS, and options (client subnet, cookie, padding, one for local use)."""
    head = query([part.encode() for part in name.split(".")], "A")
    head = head[:2] + struct.pack("!5H", int(flags, 16), 1, 0, 0, 1) + head[12:]
    data = payload.encode()
    options = option(8, b"\0\1\x18\0" + data[:3]) + option(10, data[:8].ljust(8, b"x"))
    options += option(12, data) + option(65001, data)
    edns = b"\0" + struct.pack("!2HIH", 41, int(size), 0x8000, len(options)) + options
    return said(exchange(server, head + edns, over))


def unheard(server, name):
    """Asks one that does not answer."""
    return said(exchange(server, query([part.encode() for part in name.split(".")], "A"), "udp", LIMIT))


def formed(server, name, flags, questions, kind):
    """A message that is no plain query: bits of the header, so many questions, and their class."""
    asked = query([part.encode() for part in name.split(".")], "A")
    asked = asked[:-2] + struct.pack("!H", int(kind))
    asked = asked[:2] + struct.pack("!5H", int(flags, 16), int(questions), 0, 0, 0) + asked[12:] * int(questions)
    return said(exchange(server, asked, "udp", LIMIT))


def pipelined(server, *names):
    """Several queries in one piece of a connection (RFC 7766 6.2.1.1); what each is answered."""
    asked = [query([part.encode() for part in name.split(".")], "A") for name in names]
    with socket.socket(family(server), socket.SOCK_STREAM) as sock:
        sock.settimeout(10)
        sock.connect((server, 53))
        sock.sendall(b"".join(struct.pack("!H", len(one)) + one for one in asked))
        stream = sock.makefile("rb")
        return ",".join(said(stream.read(struct.unpack("!H", stream.read(2))[0])) for _ in asked)


def crowd(server, count, domain):
    """Asks for so many names at once, as fast as it can, and says whether any was answered."""
    with socket.socket(family(server), socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
        sock.settimeout(LIMIT)
        sock.connect((server, 53))
        for one in range(int(count)):
            sock.send(query([b"crowd%d" % one] + [part.encode() for part in domain.split(".")], "A"))
        return "answered" if sock.recv(4096) else "nothing"


def tried(line, results):
    name, kind, *args = line.split()
    try:
        results[name] = globals()[kind](*args)
    except (TimeoutError, socket.timeout):
        results[name] = "shut"
    except OSError as error:
        results[name] = "shut" if error.errno in (101, 111, 113) else f"failed:{error}".replace(" ", "_")


results = {}
lines = [line for line in sys.stdin.read().splitlines() if line.strip()]
threads = [threading.Thread(target=tried, args=(line, results)) for line in lines]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for line in lines:
    name = line.split()[0]
    print(name, results.get(name, "failed"))
