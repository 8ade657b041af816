"""The server: a socket of its own, the guard, the application, and an end on Ctrl-C."""

from __future__ import annotations

import importlib.util
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from flatfed.core.errors import PARAMETER, ConfigError
from flatfed.dashboard.serving.guard import Guard, is_loopback

if TYPE_CHECKING:
    from flatfed.dashboard.app import MakeReport

NEEDED = ("starlette", "uvicorn", "jinja2", "plotly")
FEWEST_LETTERS = 16
GRACE_SECONDS = 2
"""For pages that are being answered when the server ends."""


def require_dashboard() -> None:
    """Raise a `ConfigError` where what the server needs is not installed."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"the dashboard needs {', '.join(missing)}; pip install 'flatfed[dashboard]'")


def token_for(host: str, file: Path | None) -> str:
    """Return the token that is demanded: that of the file, a new one, or none on an address of this machine only."""
    if file is None:
        return "" if is_loopback(host) else secrets.token_urlsafe(24)
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{PARAMETER} {file} cannot be read: {error}", parameter="token_file") from None
    if len(token) < FEWEST_LETTERS or not token.isascii() or not token.replace("-", "").replace("_", "").isalnum():
        raise ConfigError(
            f"{PARAMETER} {file} must hold {FEWEST_LETTERS} or more letters, digits, - and _", parameter="token_file"
        )
    return token


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens; an address that cannot be had is an error."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{PARAMETER} {host} is no address of this machine: {error}", parameter="host") from None
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
        bound.listen()
    except OSError as error:
        bound.close()
        raise ConfigError(
            f"{host}:{port} cannot be used: {error.strerror}; choose another {PARAMETER}, 0 for any that is free",
            parameter="port",
        ) from None
    return bound


def address_of(bound: socket.socket, host: str, token: str) -> str:
    """Return the address for a browser, with the token where there is one."""
    port = bound.getsockname()[1]
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + (f"?token={token}" if token else "")


def serve(folder: Path, host: str, bound: socket.socket, token: str, make_report: MakeReport) -> None:
    """Serve the dashboard of a folder until a signal ends it."""
    import uvicorn

    from flatfed.dashboard.app import application
    from flatfed.dashboard.events import Hub
    from flatfed.dashboard.serving.connections import BoundedConnection
    from flatfed.dashboard.watching import Watch

    hub = Hub(Watch(folder.resolve()))
    cookie = f"flatfed-{bound.getsockname()[1]}"
    guard = Guard(application(hub, make_report), token, is_loopback(host), cookie)
    config = uvicorn.Config(
        guard,
        log_level="critical",
        access_log=False,
        lifespan="off",
        http=BoundedConnection,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = uvicorn.Server(config)
    hub.is_ending = _ending(server)
    server.run(sockets=[bound])


def _ending(server: object) -> Callable[[], bool]:
    return lambda: bool(getattr(server, "should_exit", False))
