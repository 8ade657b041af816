"""Losses at many points of weight space, in the worker pool; points that are kept are not evaluated again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from flatfed.flatness.drawable import Floats
from flatfed.flatness.sums import Coefficients
from flatfed.flatness.surface import Surface
from flatfed.runs.results import Points, finite

KEPT = ("loss", "accuracy")

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
    known = _known(points, kept)
    # Points may repeat, such as the model itself, which lies on every axis.
    missing = [point for point in dict.fromkeys(points) if point not in known]
    record = _Record(known, missing, kept, on_point)
    record.tell()
    if missing:
        frame.surface.metrics_at(missing, frame.directions, frame.statistics, record.add)
    return [record.numbers[point] for point in points]


def _known(points: Sequence[Coefficients], kept: Points | None) -> dict[Coefficients, dict[str, float]]:
    """Return the numbers of points that were evaluated before."""
    if kept is None:
        return {}
    known = {}
    for point in points:
        metrics = kept.get(point)
        if metrics is not None:
            known[point] = _numbers(metrics)
    return known


class _Record:
    """The numbers of the points that are known, and of the others as they come: each is kept at once."""

    def __init__(
        self,
        known: dict[Coefficients, dict[str, float]],
        missing: Sequence[Coefficients],
        kept: Points | None,
        on_point: OnPoint,
    ) -> None:
        self.numbers = known
        self._missing, self._kept, self._on_point = missing, kept, on_point
        self._total = len(known) + len(missing)

    def add(self, number: int, metrics: Mapping[str, Any]) -> None:
        """Take in the metrics of one of the missing points."""
        point = self._missing[number]
        chosen = {name: metrics[name] for name in KEPT if name in metrics}
        # Kept at once, so that an interrupted landscape goes on from here.
        if self._kept is not None:
            self._kept.add(point, finite(chosen))
        self.numbers[point] = _numbers(chosen)
        self.tell()

    def tell(self) -> None:
        """Say how many points are done."""
        self._on_point(len(self.numbers), self._total)


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return loss and error; what is not finite is kept as nothing, since JSON has no word for it."""
    loss, accuracy = metrics.get("loss"), metrics.get("accuracy")
    numbers = {"loss": math.inf}
    if loss is not None and math.isfinite(loss):
        numbers["loss"] = float(loss)
    if accuracy is not None:
        numbers["error"] = 1.0 - accuracy
    return numbers


def column(points: Sequence[Mapping[str, float]], name: str) -> Floats:
    """Return one number of every point."""
    return np.array([numbers.get(name, math.nan) for numbers in points], dtype=np.float64)
