"""What engines have to say while they run: workers that come and go. Whoever shows progress listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def listening(say: Callable[[str], None]) -> Iterator[None]:
    """Let `say` hear the engines that run meanwhile."""
    token = _listener.set(say)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(text: str) -> None:
    """Say something to whoever listens."""
    say = _listener.get()
    if say is not None:
        say(text)
