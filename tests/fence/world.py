"""The world outside: a server of names, honest and otherwise, and listeners on every address.

world.py ASKED PORT…: writes each name that it is asked into the file ASKED, and each query as it came, in
hexadecimal digits, into ASKED.raw."""
import ipaddress, socket, struct, sys, threading

A, CNAME, TXT, AAAA, DNAME, HTTPS = 1, 5, 16, 28, 39, 65
ASKED = open(sys.argv[1], "a", buffering=1)
RAW = open(sys.argv[1] + ".raw", "a", buffering=1)


def wire(name):
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".") if part) + b"\0"


def record(name, kind, data, ttl=5):
    return wire(name) + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data


def address(name, text, ttl=5):
    parsed = ipaddress.ip_address(text)
    return record(name, A if parsed.version == 4 else AAAA, parsed.packed, ttl)


def alias(name, to):
    return record(name, CNAME, wire(to))


# What is answered: the records of the answer, and additional ones.
PLAIN = {
    "good": ["203.0.113.10"], "exact": ["203.0.113.16"], "private": ["10.66.0.1"],
    "meta": ["169.254.169.254"], "loop": ["127.0.0.1"], "host": ["203.0.113.254"],
    "mixed": ["203.0.113.11", "192.168.7.7"], "shared": ["203.0.113.10"], "static": ["10.66.0.20"],
    "six": ["2001:db8:113::10"], "private6": ["fd66::1"], "mapped": ["::ffff:10.66.0.1"],
    "nat64": ["64:ff9b::a42:1"], "gateway": ["10.81.1.1"], "other": ["10.81.2.9"],
    "zone": ["100.64.0.1"], "nothing": ["0.0.0.0"], "everybody": ["255.255.255.255"],
    "group": ["224.0.0.251"], "fresh": ["203.0.113.17"], "late": ["203.0.113.18"],
    "learned": ["203.0.113.19"], "docker": ["203.0.113.30"], "podman": ["203.0.113.31"],
    "reused": ["203.0.113.32"], "cut": ["203.0.113.33"], "stays": ["203.0.113.34"],
    "public": ["203.0.114.9"], "laden": ["203.0.113.35"], "held": ["203.0.113.36"],
    "led": ["203.0.115.9"], "led-later": ["203.0.115.77"],
    "broadcast": ["203.0.113.255"],
    "mates": ["203.0.113.38", "2001:db8:113::38"],
}


def answered(name, kind, by_tcp):
    first = name.split(".")[0]
    if kind == HTTPS:
        hint = struct.pack("!HH4s", 4, 4, ipaddress.ip_address("203.0.113.66").packed)
        return [record(name, HTTPS, b"\0\1\0" + hint)], []
    if kind == TXT:
        return [record(name, TXT, b"\x05hello")], []
    if first == "alias":
        return [alias(name, "one.evil.example"), alias("one.evil.example", "two.evil.example"),
                address("two.evil.example", "203.0.113.12")], []
    if first == "ring":
        return [alias(name, "ring.evil.example"), alias("ring.evil.example", name)], []
    if first == "poison":
        return ([address("evil.example", "203.0.113.66"), address(name, "203.0.113.13")],
                [address("evil.example", "203.0.113.67"), address(name, "203.0.113.68")])
    if first.startswith("crowd"):
        number = int(first[5:])
        return [address(name, f"198.51.{number // 250}.{1 + number % 250}")], []
    if first == "renamed":
        # With the alias that the record means, and without it (RFC 6672).
        return [record("allowed.example", DNAME, wire("evil.example")), alias(name, "renamed.evil.example"),
                address("renamed.evil.example", "203.0.113.37")], []
    if first == "renamed-only":
        return [record("allowed.example", DNAME, wire("evil.example")),
                address("renamed-only.evil.example", "203.0.113.69")], []
    if first == "missing":
        return [], [address(name, "203.0.113.69"), address("good.allowed.example", "203.0.113.69")]
    if first == "wrong":
        return [address(name, "203.0.113.14")], []
    if first == "zero":
        return [address(name, "203.0.113.15", 0)], []
    if first == "ever":
        return [address(name, "203.0.113.21", 0x7FFFFFFF)], []
    if first == "many":
        return [address(name, f"198.51.{100 + n // 250}.{1 + n % 250}") for n in range(500)], []
    found = [it for it in PLAIN.get(first, []) if (":" in it) == (kind == AAAA)]
    # What is opened by this one stays so for the whole of a test.
    ttl = 600 if first == "fresh" else 5
    return [address(name, it, ttl) for it in found], []


def reply(query, by_tcp):
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode(errors="replace").replace(".", "\\."))
        at += 1 + query[at]
    name, kind = ".".join(labels).lower(), struct.unpack("!H", query[at + 1 : at + 3])[0]
    ASKED.write(f"{name} {kind}\n")
    RAW.write(query.hex() + "\n")
    answers, more = answered(name, kind, by_tcp)
    body = b"".join(answers)
    is_cut = not by_tcp and len(body) > 1200
    counts = (1, 0, 0, 0) if is_cut else (1, len(answers), 0, len(more))
    flags = 0x8180 | (0x200 if is_cut else 0) | (3 if name.startswith("missing") else 0)
    head = query[:2] + struct.pack("!5H", flags, *counts) + query[12 : at + 5]
    return head + (b"" if is_cut else body + b"".join(more)), name


def forged(query):
    """An answer to another question under the number of this one."""
    other = wire("evil.example") + struct.pack("!HH", A, 1)
    return query[:2] + struct.pack("!5H", 0x8180, 1, 1, 0, 0) + other + address("evil.example", "203.0.113.68")


def held(sock, said, peer):
    """Answers when the test writes to the FIFO beside the file of names."""
    with open(sys.argv[1] + ".go") as go:
        go.read()
    sock.sendto(said, peer)
    ASKED.write("held answered\n")


def names_by_udp():
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.bind(("::", 53))
    while True:
        query, peer = sock.recvfrom(4096)
        said, name = reply(query, False)
        if name.startswith("held."):
            threading.Thread(target=held, args=(sock, said, peer)).start()
            continue
        if name.startswith("wrong."):
            sock.sendto(forged(query), peer)
        sock.sendto(said, peer)


def names_by_tcp(stream):
    whole = stream.recv(2)
    query = stream.recv(struct.unpack("!H", whole)[0])
    said, _ = reply(query, True)
    stream.sendall(struct.pack("!H", len(said)) + said)


def echo(stream):
    """Says hello, and repeats what it hears."""
    stream.sendall(b"hello\n")
    while data := stream.recv(4096):
        stream.sendall(data)


def accept(port, serve):
    sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("::", port))
    sock.listen(64)
    while True:
        stream, _ = sock.accept()
        threading.Thread(target=served, args=(serve, stream), daemon=True).start()


def served(serve, stream):
    with stream:
        try:
            serve(stream)
        except OSError:
            pass


def datagrams(port):
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.bind(("::", port))
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    while True:
        _, about, _, peer = sock.recvmsg(4096, 1024)
        # It answers from the address that it was called at.
        about = [(level, kind, data[:16] + bytes(4)) for level, kind, data in about]
        try:
            sock.sendmsg([b"hello\n"], about, 0, peer)
        except OSError:
            pass


jobs = [(names_by_udp,), (accept, 53, names_by_tcp)]
for port in map(int, sys.argv[2:]):
    jobs += [(accept, port, echo), (datagrams, port)]
for job, *args in jobs:
    threading.Thread(target=job, args=args).start()
