"""Runs a program as a service that keeps sockets (sd_notify(3), FDSTORE=1): managed.py FOLDER COMMAND...

Starts it again when it has ended, and something was written to FOLDER/again. The command is completed by what runs
it with the sockets."""
import os, select, socket, sys

folder, command = sys.argv[1], sys.argv[2:]
notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notices.bind(folder + "/notify")
os.mkfifo(folder + "/again")
kept = {}


def start():
    names = list(kept)
    child = os.fork()
    if child:
        return child
    high = 200
    for at, name in enumerate(names):
        os.dup2(kept[name], high + at)
    for at in range(len(names)):
        os.dup2(high + at, 3 + at, inheritable=True)
    os.closerange(3 + len(names), high + len(names))
    passed = "LISTEN_FDS=%d LISTEN_FDNAMES=%s LISTEN_PID=$$" % (len(names), ":".join(names)) if names else ""
    run = 'NOTIFY_SOCKET=/world/notify %s exec "$@"' % passed
    os.execv(command[0], command + ["sh", "-c", run, "sh", "/opt/cni/bin/spoke", "serve"])


def hear():
    message, sockets, _, _ = socket.recv_fds(notices, 4096, 8)
    said = dict(line.split("=", 1) for line in message.decode().splitlines())
    name = said.get("FDNAME")
    if "FDSTORE" in said:
        kept[name] = sockets[0]
    elif "FDSTOREREMOVE" in said and name in kept:
        os.close(kept.pop(name))


while True:
    child = start()
    ended = os.pidfd_open(child)
    while True:
        ready = select.select([notices, ended], [], [])[0]
        if notices in ready:
            hear()
        else:
            break
    os.close(ended)
    os.waitpid(child, 0)
    open(folder + "/again").read()
