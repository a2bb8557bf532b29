# Sends to an address of each family all the time, whatever becomes of it.
import select
import socket

TO = [(socket.AF_INET, "198.51.100.7"), (socket.AF_INET6, "2001:db8:77::7")]
sockets = [(socket.socket(family, socket.SOCK_DGRAM), address) for family, address in TO]
while True:
    for one, address in sockets:
        try:
            one.sendto(b"x" * 100, (address, 7777))
        except OSError:
            pass
    select.select([], [], [], 0.001)
