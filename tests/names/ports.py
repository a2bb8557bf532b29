"""Asks every UDP socket at 127.0.0.11 in this namespace for a name, directly. Prints what each says."""
import socket, struct

query = struct.pack("!6H", 4711, 0x100, 1, 0, 0, 0)
query += b"\7outside\7example\5fence\0" + struct.pack("!2H", 1, 1)
for line in list(open("/proc/net/udp"))[1:]:
    address, port = line.split()[1].split(":")
    if address != "0B00007F":
        continue
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(1)
        s.connect(("127.0.0.11", int(port, 16)))
        try:
            s.send(query)
            print(port, {3: "NXDOMAIN"}.get(s.recv(512)[3] & 15), sep=": ")
        except OSError:
            print(port, "nothing", sep=": ")
