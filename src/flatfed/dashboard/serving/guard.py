"""Who may ask for what: reading only, with the token where one is demanded, under a name of this machine."""

from __future__ import annotations

import hmac
import ipaddress
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the browser allows the dashboard's page: its own files and streams. The drawing library sets styles in line."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


def is_loopback(host: str) -> bool:
    """Say whether an address is one of this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Lets requests through to the application, or answers them itself."""

    def __init__(self, app: ASGIApp, token: str = "", local_only: bool = True, cookie: str = "flatfed") -> None:
        self._app, self._token, self._local_only = app, token, local_only
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _completed(message["headers"])
            await send(message)

        await (self._refusal(scope) or self._entrance(scope) or self._app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        """Return the answer to a request that is not let through."""
        if scope["method"] not in ("GET", "HEAD"):
            return _answer(405, "the dashboard only shows; it takes GET and HEAD", {"allow": "GET, HEAD"})
        if self._local_only and not _is_local_name(_header(scope, "host")):
            # A name that leads here by somebody else's DNS would let their page read this one.
            return _answer(421, "this dashboard answers to localhost and 127.0.0.1 only")
        if self._token and not self._is_known(scope):
            return _answer(401, "the token is missing or wrong; open the address that the command printed")
        return None

    def _entrance(self, scope: Scope) -> ASGIApp | None:
        """Return the answer to a request with the token in its address: from now on it is in a cookie."""
        if not self._token or scope["path"] != "/" or not self._is_right(_asked_token(scope)):
            return None
        cookie = f"{self._cookie}={self._token}; HttpOnly; SameSite=Strict; Path=/"
        return _answer(303, "", {"location": "/", "set-cookie": cookie})

    def _is_known(self, scope: Scope) -> bool:
        bearer = _header(scope, "authorization").removeprefix("Bearer ")
        return any(map(self._is_right, (bearer, self._cookie_of(scope), _asked_token(scope))))

    def _is_right(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self._token.encode())

    def _cookie_of(self, scope: Scope) -> str:
        try:
            found = SimpleCookie(_header(scope, "cookie")).get(self._cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value


def _asked_token(scope: Scope) -> str:
    """Return the token in the address of the page itself; elsewhere it would end in logs."""
    if scope["path"] != "/":
        return ""
    query: dict[str, list[str]] = parse_qs(scope["query_string"].decode("latin-1"))
    return query.get("token", [""])[0]


def _header(scope: Scope, name: str) -> str:
    values: list[bytes] = [value for key, value in scope["headers"] if key == name.encode()]
    return values[0].decode("latin-1") if len(values) == 1 else ""


def _is_local_name(host: str) -> bool:
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdigit():
        name = host
    return name.lower() in LOCAL_NAMES or (name.startswith("127.") and is_loopback(name))


def _completed(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    there = {name.lower() for name, _ in headers}
    return [*headers, *((n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in there)]


def _answer(status: int, text: str, headers: dict[str, str] | None = None) -> ASGIApp:
    from starlette.responses import PlainTextResponse

    return PlainTextResponse(text, status, headers)
