"""The two libraries, imported when they are first needed."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def quietly() -> Iterator[None]:
    """Keep the library's bars of progress and remarks (that a head is new) off the terminal for a while."""
    logging = transformers().utils.logging
    verbosity, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if had_bars:
            logging.enable_progress_bar()


@contextmanager
def without_deprecations() -> Iterator[None]:
    """Keep to themselves what one of the libraries says of how the other calls it: no user can change that."""
    with warnings.catch_warnings():
        for category in (FutureWarning, DeprecationWarning):
            warnings.simplefilter("ignore", category)
        yield
