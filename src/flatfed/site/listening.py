"""The long-lived process of a site: it listens at a socket that only its user can open, and works on one request at a time.

Connections are read and answered in threads of their own; the work is done in the main thread, where a client that
hangs can be given up. A request that arrives while another is worked on makes that one stale: the server has gone on.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from flatfed.core.errors import ConfigError, Interrupted
from flatfed.core.method.envelope import Envelope
from flatfed.core.method.wire import WireError
from flatfed.core.model.devices import single_thread
from flatfed.frames import FrameError, receive_frame, send_frame
from flatfed.machine import STOP_SIGNALS
from flatfed.site.config import Site
from flatfed.site.data import SiteData
from flatfed.site.service import HEALTH, SiteService

PATIENCE = 120.0
"""Seconds that one read or write of a connection may take."""
TICK = 0.2
"""Seconds between two looks at whether the site is to end."""


@dataclass
class Request:
    """A request that waits for its answer."""

    data: bytes
    done: threading.Event = field(default_factory=threading.Event)
    answer: bytes = b""


class SiteProcess:
    """Listens and works until it is asked to end."""

    def __init__(self, site: Site, data: SiteData, say: Callable[[str], None] = lambda text: None) -> None:
        self._site, self._say = site, say
        self._requests: queue.Queue[Request] = queue.Queue()
        self._service = SiteService(site, data, self._is_stale)
        self._ending = threading.Event()

    def _is_stale(self) -> bool:
        return self._ending.is_set() or not self._requests.empty()

    def run(self) -> None:
        """Answer requests until a signal asks for the end."""
        with self._signals(), _listening(self._site.socket) as listener, single_thread():
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
        try:
            request.answer = self._service.answer(request.data)
        except Interrupted:
            return
        finally:
            request.done.set()

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
                data = receive_frame(connection, self._site.limits.largest_bytes)
                send_frame(connection, self._answer(data))
            except (OSError, FrameError):
                return  # whoever asked is gone, or sends what is no request

    def _answer(self, data: bytes) -> bytes:
        # At once and from here: a site that works is well too.
        if _is_health(data):
            return self._service.health().to_bytes()
        request = Request(data)
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


def _is_health(data: bytes) -> bool:
    try:
        return Envelope.from_bytes(data).kind == HEALTH
    except WireError:
        return False


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
