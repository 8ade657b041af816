"""Importing every module of a package and of the packages in it, so that a new file registers what it holds."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable

from flatfed.core.errors import ConfigError


def import_all(package: str, path: Iterable[str], kind: str) -> None:
    """Import the modules of a package; one that fails is an error that names it and what is wrong with it."""
    for name in module_names(package, path):
        import_one(name, kind)


def module_names(package: str, path: Iterable[str]) -> list[str]:
    """Return the names of all modules below a package, none of them imported yet but for the packages."""
    names: list[str] = []
    for module in pkgutil.iter_modules(path, f"{package}."):
        names.append(module.name)
        if module.ispkg:
            names += _names_within(module.name)
    return names


def _names_within(package: str) -> list[str]:
    """Return the names of the modules of an inner package; of one that cannot be imported there are none."""
    try:
        inner = importlib.import_module(package)
    except Exception:  # a package may fail in any way; `import_one` says how, as it is itself one of the names
        return []
    return module_names(package, inner.__path__)


def import_one(name: str, kind: str) -> None:
    """Import a module; where it fails, the error names it and what is wrong with it."""
    try:
        importlib.import_module(name)
    except Exception as error:  # a module may fail in any way
        why = " ".join(str(error).split())
        reason = f"{type(error).__name__}: {why}" if why else type(error).__name__
        raise ConfigError(f"the {kind} module {name} cannot be imported ({reason}); mend or remove it") from error
