"""Asks a server for records: ask.py [--tcp] SERVER NAME [TYPE]. Prints what it says, sorted."""
import ipaddress, socket, struct, sys

TYPES = {"A": 1, "PTR": 12, "TXT": 16, "AAAA": 28}
CODES = {0: "", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}


def name_at(data, at):
    labels, end = [], None
    while data[at]:
        if data[at] >= 192:
            end = end or at + 2
            at = struct.unpack("!H", data[at : at + 2])[0] & 0x3FFF
            continue
        labels.append(data[at + 1 : at + 1 + data[at]].decode())
        at += 1 + data[at]
    return ".".join(labels), end or at + 1


def ask(server, name, kind, tcp):
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    query = struct.pack("!6H", 4711, 0x100, 1, 0, 0, 0)
    for label in filter(None, name.split(".")):
        query += bytes([len(label)]) + label.encode()
    query += b"\0" + struct.pack("!2H", TYPES[kind], 1)
    with socket.socket(family, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as s:
        s.settimeout(10)
        s.connect((server, 53))
        if not tcp:
            s.send(query)
            return s.recv(65535)
        s.sendall(struct.pack("!H", len(query)) + query)
        stream = s.makefile("rb")
        return stream.read(struct.unpack("!H", stream.read(2))[0])


def said(data):
    number, flags, questions, answers, _, _ = struct.unpack("!6H", data[:12])
    assert number == 4711 and flags & 0x8000, data
    if flags & 15:
        return CODES[flags & 15]
    if flags & 0x200:
        return "truncated"
    at, found = 12, []
    for _ in range(questions):
        at = name_at(data, at)[1] + 4
    for _ in range(answers):
        at = name_at(data, at)[1]
        kind, _, _, length = struct.unpack("!2HIH", data[at : at + 10])
        at += 10
        if kind in (1, 28):
            found.append(str(ipaddress.ip_address(data[at : at + length])))
        elif kind == 12:
            found.append(name_at(data, at)[0])
        at += length
    return " ".join(sorted(found))


arguments = [one for one in sys.argv[1:] if one != "--tcp"]
server, name, kind = (arguments + ["A"])[:3]
print(said(ask(server, name, kind, "--tcp" in sys.argv)))
