"""Code that a text names, `package.module:Class`: what may be imported for it. To import a module is to run it.

What a user types is the user's own word. A file may come from somebody else: a run directory's, a comparison's, YAML. A
module that a file names is imported only where the user trusts the file, or where the module belongs to the user's
present project and cannot have come with the file. So a module is found and judged by where it lies before it is
imported, package by package. Nothing that the file says of itself makes it easier to be let in.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, NamespaceLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from flatfed.core.errors import ConfigError

LIBRARY = (
    *("torch.nn", "torch._C._nn", "flatfed.core.task.losses"),
    *("flatfed.models", "flatfed.data.augment", "flatfed.data.storage.pool", "flatfed.data.formats.images"),
)
"""Modules of flatfed and torch that any file may name; of what they hold, only some kinds are built."""

INSTALLED = ("site-packages", "dist-packages")

NOT_OF_A_PROJECT = ("flatfed", "torch", "__main__")
"""Packages that may lie in the folder of those who work on them; and the script, which no record names."""


@dataclass(frozen=True)
class NamedBy:
    """Who names code: the user, or a file.

    Args:
        file: the file; None is the user.
        trusted: the user says that the file may name any code.
        home: the directory that came with the file: code that lies in it is not the user's.
        recorded: the modules' files when the file was written; None where it does not say.
    """

    file: Path | None = None
    trusted: bool = False
    home: Path | None = None
    recorded: Mapping[str, str] | None = None

    @property
    def is_believed(self) -> bool:
        """Whether any code may be named that is not of the standard library."""
        return self.file is None or self.trusted

    def find(self, path: str) -> Any:
        """Return what a path names; what may not be imported for it is a `ConfigError`, and is not imported."""
        module, _, name = path.partition(":")
        thing: Any = self._imported(module, path)
        for part in name.split("."):
            thing = getattr(thing, part)
        # A module of the user's holds names of other modules too.
        self._check_origin(thing, path)
        return thing

    def _imported(self, module: str, path: str) -> ModuleType:
        """Import a module package by package: each is judged first."""
        parts = module.split(".")
        for count in range(1, len(parts) + 1):
            name = ".".join(parts[:count])
            place = place_of(name)
            # What the user types may be imported; whether it may be called is another matter. A folder runs nothing.
            if self.file is not None and not place.is_namespace:
                self._check(path, place, is_library(name) or self._is_recorded(name, place))
            importlib.import_module(name)
        return sys.modules[module]

    def _check_origin(self, thing: Any, path: str) -> None:
        # A plain value, or a module: nobody calls it.
        if not callable(thing):
            return
        origin = origin_of(thing)
        place = place_of(origin) if origin in sys.modules else ModulePlace(None)
        self._check(path, place, is_within_library(origin) or self._is_of_the_project(origin, place))

    def _check(self, path: str, place: ModulePlace, is_known: bool) -> None:
        """Refuse what lies where nobody's word is enough, and what is not known where the file's word is not."""
        if place.is_standard:
            raise ConfigError(f"{self._who} {path}, which is in Python's standard library and no part of a task")
        if self.is_believed or is_known:
            return
        file = f"{place.file or 'that module'}{self._other_place(path, place)}"
        raise ConfigError(
            f"{self._who} {path}, and opening it would run {file}; add --trust (trust=True) if you trust its maker"
        )

    def _other_place(self, path: str, place: ModulePlace) -> str:
        """Say that code lies elsewhere than it did: a project was moved, or this is not the one that was used."""
        before = (self.recorded or {}).get(path.partition(":")[0])
        if before is None or place.file is None or before == str(place.file):
            return ""
        return " (not where it was then)"

    @property
    def _who(self) -> str:
        if self.file is None:
            return "no model or data come from"
        return f"{self.file} names"

    def _is_recorded(self, module: str, place: ModulePlace) -> bool:
        """Say whether a module is of the user's project and, where there is a record, the one that was used then."""
        if self.recorded is not None and self.recorded.get(module) != str(place.file):
            return False
        return self._is_of_the_project(module, place)

    def _is_of_the_project(self, module: str, place: ModulePlace) -> bool:
        """Say whether a module is the user's own, and did not come with the file."""
        if place.file is None or place.is_installed or module.partition(".")[0] in NOT_OF_A_PROJECT:
            return False
        own = any(map(place.file.is_relative_to, project_folders()))
        return own and not self._may_have_brought(place.file)

    def _may_have_brought(self, code: Path) -> bool:
        """Say whether somebody may have packed a file of code together with the file that names it."""
        if self.file is None:
            return False
        if self.home is not None and code.is_relative_to(self.home.resolve()):
            return True
        # A folder of the user's own is put together by the user; a folder in it may have come as a whole.
        own = _nearest(code, [*project_folders(), *_folder_of_program()])
        for place in (self.file.parent.resolve(), self.file.resolve().parent):
            packed = _entry_towards(place, own)
            if packed is not None and code.is_relative_to(packed):
                return True
        return False


USER = NamedBy()
"""What is typed, or written in Python."""


@dataclass(frozen=True)
class ModulePlace:
    """Where a module lies.

    Attributes:
        file: its file, links followed; None where it has none.
        is_namespace: whether it is a folder without code of its own.
        is_built_in: whether it is a part of the interpreter.
    """

    file: Path | None
    is_namespace: bool = False
    is_built_in: bool = False

    @property
    def is_standard(self) -> bool:
        """Whether it belongs to Python's standard library."""
        if self.file is None:
            return self.is_built_in
        within = any(map(self.file.is_relative_to, _standard_folders()))
        return within and not self.is_installed

    @property
    def is_installed(self) -> bool:
        """Whether a package manager put it there."""
        return self.file is not None and any(part in INSTALLED for part in self.file.parts)


def place_of(module: str) -> ModulePlace:
    """Return where a module lies, without importing it; its packages must be imported. None there is an error."""
    loaded = sys.modules.get(module)
    spec = _found(module) if loaded is None else getattr(loaded, "__spec__", None)
    file = getattr(loaded, "__file__", None)
    if spec is None:  # a script, or a module that was made in memory
        return ModulePlace(_real(file))
    if file is None and spec.has_location:
        file = spec.origin
    if file is not None:
        return ModulePlace(_real(file))
    is_namespace = spec.loader is None or isinstance(spec.loader, NamespaceLoader)
    return ModulePlace(None, is_namespace, spec.origin in ("built-in", "frozen"))


def _found(module: str) -> ModuleSpec:
    parent = module.rpartition(".")[0]
    # Not `importlib.util.find_spec`, which imports the packages on the way.
    search = getattr(sys.modules[parent], "__path__", ()) if parent else None
    finders = sys.meta_path if module else ()
    for finder in finders:
        spec = finder.find_spec(module, search)
        if spec is not None:
            return spec
    raise ModuleNotFoundError(f"No module named {module!r}", name=module)


def _real(file: str | None) -> Path | None:
    return None if file is None else Path(file).resolve()


def origin_of(thing: Any) -> str:
    """Return the module in which a class, a function or a function with some arguments filled in was written."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    return str(getattr(thing, "__module__", None) or type(thing).__module__)


def is_library(module: str) -> bool:
    """Say whether a module is one of flatfed or torch that files may name, or a package on the way to it."""
    return is_within_library(module) or any(name.startswith(f"{module}.") for name in LIBRARY)


def is_within_library(module: str) -> bool:
    """Say whether a module is one of flatfed or torch whose things files may name."""
    return any(f"{module}.".startswith(f"{name}.") for name in LIBRARY)


def project_folders() -> list[Path]:
    """Return the folders with the user's own code: where the command was started, and those of PYTHONPATH."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [Path.cwd(), *(Path(folder).resolve() for folder in named if folder)]


def _folder_of_program() -> list[Path]:
    """Return the folder of the program that the user started; a session without one has none."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return [] if file is None else [Path(file).resolve().parent]


def _nearest(file: Path, folders: list[Path]) -> Path:
    """Return the innermost of the folders that hold a file; one must."""
    return max(filter(file.is_relative_to, folders), key=lambda folder: len(folder.parts))


def _entry_towards(place: Path, folder: Path) -> Path | None:
    """Return the entry of a folder within which a place lies; None where it lies elsewhere, or is the folder."""
    if place == folder or not place.is_relative_to(folder):
        return None
    return folder / place.relative_to(folder).parts[0]


@functools.cache
def _standard_folders() -> tuple[Path, ...]:
    return tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))
