"""Losses at many points of weight space, in the worker pool; points that are kept are not evaluated again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from flatfed.flatness.pieces import Coefficients
from flatfed.flatness.results import Floats
from flatfed.flatness.surface import Surface
from flatfed.runs.results import Points

OnPoint = Callable[[int, int], None]
"""Called with how many points are done, of how many."""


@dataclass(frozen=True)
class Frame:
    """Where points lie: `w + sum_i c_i d_i`, and the statistics that go with them, `b + sum_i c_i s_i`."""

    surface: Surface
    directions: Sequence[Tensor]
    statistics: Sequence[Mapping[str, Tensor]] = field(default_factory=list)


def evaluate(
    frame: Frame,
    points: Sequence[Coefficients],
    kept: Points | None = None,
    on_point: OnPoint = lambda done, total: None,
) -> list[dict[str, float]]:
    """Return loss and, where there are classes, error at each point; a loss that overflows is infinite."""
    found = {at: _numbers(known) for at in points if kept is not None and (known := kept.get(at)) is not None}
    missing = [at for at in dict.fromkeys(points) if at not in found]
    done, total = len(found), len(found) + len(missing)
    on_point(done, total)

    def note(number: int, figures: Mapping[str, Any]) -> None:
        nonlocal done
        at, told = missing[number], {n: figures[n] for n in ("loss", "accuracy") if n in figures}
        if kept is not None:
            kept.add(at, {name: value if math.isfinite(value) else None for name, value in told.items()})
        found[at] = _numbers(told)
        done += 1
        on_point(done, total)

    if missing:
        frame.surface.figures_at(missing, frame.directions, frame.statistics, note)
    return [found[at] for at in points]


def _numbers(figures: Mapping[str, Any]) -> dict[str, float]:
    loss = figures.get("loss")
    numbers = {"loss": math.inf if loss is None or not math.isfinite(loss) else float(loss)}
    return numbers | ({"error": 1.0 - figures["accuracy"]} if figures.get("accuracy") is not None else {})


def column(found: Sequence[Mapping[str, float]], name: str) -> Floats:
    """Return one number of every point."""
    return np.array([one.get(name, math.nan) for one in found], dtype=np.float64)
