"""Run a command in a network of its own that has a loopback and nothing else: `own_network.py new|PID COMMAND ...`.

With `new` the network is made; otherwise it is the one of the process PID.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def main() -> None:
    place, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if place == "new":
        _done(libc.unshare(CLONE_NEWNET))
        _raise_loopback()
    else:
        with open(f"/proc/{place}/ns/net") as network:  # noqa: PTH123
            _done(libc.setns(network.fileno(), CLONE_NEWNET))
    os.execv(command[0], command)


def _done(code: int) -> None:
    if code:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))


if __name__ == "__main__":
    main()
