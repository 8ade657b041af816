"""Importing every module of a package, so that a new file enters what it holds."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable

from flatfed.core.errors import ConfigError


def import_all(package: str, path: Iterable[str], kind: str) -> None:
    """Import the modules of a package; one that fails is an error that names it and what is wrong with it."""
    for module in pkgutil.iter_modules(path, f"{package}."):
        try:
            importlib.import_module(module.name)
        except Exception as error:  # a module may fail in any way
            why = " ".join(str(error).split())
            raise ConfigError(
                f"the {kind} module {module.name} cannot be imported ({type(error).__name__}{why and f': {why}'}); "
                "mend or remove it"
            ) from error
