"""A connection over which each byte comes back: flow.py [SERVER]. Without a server it is one, for one connection; else
it sends until it gets SIGTERM, and prints how many bytes came back."""
import signal, socket, sys

if len(sys.argv) == 1:
    with socket.create_server(("", 7000)) as listening:
        print("listens", flush=True)
        connection = listening.accept()[0]
    while data := connection.recv(4096):
        connection.sendall(data)
    sys.exit()

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
with socket.create_connection((sys.argv[1], 7000), 30) as connection:
    print("connected", flush=True)
    count = 0
    # A pace, until the signal is there.
    while signal.sigtimedwait([signal.SIGTERM], 0.01) is None:
        connection.sendall(b"x")
        if connection.recv(1) != b"x":
            sys.exit("the connection has ended")
        count += 1
print("came back:", count)
