"""The data sets by id. A new one is one module in `data/sources` with a function under `@source(id)`."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

from flatfed.core.errors import ConfigError, nearest
from flatfed.data import sources
from flatfed.data.pool import Pool

Source = Callable[..., Pool]

_sources: dict[str, Source] = {}


def source(id: str) -> Callable[[Source], Source]:
    """Enter a function that returns a `Pool` under `id`.

    The first line of its docstring describes the data set; its parameters are the options that `load` takes.
    """

    def enter(function: Source) -> Source:
        other = _sources.setdefault(id, function)
        if (other.__module__, other.__qualname__) != (function.__module__, function.__qualname__):
            raise ConfigError(f"the data set id {id!r} is taken by {other.__module__}.{other.__qualname__}")
        return function

    return enter


def datasets() -> dict[str, str]:
    """Return the id and a one-line description of every data set."""
    _discover()
    return {id: (inspect.getdoc(_sources[id]) or "").partition("\n")[0] for id in sorted(_sources)}


def load(id: str, **options: Any) -> Pool:
    """Return the data set `id`; an unknown id or option is an error that names the nearest ones."""
    _discover()
    if id not in _sources:
        raise ConfigError(nearest(id, _sources, "data set"))
    known = inspect.signature(_sources[id]).parameters
    for name in options:
        if name not in known:
            takes = ", ".join(known) or "no options"
            raise ConfigError(f"{id}: {nearest(name, known, 'option')} ({id} takes {takes})")
    return _sources[id](**options)


@functools.cache
def _discover() -> None:
    for module in pkgutil.iter_modules(sources.__path__, f"{sources.__name__}."):
        importlib.import_module(module.name)
