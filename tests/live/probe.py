"""Connects to ports, all at once: probe.py lines `SOURCE HOST PORT`, and prints for each what comes.

`open`, `refused` (an answer that says no), or `silent`: nothing, though nothing else came for QUIET seconds."""
import errno, select, socket, sys, time

QUIET = 2.0
REFUSALS = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES)


def begin(source, host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    sock.bind((source, 0))
    try:
        sock.connect((host, int(port)))
    except BlockingIOError:
        pass
    except OSError as error:
        return sock, kind(error.errno)
    return sock, None


def kind(code):
    if code == 0:
        return "open"
    return "refused" if code in REFUSALS else errno.errorcode.get(code, str(code))


lines = [line.split() for line in sys.stdin if line.strip()]
socks = [begin(*line) for line in lines]
results = [result for _, result in socks]
poll = select.poll()
numbers = {}
for number, (sock, result) in enumerate(socks):
    if result is None:
        numbers[sock.fileno()] = number
        poll.register(sock, select.POLLOUT)
last = time.monotonic()
while numbers and time.monotonic() - last < QUIET:
    for descriptor, _ in poll.poll(100):
        number = numbers.pop(descriptor)
        poll.unregister(descriptor)
        results[number] = kind(socks[number][0].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        last = time.monotonic()
for line, result in zip(lines, results):
    print(*line, result or "silent")
