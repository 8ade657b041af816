"""Frames over a socket: whole or an error, and never more than the bound."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatfed.frames import LENGTH, PIECE, FrameError, FrameTooLong, ask_socket, receive_frame, send_frame
from sites.bench import remove, short_folder


@contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with left, right:
        left.settimeout(300)
        right.settimeout(300)
        yield left, right


@given(st.binary(max_size=3000))
def test_any_frame_comes_back(data: bytes) -> None:
    with pair() as (left, right):
        send_frame(left, data)
        assert receive_frame(right, len(data)) == data


def test_a_long_frame_comes_back() -> None:
    data = bytes(range(256)) * (3 * PIECE // 256) + b"end"
    with pair() as (left, right):
        sender = threading.Thread(target=send_frame, args=(left, data))
        sender.start()
        assert receive_frame(right, len(data)) == data
        sender.join()


@given(st.binary(max_size=60), st.integers(0, 200))
def test_any_bytes_are_a_frame_or_an_error(data: bytes, limit: int) -> None:
    with pair() as (left, right):
        left.sendall(data)
        left.close()
        with contextlib.suppress(FrameError):
            size = int.from_bytes(data[:LENGTH], "big")
            assert receive_frame(right, limit) == data[LENGTH : LENGTH + size]


@given(st.binary(min_size=1, max_size=40), st.integers(1))
def test_a_frame_that_is_cut_is_an_error(data: bytes, cut: int) -> None:
    whole = len(data).to_bytes(LENGTH, "big") + data
    with pair() as (left, right):
        left.sendall(whole[: len(whole) - 1 - cut % len(whole)])
        left.close()
        with pytest.raises(FrameError, match="ended before"):
            receive_frame(right, 1000)


def test_a_claimed_length_is_checked_before_anything_is_read() -> None:
    with pair() as (left, right):
        left.sendall((2**64 - 1).to_bytes(LENGTH, "big"))
        with pytest.raises(FrameTooLong, match=r"18,446,744,073,709,551,615 bytes, above the bound 10"):
            receive_frame(right, 10)


def test_nobody_is_waited_for_without_a_bound() -> None:
    folder = short_folder()
    try:
        path = str(folder / "s")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(path)
            listener.listen()
            # It is never answered.
            with pytest.raises(TimeoutError):
                ask_socket(path, b"hello", 0.05, 100)
            # Nor read: what does not fit into the buffers of the system is waited for as long.
            with pytest.raises(TimeoutError):
                ask_socket(path, bytes(8 << 20), 0.05, 100)
        with pytest.raises(OSError, match="refused"):
            ask_socket(path, b"hello", 0.05, 100)
    finally:
        remove(folder)
