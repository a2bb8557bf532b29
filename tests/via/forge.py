# Sends what a host answers in the name of others: raw packets with sources that are not this container's.
import socket
import struct
import sys

HOST4, HOST6, FAR4, FAR6, FORGED4, FORGED6 = sys.argv[1:7]


def sum16(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def filled(protocol, source, destination, segment, at):
    pseudo = source + destination + struct.pack(">II", len(segment), protocol)
    return segment[:at] + struct.pack(">H", sum16(pseudo + segment)) + segment[at + 2 :]


def segments(source, destination, echo):
    udp = struct.pack(">HHHH", 4444, 9, 16, 0) + b"x" * 8
    syn = struct.pack(">HHIIBBHHH", 4444, 9, 1, 0, 0x50, 2, 1024, 0, 0)
    ping = struct.pack(">BBHHH", echo, 0, 0, 1, 1) + b"x" * 8
    yield 17, filled(17, source, destination, udp, 6)
    yield 6, filled(6, source, destination, syn, 16)
    if echo == 8:
        yield 1, ping[:2] + struct.pack(">H", sum16(ping)) + ping[4:]
    else:
        yield 58, filled(58, source, destination, ping, 2)


four = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
six = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
forged4, forged6 = socket.inet_pton(socket.AF_INET, FORGED4), socket.inet_pton(socket.AF_INET6, FORGED6)


def send4(to, ttl, protocol, segment, fragment=0):
    target = socket.inet_pton(socket.AF_INET, to)
    length = 20 + len(segment)
    header = struct.pack(">BBHHHBBH", 0x45, 0, length, 7, fragment, ttl, protocol, 0)
    four.sendto(header + forged4 + target + segment, (to, 0))


def send6(to, ttl, following, payload):
    target = socket.inet_pton(socket.AF_INET6, to)
    header = struct.pack(">IHBB", 6 << 28, len(payload), following, ttl)
    six.sendto(header + forged6 + target + payload, (to, 0))


for to, ttl in [(HOST4, 64), (FAR4, 1)]:
    for protocol, segment in segments(forged4, socket.inet_pton(socket.AF_INET, to), 8):
        send4(to, ttl, protocol, segment)
send4(HOST4, 64, 17, struct.pack(">HHHH", 4444, 9, 400, 0) + b"x" * 8, 0x2000)
for to, ttl in [(HOST6, 64), (FAR6, 1)]:
    for protocol, segment in segments(forged6, socket.inet_pton(socket.AF_INET6, to), 128):
        send6(to, ttl, protocol, segment)
# The first fragment alone, and an option of which every hop has to report that it does not know it.
send6(HOST6, 64, 44, struct.pack(">BBHI", 17, 0, 1, 7) + struct.pack(">HHHH", 4444, 9, 400, 0))
send6(HOST6, 64, 0, struct.pack(">BBBBI", 17, 0, 0x9E, 4, 0) + struct.pack(">HHHH", 4444, 9, 8, 0))
