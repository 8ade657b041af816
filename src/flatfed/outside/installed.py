"""Parts of installed packages: entry points by group and name. None is imported before it is asked for.

The group of a family is called after it: `flatfed.algorithms`, `flatfed.client_optimisers`, `flatfed.models`.
"""

from __future__ import annotations

import functools
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import Any

from flatfed.core.configuration.registry import Registry
from flatfed.core.configuration.users_code import explained
from flatfed.core.errors import ConfigError, ConfigWarning

PREFIX = "flatfed."
PLACE = re.compile(r"[\w.]+\s*(:\s*[\w.]+\s*(\[.*\])?)?")
"""What an entry point says: `package.module:Name`, perhaps with the extra that it needs."""


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
        if not PLACE.fullmatch(self.entry.value):
            raise ConfigError(
                f"{self.name!r} of the package {self.home} is said to be at {self.entry.value!r:.80}, which is no "
                "module:Name; mend or remove that package"
            )
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
    return _found(tuple(sys.path)).parts.get(group_of(kind), {})


@dataclass(frozen=True)
class _InstalledParts:
    """What all packages have, by group and id, and what is wrong with those that cannot be read."""

    parts: dict[str, dict[str, list[InstalledPart]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


# By the search path, because a command adds the folder where it is started; to look through all packages takes time.
@functools.lru_cache(maxsize=8)
def _found(_search: tuple[str, ...]) -> _InstalledParts:
    found = _InstalledParts()
    seen: set[str] = set()
    for package in distributions():
        try:
            entries = _entries(package)
            # Of a package that is there twice Python imports the first.
            if entries and (name := str(package.name).lower()) not in seen:
                seen.add(name)
                _note(found, f"{package.name} {package.version}", entries)
        except Exception as error:  # one package that is broken, in whatever way, must not take the others with it
            found.problems.append(f"the entry points of a package cannot be read: {explained(error)}")
    return found


def _entries(package: Distribution) -> list[EntryPoint]:
    """Return the entry points of a package that are meant for flatfed; most have none, and are not looked at."""
    if PREFIX not in (package.read_text("entry_points.txt") or ""):
        return []
    return [entry for entry in package.entry_points if entry.group.startswith(PREFIX)]


def _note(found: _InstalledParts, home: str, entries: list[EntryPoint]) -> None:
    for entry in entries:
        parts = found.parts.setdefault(entry.group, {}).setdefault(entry.name, [])
        parts.append(InstalledPart(entry.name, home, entry))


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
    problems = list(_found(tuple(sys.path)).problems)
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
