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
    repeats: bool = False
    """Whether every request for an exchange comes twice, after the first one of all has come again."""
    requests: list[bytes] = field(default_factory=list)
    """Every request for an exchange."""
    old_answers: list[bytes] = field(default_factory=list)
    """What was answered when the first request came again."""

    def serve(self, listener: socket.socket) -> None:
        """Answer whoever comes, until the socket is closed."""
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # closed: the test is over
                return
            threading.Thread(target=self._serve_one, args=(connection,), daemon=True).start()

    def _serve_one(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, FrameError):
            connection.settimeout(LONG)
            answer = self._answer(receive_frame(connection, LARGEST))
            if answer is not None:
                send_frame(connection, answer)

    def _answer(self, request: bytes) -> bytes | None:
        moment = moment_of(request)
        if moment is None:
            return self._ask(request)
        if self.repeats and self.requests:
            self.old_answers.append(self._ask(self.requests[0]))
        if self.repeats:
            self._ask(request)
        self.requests.append(request)
        answer = self._ask(request)
        change = self.changes.get(moment)
        return answer if change is None else change(answer)

    def _ask(self, request: bytes) -> bytes:
        return ask_socket(self.real, request, LONG, LARGEST)


@contextmanager
def between(member: Member) -> Iterator[Between]:
    """Stand between a site and its node."""
    usual = member.site.socket
    member.restart(socket="state/real.sock")
    usual.unlink(missing_ok=True)
    try:
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
    finally:
        usual.unlink(missing_ok=True)
        member.restart()
