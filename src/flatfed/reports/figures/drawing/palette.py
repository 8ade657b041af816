"""Colours and line styles of all figures, and whether any can be drawn."""

from __future__ import annotations

import importlib.util
from typing import Any

# Okabe and Ito's palette, its yellow darkened: told apart with any kind of colour vision. Line styles add to it.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
STYLES = ("-", "--", "-.", ":")


def available() -> bool:
    """Say whether figures can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


def colour(index: int) -> str:
    """Return the colour of the curve, bar or surface with this number."""
    return COLOURS[index % len(COLOURS)]


def look(index: int) -> dict[str, Any]:
    """Return colour and line style of the curve with this number."""
    return {"color": colour(index), "linestyle": STYLES[index // len(COLOURS) % len(STYLES)]}


def alone(count: int, marker: str = "o", size: float = 5) -> dict[str, Any]:
    """Return a mark for a curve with this number of points: a single one makes no line."""
    if count == 1:
        return {"marker": marker, "markersize": size}
    return {}
