"""The data sets by id. A new one is one module in `data/sources` with a function under `@source(id)`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from flatfed.core.configuration.config import PLAIN, checked
from flatfed.core.discovery import import_all
from flatfed.core.errors import ConfigError, nearest
from flatfed.data import sources
from flatfed.data.acquiring.directory import DataDirectory
from flatfed.data.storage.pool import Pool

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

    def with_defaults(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options, those that were not given with their defaults, as far as JSON can hold them."""
        return {name: value for name, value in self.options.items() if isinstance(value, PLAIN)} | dict(given)

    def open(self, directory: DataDirectory, options: Mapping[str, Any]) -> Pool:
        """Load the data set; an option that it does not have or lacks, or a value that does not fit, is an error."""
        for name in options:
            if name not in self.options:
                takes = ", ".join(self.options) or "no options"
                raise ConfigError(f"{self.id}: {nearest(name, self.options, 'option')} ({self.id} takes {takes})")
        for name, default in self.options.items():
            if default is inspect.Parameter.empty and name not in options:
                raise ConfigError(f"{self.id} needs data.{name}; give it with --set data.{name}=VALUE")
        return self.load(**({"directory": directory} if self.on_disk else {}), **self._checked(options))

    def _checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options as their annotations ask for them."""
        try:
            hints = get_type_hints(self.load, include_extras=True) if options else {}
            return {name: checked(hints.get(name, object), value, f"data.{name}") for name, value in options.items()}
        except (NameError, TypeError) as error:
            where = f"{self.load.__module__}.{self.load.__qualname__}"
            raise ConfigError(f"{self.id}: options cannot be checked by the annotations of {where}: {error}") from None


_sources: dict[str, Source] = {}


def source(id: str, partition: str = "dirichlet") -> Callable[[Load], Load]:
    """Enter a function that returns a `Pool` under `id`.

    The first line of its docstring describes the data set. A parameter `directory` is given the data directory; its
    other parameters are options, whose values are checked against their annotations as those of a `Config` are:
    `Count`, `Fraction`, `Literal["a", "b"]`, `Annotated[int, Range(...)]`. `partition` is used where none is asked for.
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
    return find(id).open(DataDirectory(data_dir), options)


@functools.cache
def _discover() -> None:
    import_all(sources.__name__, sources.__path__, "data set")
