"""Options of a data set, checked against the annotations of its function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from flatfed.core.config import checked
from flatfed.data.pool import Pool


def check_options(function: Callable[..., Pool]) -> Callable[..., Pool]:
    """Let a data set's function refuse values of its options that do not fit their annotations.

    The annotations are those of `core.config`: `Count`, `Fraction`, `Literal["a", "b"]`, `Annotated[int, Range(...)]`.
    """
    named = inspect.signature(function).parameters

    @functools.wraps(function)
    def check(**options: Any) -> Pool:
        hints = get_type_hints(function, include_extras=True)
        for name in options:
            if name in named and name != "directory":
                options[name] = checked(hints[name], options[name], f"data.{name}")
        return function(**options)

    return check
