"""A data set as its module declares it; data sets are entered and found by id."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from flatfed.core.configuration.checking import checked
from flatfed.core.configuration.config import PLAIN
from flatfed.core.configuration.registry import import_one, module_names
from flatfed.core.errors import ConfigError, nearest
from flatfed.data.catalogue.expected import Expected
from flatfed.data.catalogue.named_functions import KIND, as_source, named_function
from flatfed.data.catalogue.official import Official
from flatfed.data.directory import DataDirectory, MissingData, MissingOption
from flatfed.data.storage.pool import Pool
from flatfed.named_code import USER, NamedBy
from flatfed.outside.installed import only_part

Load = Callable[..., Pool]
DIRECTORY = "directory"
"""The parameter of a loading function that is given the data directory."""
REQUIRED = inspect.Parameter.empty
UNNAMED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
USUAL_PARTITION = "dirichlet"
BY_NATURE = "natural"
NO_OPTIONS: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Source:
    """All that is to be known of a data set.

    Args:
        id: its name on the command line.
        load: returns its `Pool`.
        partition: the partition that it has where none is asked for.
        official: where its files come from, and how they are recognised.
        expected: what it must be like.
        follows: the option that names another data set, whose usual partition this one has too.
        natural_with: options that together say who holds what: where all are given, the usual partition is by nature.
    """

    id: str
    load: Load
    partition: str
    official: Official | None = None
    expected: Expected | None = None
    follows: str = ""
    natural_with: tuple[str, ...] = ()

    @property
    def about(self) -> str:
        """The data set in a line."""
        return (inspect.getdoc(self.load) or "").partition("\n")[0]

    @property
    def options(self) -> dict[str, Any]:
        """The names and defaults of its options; `**options` of a user's own function are none that have a name."""
        named = {name: parameter for name, parameter in self._parameters.items() if parameter.kind not in UNNAMED}
        defaults = {name: parameter.default for name, parameter in named.items()}
        defaults.pop(DIRECTORY, None)
        return defaults

    @property
    def takes_any(self) -> bool:
        """Whether it takes options of any name."""
        return any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in self._parameters.values())

    @property
    def written(self) -> Callable[..., Any]:
        """The function as it was written."""
        function: Callable[..., Any] = inspect.unwrap(self.load)
        return function

    @property
    def on_disk(self) -> bool:
        """Whether its files lie in the data directory."""
        return DIRECTORY in self._parameters

    @property
    def downloadable(self) -> bool:
        """Whether its official files can be downloaded by a command."""
        return self.official is not None and bool(self.official.downloads)

    @property
    def how_to_get(self) -> str:
        """What to do for its files: let a command download them, or fetch them by hand."""
        if self.official is None:
            return "put the files there"
        if self.downloadable:
            return f"get it with `flatfed data get {self.id}`, or put the official files there"
        return f"fetch the official files from {self.official.home} and put them there"

    def with_defaults(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options, those that were not given with their defaults, as far as JSON can hold them."""
        return {name: value for name, value in self.options.items() if isinstance(value, PLAIN)} | dict(given)

    def open(self, directory: DataDirectory, options: Mapping[str, Any]) -> Pool:
        """Load the data set; an option that it does not have or lacks, or a value that does not fit, is an error."""
        self._check_names(options)
        arguments = self._checked(options)
        if self.on_disk:
            arguments[DIRECTORY] = directory
        try:
            return self.load(**arguments)
        except MissingData as error:
            # The data directory does not know where files come from; the data set does.
            raise MissingData(error.dataset, error.places, self.how_to_get) from None

    @property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.load).parameters

    def _check_names(self, options: Mapping[str, Any]) -> None:
        """Refuse an option that there is not, and ask for one that has no default."""
        for name in options:
            if name not in self.options and not self.takes_any:
                names = ", ".join(self.options) or "no options"
                raise ConfigError(f"{self.id}: {nearest(name, self.options, 'option')} ({self.id} takes {names})")
        for name, default in self.options.items():
            if default is REQUIRED and name not in options:
                raise MissingOption(self.id, f"the option {name} has no default", name, "VALUE")

    def _checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options as their annotations ask for them."""
        # Annotations that cannot be read matter only where an option is to be checked.
        if not options:
            return {}
        try:
            hints = get_type_hints(self.load, include_extras=True)
            return {name: checked(hints.get(name, object), value, f"data.{name}") for name, value in options.items()}
        except (NameError, TypeError) as error:
            where = f"{self.load.__module__}.{self.load.__qualname__}"
            raise ConfigError(f"{self.id}: options cannot be checked by the annotations of {where}: {error}") from None


SOURCES = "flatfed.data.sources"
"""The package whose modules enter data sets; it is named, not imported, because it imports the catalogue."""

_sources: dict[str, Source] = {}


def is_import_path(id: str) -> bool:
    """Say whether a data set is named by an import path."""
    return ":" in id


def source(
    id: str,
    partition: str = USUAL_PARTITION,
    official: Official | None = None,
    expected: Expected | None = None,
    follows: str = "",
    natural_with: tuple[str, ...] = (),
) -> Callable[[Load], Load]:
    """Enter a function that returns a `Pool` under `id`.

    The first line of its docstring describes the data set. A parameter `directory` is given the data directory; its
    other parameters are options, whose values are checked against their annotations as those of a `Config` are:
    `Count`, `Fraction`, `Literal["a", "b"]`, `Annotated[int, Range(...)]`. `partition` is used where none is asked for.
    `official` says what `flatfed data get` downloads, `expected` what `flatfed data check` compares with.
    `follows` is the option that names another data set, whose usual partition this one has. `natural_with` are options
    that together say who holds what: where all are given, the usual partition is by nature.
    """

    def enter(function: Load) -> Load:
        new = Source(id, function, partition, official, expected, follows, natural_with)
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


def find(id: str, by: NamedBy = USER) -> Source:
    """Return the source `id`, or that of an import path `package.module:function`; an unknown one names the nearest.

    `by` says who named it: an import path in a file is not believed as one that was typed.
    """
    if is_import_path(id):
        return Source(id, named_function(id, by), USUAL_PARTITION)
    broken = _discover()
    enter_installed(id)
    if id not in _sources:
        reasons = [nearest(id, _sources, "data set"), *map(str, broken.values())]
        raise ConfigError("; note: ".join(reasons))
    return _sources[id]


def enter_installed(id: str) -> None:
    """Enter the data set of an installed package; it may enter itself when it is imported."""
    part = only_part(KIND, id)
    if part is None or (id in _sources and _sources[id].written is part.load()):
        return
    function = part.load()
    # Under `@source` it has entered itself, with what it says of itself.
    if id not in _sources or _sources[id].written is not function:
        source(id)(as_source(id, function))


def usual_partition(id: str, options: Mapping[str, Any] = NO_OPTIONS) -> str:
    """Return the partition that a data set has where none is asked for; no code of a user's own is imported for it."""
    if is_import_path(id):
        return USUAL_PARTITION
    found = find(id)
    followed = str(options.get(found.follows, ""))
    # One that is not known is refused when the data are loaded.
    if followed in _sources:
        return _sources[followed].partition
    if found.natural_with and all(options.get(name) for name in found.natural_with):
        return BY_NATURE
    return found.partition


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
