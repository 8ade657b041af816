"""The files that a part is made of: its module, and those of its author that this one imports, and so on.

They are found by reading the files, not by what happens to be imported, so the answer is the same in every process; and
nothing is imported. Modules of the standard library, of flatfed and of torch are left out; of packages by others the
version counts. What a module imports under a name that it computes cannot be seen.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from importlib.metadata import Distribution, distributions
from pathlib import Path

from flatfed.named_code import ModulePlace, place_of

OWN = ("flatfed", "torch")
"""Packages whose parts are in the record of versions already."""
IN_THE_ENVIRONMENT = (*OWN, "numpy", "safetensors")
"""Packages whose versions every run has in the record of its environment."""
SCRIPT = "__main__"
PROJECT = "the project"


@dataclass(frozen=True)
class Sources:
    """What a module is made of.

    Args:
        sha256: the hash of its own file; None where there is none to read.
        modules: the hashes of the other modules of the same package or project, by name.
        uses: the versions of the packages by others that these import, by name.
        files: where the modules lie, its own among them.
    """

    sha256: str | None = None
    modules: Mapping[str, str] = field(default_factory=dict)
    uses: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """One hash of all modules by their names, wherever they lie."""
        lines = [f"{name} {content}\n" for name, content in sorted(self.modules.items())]
        return hashlib.sha256("".join([f"{self.sha256}\n", *lines]).encode()).hexdigest()


def sources_of(module: str) -> Sources:
    """Return what a module is made of; one that cannot be found is made of nothing."""
    first = _found(module)
    if first is None or first.file is None:
        return Sources()
    if module == SCRIPT:
        return Sources(_read(first.file).sha256, files={module: first.file})
    home = _home(module, first.file)
    hashes: dict[str, str] = {}
    files: dict[str, Path] = {}
    uses: dict[str, str] = {}
    seen = {module, *_packages(module)}
    waiting = list(seen)
    while waiting:
        name = waiting.pop()
        there = _found(name)
        if there is None or there.file is None:
            continue
        if _home(name, there.file) != home:
            uses |= _version_of(name, there.file)
            continue
        source = _read(there.file)
        if source.sha256 is not None:
            hashes[name], files[name] = source.sha256, there.file
        further = set(source.imports(name, there.is_package)) - seen
        seen |= further
        waiting += further
    return Sources(hashes.pop(module, None), dict(sorted(hashes.items())), dict(sorted(uses.items())), files)


# --- where modules lie ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SourcePlace:
    """A module's file, and the folders of its own modules where it is a package."""

    file: Path | None
    folders: tuple[Path, ...] = ()

    @property
    def is_package(self) -> bool:
        return bool(self.folders)


def _found(name: str) -> _SourcePlace | None:
    """Return where a module lies, imported or not; None where there is none, or it is not the author's to change."""
    top, _, _ = name.partition(".")
    if top in sys.stdlib_module_names or top in OWN:
        return None
    if name in sys.modules:
        return _SourcePlace(place_of(name).file, tuple(map(Path, getattr(sys.modules[name], "__path__", ()))))
    parent, _, last = name.rpartition(".")
    if not parent:
        return _on_the_search_path(name)
    above = _found(parent)
    return None if above is None else _within(above.folders, last)


def _on_the_search_path(name: str) -> _SourcePlace | None:
    for finder in sys.meta_path:
        spec = finder.find_spec(name, None)
        if spec is not None:
            file = Path(spec.origin).resolve() if spec.has_location and spec.origin else None
            return _SourcePlace(file, tuple(map(Path, spec.submodule_search_locations or ())))
    return None


def _within(folders: tuple[Path, ...], name: str) -> _SourcePlace | None:
    """Return a module of a package; Python itself would have to import the package to say it."""
    for folder in folders:
        inner = folder / name
        if (inner / "__init__.py").is_file():
            return _SourcePlace((inner / "__init__.py").resolve(), (inner,))
        for suffix in (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES):
            file = folder / f"{name}{suffix}"
            if file.is_file():
                return _SourcePlace(file.resolve())
    spaces = tuple(folder / name for folder in folders if (folder / name).is_dir())
    return _SourcePlace(None, spaces) if spaces else None


def _packages(module: str) -> list[str]:
    """Return the packages around a module, which are imported before it."""
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


# --- whose they are -------------------------------------------------------------------------------------------


def _home(module: str, file: Path) -> str | None:
    """Return what a module belongs to: an installed package, or the user's project; None for the standard library."""
    place = ModulePlace(file)
    if place.is_standard:
        return None
    package, _ = installed_package(module, file)
    if package is not None:
        return package
    return module.partition(".")[0] if place.is_installed else PROJECT


def _version_of(module: str, file: Path) -> dict[str, str]:
    package, version = installed_package(module, file)
    if package is None or version is None or package in IN_THE_ENVIRONMENT:
        return {}
    return {package: version}


def installed_package(module: str, file: Path) -> tuple[str | None, str | None]:
    """Return the installed package that a module with this file belongs to, and its version."""
    for found in _distributions(tuple(sys.path)).get(module.partition(".")[0], ()):
        # A folder of the user's own may have the name of an installed package.
        if file.is_relative_to(Path(str(found.locate_file(""))).resolve()):
            return found.name, found.version
    return None, None


@functools.lru_cache(maxsize=1)
def _distributions(_search: tuple[str, ...]) -> Mapping[str, list[Distribution]]:
    """Return the installed packages by the names of the modules that they bring."""
    found: dict[str, list[Distribution]] = {}
    for package in distributions():
        # One that is broken, in whatever way, must not take the others with it.
        with contextlib.suppress(Exception):
            for name in _modules_of(package):
                found.setdefault(name, []).append(package)
    return found


def _modules_of(package: Distribution) -> set[str]:
    said = (package.read_text("top_level.txt") or "").split()
    return set(said) or {file.parts[0].partition(".")[0] for file in package.files or ()}


# --- what they say --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SourceText:
    """A file's hash, and what it imports: how many packages up, from which module, which names."""

    sha256: str | None
    imported: tuple[tuple[int, str, tuple[str, ...]], ...] = ()

    def imports(self, module: str, is_package: bool) -> Iterator[str]:
        """Yield the modules that it may import, with the packages around them."""
        own = module if is_package else module.rpartition(".")[0]
        for level, base, names in self.imported:
            start = _start(own, level, base)
            for name in (start, *(f"{start}.{name}" for name in names)):
                if name:
                    yield from (*_packages(name), name)


def _start(package: str, level: int, base: str) -> str:
    """Return the module that `from ..base import` names in a package."""
    if not level:
        return base
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - level + 1], *filter(None, [base])])


def _read(file: Path) -> _SourceText:
    try:
        about = file.stat()
        return _read_once(file, about.st_mtime_ns, about.st_size)
    except OSError:
        return _SourceText(None)


# Parts of one project have the same modules.
@functools.lru_cache(maxsize=1024)
def _read_once(file: Path, _changed: int, _size: int) -> _SourceText:
    content = file.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    if file.suffix not in SOURCE_SUFFIXES:
        return _SourceText(sha256)
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):  # nobody can import it
        return _SourceText(sha256)
    return _SourceText(sha256, tuple(_import_statements(tree)))


def _import_statements(tree: ast.Module) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or "", tuple(alias.name for alias in node.names if alias.name != "*")
