"""Parts of installed packages: entry points by group and name. None is imported before it is asked for.

The group of a family is called after it: `flatfed.algorithms`, `flatfed.client_optimisers`, `flatfed.models`.
"""

from __future__ import annotations

import functools
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from flatfed.core.configuration.registry import Registry
from flatfed.core.configuration.users_code import explained
from flatfed.core.errors import ConfigError, ConfigWarning

PREFIX = "flatfed."


@dataclass(frozen=True)
class InstalledPart:
    """A part that a package says it has.

    Args:
        name: its id.
        home: the package and its version.
        entry: where it is written.
    """

    name: str
    home: str
    entry: EntryPoint

    def load(self) -> Any:
        """Import it; a package that cannot be imported is named."""
        try:
            return self.entry.load()
        except (Exception, SystemExit) as error:  # whatever a package does when it is imported
            raise ConfigError(
                f"{self.name!r} of the package {self.home} cannot be imported: {explained(error)}; "
                "mend or remove that package"
            ) from error


def group_of(kind: str) -> str:
    """Return the group of entry points of a kind of parts."""
    return f"{PREFIX}{kind.replace(' ', '_')}s"


def installed_parts(kind: str) -> dict[str, list[InstalledPart]]:
    """Return what packages have of a kind, by id; an id that two packages claim has two entries."""
    return _parts(group_of(kind), tuple(sys.path))


# By the search path, because a command adds the folder where it is started; to look through all packages takes time.
@functools.lru_cache(maxsize=64)
def _parts(group: str, _search: tuple[str, ...]) -> dict[str, list[InstalledPart]]:
    parts: dict[str, list[InstalledPart]] = {}
    for entry in entry_points(group=group):
        home = "" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
        parts.setdefault(entry.name, []).append(InstalledPart(entry.name, home, entry))
    return parts


def only_part(kind: str, name: str) -> InstalledPart | None:
    """Return the installed part of a name; None where there is none, an error where two packages have it."""
    parts = installed_parts(kind).get(name, [])
    if len(parts) > 1:
        homes = " and ".join(part.home for part in parts)
        raise ConfigError(f"the {kind} id {name!r} is claimed by {homes}; remove one of these packages")
    return parts[0] if parts else None


def enter_mentioned(text: str, families: Iterable[Registry[Any]]) -> None:
    """Enter the installed parts whose ids stand in a text; one that cannot be is an error unless its id is taken."""
    for family in families:
        for name in installed_parts(family.kind):
            if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is None:
                continue
            is_there = name in family
            try:
                enter_installed(family, name)
            except ConfigError as error:
                if not is_there:
                    raise
                warnings.warn(ConfigWarning(str(error)), stacklevel=2)


def enter_all(kind: str, enter: Callable[[str], None]) -> list[str]:
    """Enter every installed part of a kind; return what is wrong with those that cannot be."""
    problems: list[str] = []
    for name in installed_parts(kind):
        try:
            enter(name)
        except ConfigError as error:
            problems.append(str(error))
    return problems


def enter_installed(family: Registry[Any], name: str) -> None:
    """Enter the installed part of a name in its family; one that is there already stays."""
    part = only_part(family.kind, name)
    if part is None:
        return
    taken = family.get(name)
    if taken is not None:
        _refuse_clash(family, part, taken)
        return
    cls = part.load()
    if not family.is_member(cls):
        raise ConfigError(f"{part.entry.value} of the package {part.home} is no {family.kind}")
    if cls.id not in ("", name):
        raise ConfigError(
            f"the package {part.home} calls its {family.kind} {name!r}, but the class {part.entry.value} has the id "
            f"{cls.id!r}; give both one name"
        )
    family.register(cls, name)


def _refuse_clash(family: Registry[Any], part: InstalledPart, taken: type) -> None:
    if part.entry.value != f"{taken.__module__}:{taken.__qualname__}":
        raise ConfigError(
            f"the {family.kind} id {part.name!r} of the package {part.home} ({part.entry.value}) is taken by "
            f"{taken.__module__}:{taken.__qualname__}; it needs another id"
        )
