"""What passes between a container and a machine of what configures interfaces.

    passes.py FROM TO ADDRESS ADDRESS6

Sends it all from eth0 of the namespace FROM, whose addresses these are, and prints what comes to eth0 of the
namespace TO."""
import ctypes, ipaddress, os, socket, struct, sys

ALL, NEW_NET = 3, 0x40000000
sender_space, receiver_space, v4, v6 = sys.argv[1:]
own, own6 = ipaddress.ip_address(v4).packed, ipaddress.ip_address(v6).packed
everybody6 = ipaddress.ip_address("ff02::1").packed
# What is sent by one processor arrives in its order.
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def opened(namespace, protocol):
    space = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(space, NEW_NET):
        sys.exit(os.strerror(ctypes.get_errno()))
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
    made.bind(("eth0", protocol))
    made.settimeout(20)
    return made


def summed(pseudo, body, place):
    whole = pseudo + body + bytes(len(body) % 2)
    total = sum(struct.unpack(f">{len(whole) // 2}H", whole))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return body[:place] + struct.pack(">H", ~total & 0xFFFF) + body[place + 2:]


def datagram(name, source, target):
    return struct.pack(">HHHH", source, target, 8 + len(name), 0) + name


def packet(name, source, target):
    body = datagram(name, source, target)
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, 17, 0) + own + b"\xff" * 4
    return b"\x08\x00" + summed(b"", head, 10) + body


def packet6(protocol, body):
    place = {17: 6, 58: 2}[protocol]
    body = summed(own6 + everybody6 + struct.pack(">IxxxB", len(body), protocol), body, place)
    head = struct.pack(">IHBB", 0x60000000, len(body), protocol, 255)
    return b"\x86\xdd" + head + own6 + everybody6 + body


def message(name, number, fixed, options=b""):
    """The name is in an unknown option."""
    name += bytes(-(len(name) + 2) % 8)
    option = bytes([253, (len(name) + 2) // 8]) + name
    return packet6(58, bytes([number]) + bytes(fixed - 1) + options + option)


def probe(name, target):
    fixed = struct.pack(">HHBBH", 1, 0x0800, 6, 4, 1)
    return b"\x08\x06" + fixed + mac + bytes(4) + bytes(6) + target + name


out, into = opened(sender_space, 0), opened(receiver_space, ALL)
mac = out.getsockname()[4]
marked = lambda name: f"<{name}>".encode()
advertised = message(marked("tagged"), 134, 16)
frames = {
    "question": packet(marked("question"), 68, 67),
    "answer": packet(marked("answer"), 67, 68),
    "question6": packet6(17, datagram(marked("question6"), 546, 547)),
    "answer6": packet6(17, datagram(marked("answer6"), 547, 546)),
    "solicitation": message(marked("solicitation"), 133, 8, b"\1\1" + mac),
    "advertisement": message(marked("advertisement"), 134, 16),
    "redirect": message(marked("redirect"), 137, 40),
    "tagged": b"\x81\x00\0\0\x81\x00\0\0" + advertised,
    "probe": probe(marked("probe"), own),
    "claim": probe(marked("claim"), ipaddress.ip_address("10.74.2.99").packed),
    "last": packet(marked("last"), 9, 9),
}
for frame in frames.values():
    multicast = frame[:2] == b"\x86\xdd" or b"<tagged>" in frame
    out.send((b"\x33\x33\0\0\0\1" if multicast else b"\xff" * 6) + mac + frame)
seen = []
while "last" not in seen:
    frame, address = into.recvfrom(2048)
    if address[2] != socket.PACKET_OUTGOING:
        seen += [name for name in frames if marked(name) in frame]
print(*seen)
