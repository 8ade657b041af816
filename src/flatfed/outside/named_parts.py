"""The one way from `package.module:Name` to a part of a run, for every family.

A text that names parts by import path becomes one that names them by id: each class is imported, if whoever names it
may do so, and entered in its family. Families themselves import nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from flatfed.core.configuration.registry import Registry
from flatfed.core.configuration.users_code import not_imported
from flatfed.core.errors import ConfigError
from flatfed.named_code import NamedBy
from flatfed.outside.installed import enter_mentioned

PATH = re.compile(r"(?<![\w.:/-])[^\W\d][\w.]*:[^\W\d][\w.]*")
"""An import path within a text: `my_package.my_file:MyMethod`."""


def names_code(text: str) -> bool:
    """Say whether a text holds an import path."""
    return PATH.search(text) is not None


def with_ids(text: str, families: Sequence[Registry[Any]], by: NamedBy) -> str:
    """Return a text with ids in the place of import paths; what it names is then in its family.

    `by` says whose word the text is. Ids of installed packages are entered too: who installed them chose them.
    """
    text = as_identifiers(text)
    enter_mentioned(text, families)
    return PATH.sub(lambda path: find_part(path[0], families, by).id, text)


def as_identifiers(text: str) -> str:
    """Return a text with its letters as Python has them in names: what a keyboard types may be `o` and two dots."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def meant_path(text: str) -> str | None:
    """Return how a text would be written that is almost an import path: that of a file, or with dots alone."""
    place, colon, name = as_identifiers(text).rpartition(":" if ":" in text else ".")
    within = place.removesuffix(".py").replace("\\", "/").removeprefix("./")
    # Of a file elsewhere the name is left: Python is started in its folder.
    module = within.rpartition("/")[2] if within.startswith(("/", "..")) else within.lstrip(".").replace("/", ".")
    path = f"{module}:{name}"
    return path if colon and path != text and PATH.fullmatch(path) else None


def with_entered_ids(text: str, families: Sequence[Registry[Any]]) -> str:
    """Return a text with ids in the place of the import paths of parts that are in their families; none is imported."""
    ids = {f"{cls.__module__}:{cls.__qualname__}": id for family in families for id, cls in family.items()}
    return PATH.sub(lambda path: ids.get(path[0], path[0]), text)


def find_part(path: str, families: Sequence[Registry[Any]], by: NamedBy) -> Any:
    """Return the class that an import path names, entered in its family; one without an id is called after itself."""
    cls = find_code(path, _either(families), by)
    family = next((family for family in families if family.is_member(cls)), None)
    if family is None:
        raise ConfigError(f"{path} is {_what(cls)}, not {_kinds(families)}")
    if not cls.id:
        family.register(cls, cls.__name__.lower())
    return cls


def find_code(path: str, kind: str, by: NamedBy) -> Any:
    """Return what an import path names; every way in which that fails is one sentence."""
    try:
        return by.find(path)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}" if path not in str(error) else str(error)) from error
    except (Exception, SystemExit) as error:  # whatever a module does when it is imported
        reason = not_imported(error, path.partition(":")[0])
        raise ConfigError(f"the {kind} {path} cannot be imported: {reason}") from error


def _kinds(families: Sequence[Registry[Any]]) -> str:
    """Return what is looked for, in words: `a client optimiser or an average`."""
    return " or ".join(f"{'an' if family.kind[0] in 'aeiou' else 'a'} {family.kind}" for family in families)


def _either(families: Sequence[Registry[Any]]) -> str:
    return " or ".join(family.kind for family in families)


def _what(thing: Any) -> str:
    """Return what was found instead."""
    if not isinstance(thing, type):
        return f"a {type(thing).__name__}"
    family = getattr(thing, "registry", None)
    if isinstance(family, Registry):
        return _kinds([family]) if family.is_member(thing) else f"the family of every {family.kind}"
    return "a class of no family"
