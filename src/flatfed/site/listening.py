"""The long-lived process of a site: it listens at a socket of its user alone, and works on one request at a time.

Connections are read and answered in threads of their own; the work is done in the main thread, where a client that
hangs can be given up. Work is given up when whoever asked for it has hung up, when another request of the same run
arrives (the server has gone on), and when the site is to end. Who is here, and whether it is well, is answered at once.
"""

from __future__ import annotations

import os
import queue
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from flatfed.core.errors import ConfigError
from flatfed.core.method.envelope import Envelope
from flatfed.core.method.wire import WireError
from flatfed.core.model.devices import single_thread
from flatfed.engines.sites.roll_call import HELLO
from flatfed.frames import FrameError, FrameTooLong, receive_frame, send_frame, skip_frame
from flatfed.machine import STOP_SIGNALS
from flatfed.runs.fingerprints import arithmetic_fingerprint, code_fingerprint
from flatfed.runs.records.files import held
from flatfed.site.config import Site
from flatfed.site.data import SiteData
from flatfed.site.service import HEALTH, SiteService, refusal

PATIENCE = 120.0
"""Seconds that one read or write of a connection may take."""
TICK = 0.2
"""Seconds between two looks at whether the site is to end."""
AT_ONCE = (HEALTH, HELLO)
"""Requests that need no work."""


@dataclass
class Request:
    """A request that waits for its answer."""

    data: bytes
    connection: socket.socket
    run: str = ""
    done: threading.Event = field(default_factory=threading.Event)
    answer: bytes = b""

    def is_given_up(self) -> bool:
        """Say whether whoever asked has hung up."""
        poller = select.poll()
        # Of no events: an end of the connection is always reported.
        poller.register(self.connection, 0)
        return bool(poller.poll(0))


class SiteProcess:
    """Listens and works until it is asked to end."""

    def __init__(self, site: Site, data: SiteData, say: Callable[[str], None] = lambda text: None) -> None:
        self._site, self._say = site, say
        self._requests: queue.Queue[Request] = queue.Queue()
        self._service = SiteService(site, data, self._why_stale)
        self._ending = threading.Event()
        self._present: Request | None = None
        self._waiting: list[Request] = []

    def _why_stale(self) -> str:
        """Return why the present work is of no use any more."""
        if self._ending.is_set():
            return "the site is ended"
        present = self._present
        if present is None:
            return ""
        if present.is_given_up():
            return "nobody waits for this work any more"
        if any(request.run == present.run for request in list(self._waiting)):
            return "the site was asked for other work of this run"
        return ""

    def run(self) -> None:
        """Answer requests until a signal asks for the end."""
        _refuse_busy(self._site.socket)
        # Before anybody can ask: they are taken in this process, with torch's generator as their own.
        arithmetic_fingerprint()
        code_fingerprint()
        with (
            self._signals(),
            held(self._site.folder),
            _listening(self._site.socket) as listener,
            single_thread(),
        ):
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
            self._say(f"site {self._site.name}: listening at {self._site.socket}")
            self._service.audit.note("start", examples=sum(self._service.data.counts))
            while not self._ending.is_set():
                self._work()
            self._service.audit.note("end")
            self._say(f"site {self._site.name}: ended")

    def _work(self) -> None:
        try:
            request = self._requests.get(timeout=TICK)
        except queue.Empty:
            return
        self._waiting.remove(request)
        self._present = request
        try:
            request.answer = self._answer_to(request)
        finally:
            self._present = None
            request.done.set()

    def _answer_to(self, request: Request) -> bytes:
        # One that waited behind others may be given up by now, and must not undo what came after it.
        if request.is_given_up():
            self._service.refused(len(request.data), "nobody waits for an answer any more")
            return b""
        return self._service.answer(request.data)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # closed: the site ends
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Read one request, and answer it when its turn has come."""
        with connection:
            connection.settimeout(PATIENCE)
            try:
                send_frame(connection, self._received_and_answered(connection))
            except (OSError, FrameError):
                return  # whoever asked is gone, or sends what is no request

    def _received_and_answered(self, connection: socket.socket) -> bytes:
        try:
            data = receive_frame(connection, self._site.limits.largest_bytes)
        except FrameTooLong as error:
            self._service.refused(error.size, str(error))
            # Read and forgotten, as whoever sends it hears nothing before it is sent.
            skip_frame(connection, error.size)
            return refusal(f"{error} (limits.largest_message)")
        return self._answer(data, connection)

    def _answer(self, data: bytes, connection: socket.socket) -> bytes:
        # From here: a site that works is well too, and goes on with its work.
        kind, run = _kind_and_run(data)
        if kind in AT_ONCE:
            return self._service.answer(data)
        request = Request(data, connection, run)
        self._waiting.append(request)
        self._requests.put(request)
        request.done.wait()
        return request.answer

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Let the signals that mean the end be heard at once, also while a client is trained."""
        before = {number: signal.signal(number, lambda *_: self._ending.set()) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _kind_and_run(data: bytes) -> tuple[str, str]:
    """Return of which kind a request is, and for which run; nothing for what cannot be read, which is refused later."""
    try:
        envelope = Envelope.from_bytes(data)
    except WireError:
        return "", ""
    return envelope.kind, str(envelope.facts.get("run", ""))


@contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    """Listen at a path; one that a site listens at already is refused, one that was left behind is taken over."""
    _refuse_busy(path)
    path.unlink(missing_ok=True)
    # From its first moment on for this user alone.
    mask = os.umask(0o177)
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(path))
    except OSError as error:
        raise ConfigError(f"cannot listen at {path}: {error.strerror or error}; name another socket") from None
    finally:
        os.umask(mask)
    listener.listen()
    try:
        yield listener
    finally:
        listener.close()
        path.unlink(missing_ok=True)


def _refuse_busy(path: Path) -> None:
    if not path.exists():
        return
    if not path.is_socket():
        raise ConfigError(f"{path} is there and is no socket; name another one")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(5)
        try:
            probe.connect(str(path))
        except OSError:
            return
    raise ConfigError(f"a site listens at {path} already; end it, or name another socket")
