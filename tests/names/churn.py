"""Containers that come and go while their names are asked for: churn.py SECONDS CONTAINERS GATEWAY.

Each is asked for as soon as it is there, and as soon as it is gone; the others meanwhile, all the time. Prints every
answer that is wrong or missing, and last how long answers took. Runs on the host, and asks from the namespace
`asker`."""
import ctypes, os, random, socket, subprocess, sys, threading, time

SECONDS, CONTAINERS, GATEWAY = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
WORKERS, ASKERS = 4, 1
SPOKE = "/opt/cni/bin/spoke"
LIBC = ctypes.CDLL(None, use_errno=True)
HOST = os.open("/proc/self/ns/net", os.O_RDONLY)
ASKER = os.open("/run/netns/asker", os.O_RDONLY)
MISSING = "nothing"


class Asks:
    """A socket in the namespace of the asker, of one thread."""

    def __init__(self):
        assert LIBC.setns(ASKER, 0) == 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        assert LIBC.setns(HOST, 0) == 0
        self.socket.settimeout(10)
        self.socket.connect((GATEWAY, 53))
        self.took = []

    def ask(self, name):
        number = random.randrange(1, 65536)
        asked = number.to_bytes(2, "big") + bytes.fromhex("01000001000000000000")
        for label in f"{name}.front.spoke".split("."):
            asked += bytes([len(label)]) + label.encode()
        asked += bytes.fromhex("0000010001")
        since = time.monotonic()
        self.socket.send(asked)
        try:
            said = self.socket.recv(4096)
            while said[:2] != asked[:2]:
                said = self.socket.recv(4096)
        except TimeoutError:
            return "no answer"
        self.took.append(time.monotonic() - since)
        if said[3] & 15 == 3:
            return MISSING
        if said[3] & 15 or said[6:8] != b"\0\1":
            return f"rcode {said[3] & 15}, {said[7]} records"
        return socket.inet_ntoa(said[-4:])


standing, lock, problems, counts = {}, threading.Lock(), [], [0, 0]
done, took = threading.Event(), []


def run(*words):
    finished = subprocess.run([SPOKE, "network", *words], capture_output=True, text=True)
    assert finished.returncode == 0, finished


def is_answered(asks, name, expected, when):
    said = asks.ask(name)
    if said != expected:
        problems.append(f"{name} {when}: {said} and not {expected}")


def comes(asks, box, name):
    run("connect", "--container", name, "front", box)
    shown = subprocess.check_output(["ip", "-n", box, "-4", "-o", "address", "show", "dev", "eth0"], text=True)
    address = shown.split(" inet ")[1].split("/")[0]
    is_answered(asks, name, address, "has come")
    with lock:
        standing[name] = address
        counts[0] += 1


def goes(asks, name):
    with lock:
        del standing[name]
        counts[1] += 1
    run("disconnect", "front", name)
    is_answered(asks, name, MISSING, "is gone")


def works(worker):
    """More come than go, until all are there."""
    asks, there, number = Asks(), {}, 0
    free = [f"box{at}" for at in range(worker, CONTAINERS, WORKERS)]
    while not done.is_set():
        if there and (not free or random.random() < 0.45):
            box = random.choice(list(there))
            goes(asks, there.pop(box))
            free.append(box)
        else:
            box = free.pop(random.randrange(len(free)))
            number += 1
            there[box] = f"c{worker}-{number}"
            comes(asks, box, there[box])
    took.extend(asks.took)


def asks_always():
    asks = Asks()
    while not done.is_set():
        with lock:
            known = list(standing.items())
        if not known:
            continue
        name, address = random.choice(known)
        said = asks.ask(name)
        with lock:
            is_there = standing.get(name) == address
        if is_there and said != address:
            problems.append(f"{name} is there: {said} and not {address}")
    took.extend(asks.took)


def guarded(job, *args):
    try:
        job(*args)
    except Exception as error:
        problems.append(f"{job.__name__}: {error!r}")
        done.set()


threads = [threading.Thread(target=guarded, args=(works, at)) for at in range(WORKERS)]
threads += [threading.Thread(target=guarded, args=(asks_always,)) for _ in range(ASKERS)]
for thread in threads:
    thread.start()
done.wait(SECONDS)
done.set()
for thread in threads:
    thread.join()
print("\n".join(problems))
took.sort()
at = [took[min(len(took) - 1, len(took) * part // 1000)] * 1000 for part in (500, 990, 1000)]
late = sum(it > 0.1 for it in took)
print(f"{counts[0]} came, {counts[1]} went; {len(took)} answers, p50 {at[0]:.2f} ms, p99 {at[1]:.2f} ms, "
      f"max {at[2]:.2f} ms, {late} after 100 ms")
