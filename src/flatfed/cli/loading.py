"""Modules are loaded without the garbage collector, which would walk over all of them again and again."""

from __future__ import annotations

import atexit
import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Load modules: what is made here lasts as long as the process, so that there is nothing to collect.

    PyTorch alone makes hundreds of thousands of objects. Collections while they are made, and the one when the process
    ends, take a third of the time of its import.
    """
    if not gc.isenabled():  # within another, or as the caller wishes
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        _set_aside()
        gc.enable()


@functools.cache
def _set_aside() -> None:
    """Let the collector pass over all that there is; once, because garbage that is there is kept too."""
    gc.freeze()
    # Nothing need be collected when the process ends: the system takes back everything.
    atexit.register(gc.freeze)
