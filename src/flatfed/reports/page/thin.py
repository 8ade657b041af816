"""Fewer points of long histories, for drawing; a page says where it shows fewer than there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

MOST = 300
"""Points of one curve at most: more than a screen can tell apart."""
FEWEST = 40
"""Points of one curve, however many curves there are."""
BUDGET = 150_000
"""Points of all curves of a page, so that it stays at a few megabytes."""

Item = TypeVar("Item")


def points_each(curves: int) -> int:
    """Return how many points each of a number of curves may have."""
    return min(MOST, max(FEWEST, BUDGET // max(curves, 1)))


def thinned(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most `most` of the items, evenly spaced, with the first and the last."""
    return [items[place] for place in kept_places(len(items), most)]


def kept_places(count: int, most: int) -> list[int]:
    """Return which of `count` places are kept."""
    if count <= most:
        return list(range(count))
    # Each once: rounding may meet the same place twice.
    return sorted({round(place) for place in np.linspace(0, count - 1, most)})
