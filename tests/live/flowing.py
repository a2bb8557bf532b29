"""Holds TCP connections. The arguments are pairs: the namespace of the client, and `NAMESPACE,ADDRESS` of the
server. For each line that comes in, data goes over each in both directions, and a line says so."""
import socket, sys

held = []
for client, server in zip(sys.argv[1::2], sys.argv[2::2]):
    path, address = server.split(",")
    listener = within(path, lambda: socket.create_server((address, 0)))
    at = listener.getsockname()
    mine = within(client, lambda: socket.create_connection(at, 10))
    held.append((mine, listener.accept()[0]))
for line in sys.stdin:
    for pair in held:
        for one, other in (pair, pair[::-1]):
            one.settimeout(10)
            other.settimeout(10)
            one.sendall(line.encode())
            assert other.recv(len(line)) == line.encode()
    print("flows", flush=True)
