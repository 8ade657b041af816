"""Data sets by import path, `package.module:function`: code of the user's own that returns one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flatfed.core.configuration.users_code import explained
from flatfed.core.errors import ConfigError
from flatfed.core.randomness import key, key_global_generators, preserved_global_state
from flatfed.data.storage.pool import Pool
from flatfed.data.storage.tensor_pools import pool_of
from flatfed.named_code import NamedBy, origin_of
from flatfed.outside.named_parts import find_code

KIND = "data set"
NO_SOURCES = ("flatfed", "torch")
"""Packages whose functions have other work than to return a data set; any file may name some of them."""


def named_function(id: str, by: NamedBy) -> Callable[..., Pool]:
    """Return the function that an import path names, made to return a pool; what `by` may not name is an error."""
    return as_source(id, find_code(id, KIND, by))


def as_source(id: str, function: Any) -> Callable[..., Pool]:
    """Return a function of somebody's own, made to return a pool; what is no such function is an error."""
    _check_function(id, function)

    # With the function's own parameters and annotations, by which options are checked.
    @functools.wraps(function)
    def load(*arguments: Any, **options: Any) -> Pool:
        return pool_of(id, _called(id, function, arguments, options))

    return load


def _check_function(id: str, function: Any) -> None:
    """Refuse what returns no data set, before it is called."""
    if isinstance(function, type) or not callable(function):
        kind = "class" if isinstance(function, type) else type(function).__name__
        raise ConfigError(f"the data set {id} is a {kind}, not a function that returns one")
    if origin_of(function).partition(".")[0] in NO_SOURCES:
        raise ConfigError(f"the data set {id} is no function of your own that returns one")


def _called(id: str, function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    # Keyed, so that draws from global generators are the same in every run and when it is resumed.
    with preserved_global_state():
        key_global_generators(key(0, "data"))
        try:
            return function(*arguments, **options)
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(f"the data set {id} cannot be loaded: {explained(error)}") from error
