"""Sites of this machine, reached by their sockets: a rehearsal of a federation without a network."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flatfed.engines.sites.transport import Answer, NoAnswer, Pulse
from flatfed.frames import FrameError, ask_socket

POLL = 0.05
"""Seconds between two looks at whether the user wants to stop."""


class SocketTransport:
    """Asks each site over a connection of its own."""

    def __init__(self, sockets: Sequence[str | Path]) -> None:
        self._sockets = [str(path) for path in sockets]

    def addresses(self) -> list[str]:
        """Return the sockets that are there."""
        return [path for path in self._sockets if Path(path).is_socket()]

    def ask(
        self, requests: Mapping[str, bytes], seconds: float, limit: int, pulse: Pulse
    ) -> Iterator[tuple[str, Answer]]:
        """Ask all at once, each in a thread that ends with its connection."""
        answers: queue.SimpleQueue[tuple[str, Answer]] = queue.SimpleQueue()
        deadline = time.monotonic() + seconds
        for address, request in requests.items():
            arguments = address, request, seconds, limit, answers
            threading.Thread(target=_ask, args=arguments, daemon=True).start()
        waiting = dict.fromkeys(requests)
        while waiting:
            pulse()
            try:
                address, answer = answers.get(timeout=POLL)
            except queue.Empty:
                if time.monotonic() > deadline + 1.0:  # the threads have noticed by themselves
                    break
                continue
            del waiting[address]
            yield address, answer
        for address in waiting:
            yield address, NoAnswer(f"no reply within {seconds:g} s")


def _ask(
    address: str, request: bytes, seconds: float, limit: int, answers: queue.SimpleQueue[tuple[str, Answer]]
) -> None:
    try:
        answers.put((address, ask_socket(address, request, seconds, limit)))
    except TimeoutError:
        answers.put((address, NoAnswer(f"no reply within {seconds:g} s")))
    except (OSError, FrameError) as error:
        answers.put((address, NoAnswer(f"cannot be reached: {error}")))
