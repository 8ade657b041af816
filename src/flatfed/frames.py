"""Frames: bytes over a socket of this machine, each with its length before it. No torch here, so that it is quick.

A bound is checked before a byte of the content is read.
"""

from __future__ import annotations

import socket
import time

LENGTH = 8
PIECE = 1 << 20


class FrameError(Exception):
    """A peer that ends in the middle of a frame, or sends one that is too long."""


class FrameTooLong(FrameError):
    """A frame above the bound; nothing of its content was read."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"{size:,} bytes, above the bound {limit:,}")
        self.size = size


def ask_socket(path: str, request: bytes, seconds: float, limit: int) -> bytes:
    """Send a request to whoever listens at a path, and return the answer, all within a time."""
    deadline = time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(seconds)
        connection.connect(path)
        send_frame(connection, request, deadline)
        return receive_frame(connection, limit, deadline)


def send_frame(connection: socket.socket, data: bytes, deadline: float | None = None) -> None:
    """Send the length of the bytes, then the bytes."""
    _allow(connection, deadline)
    connection.sendall(len(data).to_bytes(LENGTH, "big"))
    view = memoryview(data)
    for start in range(0, len(view), PIECE):
        _allow(connection, deadline)
        connection.sendall(view[start : start + PIECE])


def receive_frame(connection: socket.socket, limit: int, deadline: float | None = None) -> bytes:
    """Return the bytes of one frame of at most `limit` bytes."""
    size = int.from_bytes(_receive(connection, LENGTH, deadline), "big")
    if size > limit:
        raise FrameTooLong(size, limit)
    return _receive(connection, size, deadline)


def skip_frame(connection: socket.socket, size: int) -> None:
    """Read the content of a frame and forget it."""
    left = size
    while left:
        part = connection.recv(min(left, PIECE))
        if not part:
            raise FrameError("the connection ended before the frame was whole")
        left -= len(part)


def _receive(connection: socket.socket, size: int, deadline: float | None) -> bytes:
    # As it comes, and not at once: a length that is only claimed takes no memory.
    parts: list[bytes] = []
    left = size
    while left:
        _allow(connection, deadline)
        part = connection.recv(min(left, PIECE))
        if not part:
            raise FrameError("the connection ended before the answer was whole")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _allow(connection: socket.socket, deadline: float | None) -> None:
    """Let the next step take no longer than is left."""
    if deadline is None:
        return
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("out of time")
    connection.settimeout(left)
