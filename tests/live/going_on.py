"""Two clients of the published port 8080, `near` in a subnet of this host and `far` beyond it, hold a
connection each while a command (the arguments) runs. Says whose data arrives before and after it."""
import select, socket, subprocess, sys


def client(source):
    return lambda: socket.create_connection(("192.0.2.1", 8080), 5, (source, 0))


server = within("/run/netns/web", lambda: socket.create_server(("", 7)))
held = {}
for name, source in (("near", "192.0.2.2"), ("far", "198.51.100.7")):
    mine = within("/run/netns/lan", client(source))
    held[name] = (mine, server.accept()[0])


def arriving():
    # The far one first: what passes is there before what the near one sends after it.
    for name in ("far", "near"):
        held[name][0].send(b"x")
    select.select([held["near"][1]], [], [], 5)
    ready, _, _ = select.select([theirs for _, theirs in held.values()], [], [], 0)
    for theirs in ready:
        theirs.recv(16)
    return sorted(name for name, (_, theirs) in held.items() if theirs in ready)


before = arriving()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print("before", *before, "after", *arriving())
