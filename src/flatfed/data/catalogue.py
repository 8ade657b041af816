"""The data sets by id. A new one is one module in `data/sources` with a function under `@source(id)`."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.core.errors import ConfigError, nearest
from flatfed.data import sources
from flatfed.data.directory import DataDirectory
from flatfed.data.pool import Pool

Load = Callable[..., Pool]


@dataclass(frozen=True)
class Source:
    """How a data set is loaded, and the partition that it has where none is asked for."""

    id: str
    load: Load
    partition: str

    @property
    def about(self) -> str:
        """The data set in a line."""
        return (inspect.getdoc(self.load) or "").partition("\n")[0]

    @property
    def options(self) -> dict[str, Any]:
        """The names and defaults of its options."""
        given = inspect.signature(self.load).parameters
        return {name: p.default for name, p in given.items() if name != "directory"}

    @property
    def on_disk(self) -> bool:
        """Whether its files lie in the data directory."""
        return "directory" in inspect.signature(self.load).parameters


_sources: dict[str, Source] = {}


def source(id: str, partition: str = "dirichlet") -> Callable[[Load], Load]:
    """Enter a function that returns a `Pool` under `id`.

    The first line of its docstring describes the data set. A parameter `directory` is given the data directory; its
    other parameters are options. `partition` is used where none is asked for.
    """

    def enter(function: Load) -> Load:
        other = _sources.setdefault(id, Source(id, function, partition)).load
        if (other.__module__, other.__qualname__) != (function.__module__, function.__qualname__):
            raise ConfigError(f"the data set id {id!r} is taken by {other.__module__}.{other.__qualname__}")
        return function

    return enter


def datasets() -> dict[str, str]:
    """Return the id and a one-line description of every data set."""
    _discover()
    return {id: _sources[id].about for id in sorted(_sources)}


def find(id: str) -> Source:
    """Return the source `id`; an unknown one is an error that names the nearest."""
    _discover()
    if id not in _sources:
        raise ConfigError(nearest(id, _sources, "data set"))
    return _sources[id]


def load(id: str, data_dir: str | Path | None = None, **options: Any) -> Pool:
    """Return the data set `id`; an unknown id or option is an error that names the nearest ones."""
    found = find(id)
    for name in options:
        if name not in found.options:
            takes = ", ".join(found.options) or "no options"
            raise ConfigError(f"{id}: {nearest(name, found.options, 'option')} ({id} takes {takes})")
    return found.load(**({"directory": DataDirectory(data_dir)} if found.on_disk else {}), **options)


@functools.cache
def _discover() -> None:
    for module in pkgutil.iter_modules(sources.__path__, f"{sources.__name__}."):
        importlib.import_module(module.name)
