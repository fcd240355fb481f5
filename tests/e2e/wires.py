"""Links from a switch to hosts on which every frame is delayed.

usage: wires.py DELAY_MS SWITCH_PID PORT=HOST_PID...

Creates a device PORT in the network namespace of SWITCH_PID and a device eth0
in that of HOST_PID, prints a line, and forwards frames until its stdin ends.
For kernels that cannot delay packets themselves.
"""

import ctypes
import fcntl
import os
import select
import struct
import sys
import time
from collections import deque

FRAME_BYTES_MAX = 1 << 16
CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000

_libc = ctypes.CDLL(None, use_errno=True)


def device(pid: int, name: str) -> int:
    """Creates a device in the network namespace of a process; returns its frames."""
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if _libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.close(namespace)
    frames = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    wanted = struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI)
    fcntl.ioctl(frames, TUNSETIFF, wanted)
    return frames


def carry(ends: dict[int, int], delay_s: float) -> None:
    """Forwards frames from each end to the other after a delay."""
    on_way: deque[tuple[float, int, bytes]] = deque()
    while True:
        wait = max(on_way[0][0] - time.monotonic(), 0) if on_way else None
        ready, _, _ = select.select([sys.stdin, *ends], [], [], wait)
        if sys.stdin in ready:
            return
        now = time.monotonic()
        for end in ready:
            try:
                frame = os.read(end, FRAME_BYTES_MAX)
            except OSError:  # The device is down.
                continue
            on_way.append((now + delay_s, ends[end], frame))
        while on_way and on_way[0][0] <= now:
            _, end, frame = on_way.popleft()
            try:
                os.write(end, frame)
            except OSError:  # Down, or its host takes no more: the frame is lost.
                continue


def main(delay_ms: str, switch_pid: str, *wires: str) -> None:
    """Creates the devices, and forwards frames."""
    ends: dict[int, int] = {}
    for wire in wires:
        port, _, host_pid = wire.partition("=")
        one, other = device(int(switch_pid), port), device(int(host_pid), "eth0")
        ends |= {one: other, other: one}
    print("ready", flush=True)
    carry(ends, float(delay_ms) / 1000)


if __name__ == "__main__":
    main(*sys.argv[1:])
