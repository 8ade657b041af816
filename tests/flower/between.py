"""Somebody at a site's socket in the place of `flatfed site run`, who asks the real one and changes its answers."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from deploy.federation import LONG
from flatfed.frames import FrameError, ask_socket, receive_frame, send_frame
from flower.bench import Member
from sites.bench import Moment, moment_of

LARGEST = 1 << 30
Change = Callable[[bytes], bytes | None]
"""Makes another answer of the real one; None hangs up."""


@dataclass
class Between:
    """Passes requests on, and changes what is answered at some moments."""

    real: str
    changes: dict[Moment, Change] = field(default_factory=dict)
    requests: list[bytes] = field(default_factory=list)
    """Every request for an exchange."""

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # closed: the test is over
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, FrameError):
            request = receive_frame(connection, LARGEST)
            answer: bytes | None = ask_socket(self.real, request, LONG, LARGEST)
            moment = moment_of(request)
            if moment is not None:
                self.requests.append(request)
            if moment in self.changes and answer is not None:
                answer = self.changes[moment](answer)
            if answer is not None:
                send_frame(connection, answer)


@contextmanager
def between(member: Member) -> Iterator[Between]:
    """Stand between a site and its node."""
    usual = member.site.socket
    member.restart(socket="state/real.sock")
    usual.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(usual))
        listener.listen()
        somebody = Between(str(member.site.socket))
        threading.Thread(target=somebody.serve, args=(listener,), daemon=True).start()
        try:
            yield somebody
        finally:
            # Wakes whoever waits in accept(), which closing does not.
            listener.shutdown(socket.SHUT_RDWR)
    usual.unlink(missing_ok=True)
    member.restart()
