"""The audit log of a site: one line of JSON for everything that came in and went out, with names and sizes.

No content is written, only what it was called and how large it was. Lines are only ever added.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from torch import Tensor

FILE = "audit.jsonl"


class AuditLog:
    """Adds lines to a file that only the site's user can read."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def note(self, what: str, **facts: Any) -> None:
        """Add a line."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "what": what, **facts}
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            # In one write, so that two processes do not mix their lines.
            os.write(descriptor, (json.dumps(line) + "\n").encode())
        finally:
            os.close(descriptor)


def sizes(vectors: Mapping[str, Tensor], scalars: Mapping[str, float]) -> dict[str, int]:
    """Return the bytes of each vector and number of a message, by name."""
    return {name: vector.numel() * vector.element_size() for name, vector in vectors.items()} | dict.fromkeys(
        scalars, 8
    )
