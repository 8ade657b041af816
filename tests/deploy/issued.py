"""Certificates for tests, good ones and bad ones, and a server that shows them."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from flatfed.deploy.authority import Issued, Validity, make_server_certificate
from flatfed.deploy.deployment import INNER_NAME

HOSTS = ("127.0.0.1", INNER_NAME)


def authority_of(folder: Path) -> Issued:
    """Return the authority of a deployment."""
    drawer = folder / "authority"
    certificate = x509.load_pem_x509_certificate((drawer / "ca.crt").read_bytes())
    key = load_pem_private_key((drawer / "ca.key").read_bytes(), password=None)
    return Issued(certificate, key)  # type: ignore[arg-type]


def days_from_now(first: float, last: float) -> Validity:
    """Return the time between two days, counted from now."""
    now = datetime.now(UTC)
    return Validity(now + timedelta(days=first), now + timedelta(days=last))


EXPIRED, LATER, ENDING = (-9, -1), (1, 9), (-1, 9)


def put_certificate(folder: Path, authority: Issued, days: tuple[float, float], hosts: tuple[str, ...] = HOSTS) -> None:
    """Put another certificate into a server's folder."""
    issued = make_server_certificate(authority, hosts, days_from_now(*days))
    (folder / "server.crt").write_bytes(issued.certificate_text)
    (folder / "server.key").write_bytes(issued.key_text)


@contextlib.contextmanager
def served(folder: Path, status: int = 404, late: float = 0.0) -> Iterator[int]:
    """Serve HTTPS with a server's certificate, this status and a clock that is late; yield the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response_only(status)
            self.send_header("Date", formatdate(datetime.now().timestamp() - late, usegmt=True))
            self.send_header("Content-Length", "0")
            self.end_headers()

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A client that refuses the certificate is what is tested."""

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    with Server(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
