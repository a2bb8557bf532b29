"""Stands for a virtual machine: has the tap device open, and leads its packets to `eth0` of a namespace.

    machine.py TAP NETNS MAC

It goes on in the background until the namespace's interface, or the device, is gone."""
import ctypes, fcntl, os, select, struct, subprocess, sys

TUNSETIFF, TAP, NO_PI, NEW_NET = 0x400454CA, 2, 0x1000, 0x40000000
tap, netns, mac = sys.argv[1:]


def opened(name):
    fd = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH", name.encode(), TAP | NO_PI))
    return fd


outer = opened(tap)
space = os.open(f"/run/netns/{netns}", os.O_RDONLY)
if ctypes.CDLL(None, use_errno=True).setns(space, NEW_NET):
    sys.exit(os.strerror(ctypes.get_errno()))
inner = opened("eth0")
for change in (f"address {mac}", "up"):
    subprocess.run(["ip", "link", "set", "eth0", *change.split()], check=True)
if os.fork():
    sys.exit(0)
os.setsid()
for number in range(3):
    os.dup2(os.open("/dev/null", os.O_RDWR), number)
while True:
    for fd in select.select([outer, inner], [], [])[0]:
        try:
            os.write(inner if fd == outer else outer, os.read(fd, 65536))
        except OSError as error:
            # Down for a moment, as a program sees it: only the end of a device is the end.
            if error.errno in (19, 77):
                sys.exit(0)
