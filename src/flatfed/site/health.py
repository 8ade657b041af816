"""Is a site well? Asked over its socket, with a bound on the wait."""

from __future__ import annotations

from typing import Any

from flatfed.core.errors import EngineError
from flatfed.core.method.envelope import Envelope
from flatfed.core.method.wire import WireError
from flatfed.frames import FrameError, ask_socket
from flatfed.site.config import Site
from flatfed.site.service import HEALTH

SECONDS = 10.0
MOST_BYTES = 1 << 16


def ask_health(site: Site) -> dict[str, Any]:
    """Return what a running site says of itself."""
    try:
        answer = ask_socket(str(site.socket), Envelope(HEALTH).to_bytes(), SECONDS, MOST_BYTES)
        return dict(Envelope.from_bytes(answer, MOST_BYTES).facts)
    except (OSError, FrameError, WireError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EngineError(f"nobody answers at {site.socket} ({reason}); start it with `flatfed site run`") from None
