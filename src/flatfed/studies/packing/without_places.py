"""Records without the places of a machine: what was a path is the name at its end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

FOLDERS = re.compile(r"(?<![\w.:/])(?:~|[A-Za-z]:|/(?=[^/\s]))[\\/]?(?:[^\\/\s'\",;:()]+[\\/])+")
"""The folders at the beginning of a path that leads from the top of a disk, or from a home."""


def without_places(value: Any) -> Any:
    """Return a JSON value in which every text has lost the folders of its paths."""
    if isinstance(value, str):
        return FOLDERS.sub("", value)
    if isinstance(value, Mapping):
        return {name: without_places(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_places(entry) for entry in value]
    return value
