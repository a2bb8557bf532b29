"""Has the host look for neighbours, or remember them. One argument: a way of doing so. It is sent to the gateway in
frames for it, in the name of one address after the other, or to one after the other."""
import socket, struct, sys

WAY, NUMBER = sys.argv[1], int(sys.argv[2])
FOUR, SIX = sys.argv[3], sys.argv[4]
PREFIX4, PREFIX6 = FOUR.rpartition(".")[0], SIX.rpartition("::")[0]
OWN4, OWN6 = f"{PREFIX4}.10", f"{PREFIX6}::10"


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def checksum(data):
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def of_link(number):
    return f"fe80::1234:5600:{number:x}"


def solicitation(source):
    return icmp_six(source, SIX, struct.pack("!BBHI", 135, 0, 0, 0) + v6(SIX) + b"\1\1" + own_address(), 255)


def v6(address):
    return socket.inet_pton(socket.AF_INET6, address)


def arp(source):
    asks = struct.pack("!HHBBH", 1, 0x800, 6, 4, 1) + own_address() + socket.inet_aton(source)
    return asks + bytes(6) + socket.inet_aton(FOUR)


BODY = struct.pack("!4H", 4000, 9, 8, 0)
ROUTERS = "ff02::2"
to = hardware_address(FOUR)
mate = hardware_address(f"{PREFIX4}.11") if WAY == "to-mate" else None
for number in range(NUMBER):
    other4, other6 = f"{PREFIX4}.{20 + number}", f"{PREFIX6}::7:{number:x}"
    if WAY == "solicits":
        frame(to, b"\x86\xdd" + solicitation(of_link(number)))
    elif WAY == "solicits-routers":
        asks = struct.pack("!BBHI", 133, 0, 0, 0) + b"\1\1" + own_address()
        frame(to, b"\x86\xdd" + icmp_six(of_link(number), ROUTERS, asks, 255))
    elif WAY == "solicits-in-subnet":
        frame(to, b"\x86\xdd" + solicitation(other6))
    elif WAY == "seeks":
        frame(to, b"\x08\x00" + four(OWN4, other4, BODY))
    elif WAY == "seeks-six":
        frame(to, b"\x86\xdd" + six(OWN6, other6, BODY))
    elif WAY == "seeks-of-link":
        frame(to, b"\x86\xdd" + six(OWN6, of_link(number), BODY))
    elif WAY == "to-mate":
        frame(mate, b"\x08\x00" + four(OWN4, other4, BODY))
        frame(mate, b"\x86\xdd" + six(OWN6, other6, BODY))
    elif WAY == "by-host":
        # What is sent to a neighbour that is there, by way of this host.
        frame(to, b"\x08\x00" + four(OWN4, f"{PREFIX4}.11", BODY))
        frame(to, b"\x86\xdd" + six(OWN6, f"{PREFIX6}::11", BODY))
    elif WAY == "arp":
        frame(to, b"\x08\x06" + arp(other4))
    elif WAY == "sends-from-link-to-one":
        frame(to, b"\x86\xdd" + six(of_link(number), f"{PREFIX6}::8:{number % 20:x}", BODY))
    else:
        sys.exit(f"no way: {WAY}")
