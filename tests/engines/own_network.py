"""Run a command in a network of its own that has a loopback and nothing else: `own_network.py PLACE COMMAND ...`.

With `new` the network is made; with `alone` too, and the command sees no other process. Otherwise PLACE is the id of a
process whose network is taken.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys

CLONE_NEWNET, CLONE_NEWPID, CLONE_NEWNS = 0x40000000, 0x20000000, 0x00020000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def main() -> None:
    place, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if place == "new":
        _done(libc.unshare(CLONE_NEWNET))
        _raise_loopback()
    elif place == "alone":
        _done(libc.unshare(CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWNS))
        _raise_loopback()
        # The next process that this one starts is the first that there is.
        child = os.fork()
        if child:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256)
        _done(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        _done(libc.mount(b"proc", b"/proc", b"proc", 0, None))
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
