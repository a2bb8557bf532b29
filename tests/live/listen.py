"""Listens at each given port, of both families, and takes every client until it is killed."""
import os, select, socket, sys

socks = []
for port in sys.argv[1:]:
    sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("::", int(port)))
    sock.listen(64)
    socks.append(sock)
if os.fork():
    sys.exit(0)
os.setsid()
for number in range(3):
    os.dup2(os.open("/dev/null", os.O_RDWR), number)
while True:
    for sock in select.select(socks, [], [])[0]:
        sock.accept()[0].close()
