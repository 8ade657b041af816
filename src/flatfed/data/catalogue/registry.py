"""Entering data sets under their ids, and finding them."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flatfed.core.discovery import import_one, module_names
from flatfed.core.errors import ConfigError, nearest
from flatfed.data.catalogue.expected import Expected
from flatfed.data.catalogue.official import Official
from flatfed.data.catalogue.source import Load, Source
from flatfed.data.directory import DataDirectory
from flatfed.data.storage.pool import Pool

SOURCES = "flatfed.data.sources"
"""The package whose modules enter data sets; it is named, not imported, because it imports the catalogue."""

_sources: dict[str, Source] = {}


def source(
    id: str, partition: str = "dirichlet", official: Official | None = None, expected: Expected | None = None
) -> Callable[[Load], Load]:
    """Enter a function that returns a `Pool` under `id`.

    The first line of its docstring describes the data set. A parameter `directory` is given the data directory; its
    other parameters are options, whose values are checked against their annotations as those of a `Config` are:
    `Count`, `Fraction`, `Literal["a", "b"]`, `Annotated[int, Range(...)]`. `partition` is used where none is asked for.
    `official` says what `flatfed data get` downloads, `expected` what `flatfed data check` compares with.
    """

    def enter(function: Load) -> Load:
        new = Source(id, function, partition, official, expected)
        # A module that is imported again enters the same function; that is no clash.
        other = _sources.get(id, new)
        if _origin(other) != _origin(new):
            raise ConfigError(f"the data set id {id!r} is taken by {_origin(other)}")
        _sources[id] = new
        return function

    return enter


def datasets() -> dict[str, str]:
    """Return the id and a one-line description of every data set."""
    _discover()
    return {id: _sources[id].about for id in sorted(_sources)}


def broken_modules() -> dict[str, ConfigError]:
    """Return the modules of data sets that cannot be imported, each with the error that says why."""
    return dict(_discover())


def find(id: str) -> Source:
    """Return the source `id`; an unknown one is an error that names the nearest."""
    broken = _discover()
    if id not in _sources:
        reasons = [nearest(id, _sources, "data set"), *map(str, broken.values())]
        raise ConfigError("; note: ".join(reasons))
    return _sources[id]


def load(id: str, data_dir: str | Path | None = None, **options: Any) -> Pool:
    """Return the data set `id`; an unknown id or option is an error that names the nearest ones."""
    return find(id).open(DataDirectory(data_dir), options)


@functools.cache
def _discover() -> dict[str, ConfigError]:
    """Import every module of data sets; one that fails does not keep the others from being used."""
    package = importlib.import_module(SOURCES)
    broken: dict[str, ConfigError] = {}
    for name in module_names(SOURCES, package.__path__):
        try:
            import_one(name, "data set")
        except ConfigError as error:
            broken[name] = error
            _remove_sources_of(name)
    return broken


def _remove_sources_of(module: str) -> None:
    """Take out what a module entered before it failed."""
    for id, entered in list(_sources.items()):
        if entered.load.__module__ == module:
            del _sources[id]


def _origin(source: Source) -> str:
    return f"{source.load.__module__}.{source.load.__qualname__}"
