"""The two libraries, imported when they are first needed."""

from __future__ import annotations

import importlib
from typing import Any

from flatfed.core.errors import ConfigError

EXTRA = "flatfed[transformers]"


def transformers() -> Any:
    """Return the library of models, or say how to get it."""
    return _library("transformers", "models of Hugging Face")


def peft() -> Any:
    """Return the library of adapters, or say how to get it."""
    return _library("peft", "LoRA adapters")


def _library(name: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"{what} need the library {name}; pip install '{EXTRA}'") from error
