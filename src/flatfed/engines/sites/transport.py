"""How a server reaches its sites: bytes out, bytes back, within a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

Pulse = Callable[[], None]


@dataclass(frozen=True)
class NoAnswer:
    """Why nothing came from a site, or nothing that may be read."""

    reason: str


Answer = bytes | NoAnswer


class Transport(Protocol):
    """Carries requests to sites by their addresses: a node of a SuperLink, or a socket of this machine."""

    def addresses(self) -> list[str]:
        """Return the addresses that can be reached now, in order."""
        ...

    def ask(
        self, requests: Mapping[str, bytes], seconds: float, limit: int, pulse: Pulse
    ) -> Iterator[tuple[str, Answer]]:
        """Send each address its request and yield what comes back, each address once, as it comes.

        Nothing is waited for longer than `seconds`; an address that is not reached fails at once. An answer above
        `limit` bytes is not read. `pulse` is called while it waits.
        """
        ...
