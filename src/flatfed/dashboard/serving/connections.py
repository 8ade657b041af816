"""Connections within bounds: a number at once, and none that asks for nothing or reads nothing."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

MOST_CONNECTIONS = 256
"""At once; a page has two or three. Each takes a file descriptor, of which a process has some hundreds."""
IDLE_SECONDS = 20.0
"""After which a connection is ended on which nothing was asked, or nothing of an answer was read."""
Standing = tuple[RequestResponseCycle | None, int] | None


class BoundedConnection(H11Protocol):
    """A connection that is ended when there are too many, or when it stands still."""

    _timer: asyncio.TimerHandle | None = None
    _before: Standing = None

    # Narrower than asyncio's own protocol, as uvicorn's is: its connections are streams that can be ended.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or end it where there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
            return
        self._before = self._standing()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let it go."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._timer = self.loop.call_later(IDLE_SECONDS, self._look)

    def _look(self) -> None:
        """End it where it stands as it did the last time."""
        before, self._before = self._before, self._standing()
        if self._before is not None and self._before == before:
            # At once: one that reads nothing would not read the end either.
            self.transport.abort()
            return
        self._wait()

    def _standing(self) -> Standing:
        """Return what is the same the next time where nothing moves; None while an answer is made or read."""
        if self.flow.write_paused:
            return self.cycle, self.transport.get_write_buffer_size()
        if self.cycle is None or self.cycle.response_complete:
            return self.cycle, 0
        return None
