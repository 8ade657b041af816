"""Metrics by name: of a module of the user's own, `package.module:Class`, or of an installed package."""

from __future__ import annotations

from typing import Any

from flatfed.core.configuration.users_code import explained
from flatfed.core.errors import ConfigError
from flatfed.core.task.metrics import Metrics
from flatfed.named_code import NamedBy
from flatfed.outside.installed import only_part
from flatfed.outside.named_parts import find_code

KIND = "metric"


def named_metrics(name: str, by: NamedBy) -> Metrics:
    """Return the metrics that a name stands for: an object with `measure` and `summarise`, or a class that makes it."""
    found = find_code(name, KIND, by) if ":" in name else _installed(name)
    metrics: Metrics = _made(name, found) if isinstance(found, type) else found
    if not callable(getattr(metrics, "measure", None)) or not callable(getattr(metrics, "summarise", None)):
        raise ConfigError(f"{name} is {type(metrics).__name__}, which lacks measure or summarise; metrics have both")
    return metrics


def _installed(name: str) -> Any:
    part = only_part(KIND, name)
    if part is None:
        raise ConfigError(f"there are no metrics called {name!r:.60}; write package.module:Class")
    return part.load()


def _made(name: str, cls: type) -> Any:
    try:
        return cls()
    except Exception as error:  # code of the user's own
        raise ConfigError(f"{name}() cannot be made: {explained(error)}") from error
