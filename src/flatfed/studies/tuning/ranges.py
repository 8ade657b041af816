"""Ranges of parameters: `{log: [0.01, 1]}`, `{uniform: [0, 0.9]}`, `{whole: [1, 9]}`, `{choice: [a, b]}`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Range = Mapping[str, tuple[Any, ...]]
"""One kind with its values."""
Space = Mapping[str, Range]
"""The ranges of a method's parameters, by their names."""

KINDS = ("log", "uniform", "whole", "choice")
EXAMPLE = "write a range as {log: [0.01, 1]}, {uniform: [0, 0.9]}, {whole: [1, 10]} or {choice: [a, b]}"
DIGITS = 4
"""Significant digits of a number that is tried: more of them say nothing, and people copy them."""


def fault_of_range(range: Range) -> str:
    """Return what is wrong with a range, or nothing."""
    if len(range) != 1 or next(iter(range)) not in KINDS:
        return EXAMPLE
    kind, values = next(iter(range.items()))
    if kind == "choice":
        return _fault_of_choice(values)
    if len(values) != 2 or not all(_is_number(value) for value in values):
        return f"{kind} takes two numbers, the lowest and the highest"
    low, high = values
    if not low < high:
        return f"{kind} takes the lowest and then the highest, not {low:g} and {high:g}"
    if kind == "log" and low <= 0:
        return f"log takes numbers above 0, not {low:g}"
    if kind == "whole" and not all(isinstance(value, int) for value in values):
        return "whole takes whole numbers"
    return ""


def _fault_of_choice(values: tuple[Any, ...]) -> str:
    if not all(isinstance(value, str | int | float | bool) for value in values):
        return "choice takes numbers or words"
    if len(set(values)) < max(2, len(values)):
        return "choice takes at least two values, each of them once"
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def tidy(range: Range, value: Any) -> Any:
    """Return a value of a range with a few digits, as people write it."""
    kind, values = next(iter(range.items()))
    if kind in ("choice", "whole"):
        return value
    low, high = values
    return min(max(float(f"{value:.{DIGITS}g}"), float(low)), float(high))


def ends(space: Space) -> list[tuple[tuple[str, Any], ...]]:
    """Return points at the ends of the ranges: what holds for them should hold for all in between."""
    low = tuple((name, next(iter(range.values()))[0]) for name, range in space.items())
    high = tuple((name, next(iter(range.values()))[-1]) for name, range in space.items())
    return [low, high]
