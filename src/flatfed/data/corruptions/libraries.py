"""Libraries that only corruptions need, loaded when they are used."""

from __future__ import annotations

import importlib
from typing import Any

from flatfed.core.errors import ConfigError


def ndimage() -> Any:
    """Return `scipy.ndimage`."""
    return _module("scipy.ndimage", "SciPy")


def pillow() -> Any:
    """Return `PIL.Image`."""
    return _module("PIL.Image", "Pillow")


def _module(name: str, called: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"generating corrupted images needs {called}; pip install 'flatfed[data]'") from error
