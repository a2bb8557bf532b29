"""What reaches others when a container sends frames that no network stack would send.

spoof.py FROM TO: frames from standard input, one a line in hexadecimal, are sent through eth0 of the
namespace FROM. What comes to eth0 of the namespace TO, and to br0 of this one, is printed, each behind
one letter, until the last frame is there.
"""

import ctypes
import os
import socket
import struct
import sys

ALL = 3
EVERYBODY = (b"\xff" * 6, b"\x33\x33\x00\x00\x00\x01")


def opened(namespace, interface, protocol):
    libc = ctypes.CDLL(None, use_errno=True)
    file = os.open(namespace, os.O_RDONLY)
    if libc.setns(file, 0x40000000):
        raise OSError(ctypes.get_errno(), namespace)
    os.close(file)
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
    made.bind((interface, protocol))
    made.settimeout(20)
    return made


def checked(frame):
    """The frame with the checksum of its ICMPv6 or ICMP message, where it has one of these."""
    at = 14
    while frame[at - 2 : at] in (b"\x81\x00", b"\x88\xa8"):
        at += 4
    if frame[at - 2 : at] == b"\x86\xdd":
        ip, body = frame[at : at + 40], frame[at + 40 :]
        head, kind = b"", ip[6]
        while kind in (0, 60):
            length = 8 + 8 * body[1]
            kind, head, body = body[0], head + body[:length], body[length:]
        pseudo = ip[8:40] + struct.pack(">IxxxB", len(body), 58)
        return frame[:at] + ip + head + summed(pseudo, body, 2)
    if frame[at - 2 : at] == b"\x08\x00":
        ip, body = frame[at : at + 20], frame[at + 20 :]
        return frame[:at] + summed(b"", ip, 10) + summed(b"", body, 2)
    return frame


def summed(pseudo, body, place):
    whole = pseudo + body + b"\0" * (len(body) % 2)
    total = sum(struct.unpack(f">{len(whole) // 2}H", whole))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return body[:place] + struct.pack(">H", ~total & 0xFFFF) + body[place + 2 :]


here = f"/proc/self/task/{os.getpid()}/ns/net"
witnesses = {"h": opened(here, "br0", ALL), "n": opened(sys.argv[2], "eth0", ALL)}
sender = opened(sys.argv[1], "eth0", 0)
frames = [bytes.fromhex(line) for line in sys.stdin.read().split()]
sources = {frame[6:12] for frame in frames} | {sender.getsockname()[4]}
for frame in frames:
    sender.send(checked(frame))
last = checked(frames[-1])
for letter, witness in witnesses.items():
    while True:
        frame, address = witness.recvfrom(2048)
        if address[2] == socket.PACKET_OUTGOING or frame[:6] not in EVERYBODY:
            continue
        if frame[6:12] not in sources:
            continue
        print(letter, frame.hex())
        if frame == last:
            break
