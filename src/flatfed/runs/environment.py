"""What a run was made with: versions and machine, for the record."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from typing import Any

PACKAGES = ("flatfed", "torch", "numpy", "safetensors")


def describe() -> dict[str, Any]:
    """Return versions of Python and the packages that decide a run's bits, and the kind of machine."""
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "machine": platform.machine(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
