"""Mean ranks of methods with the critical difference: those that a bar joins are not significantly different."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.reports.figures.drawing.style import (
    COLUMN,
    GREY,
    INK,
    SMALL,
    finish,
    fold,
    in_style,
    new_figure,
    require_some,
    short,
)

LINE, FURTHER = 0.18, 0.11
"""Inches from one name to the next, and for each further line of it."""
BAR = 0.09
"""Inches from one bar to the next."""
HEAD = 0.42
"""Inches above the axis: its numbers, and the critical difference."""
SIDE = 1.25
"""Inches on each side for names."""


@dataclass(frozen=True)
class RankedMethods:
    """What is drawn: mean ranks, the critical difference if there is one, and groups that it does not separate."""

    mean_ranks: Mapping[str, float]
    critical_difference: float | None = None
    groups: Sequence[Sequence[str]] = ()


@in_style
def draw_ranks(ranked: RankedMethods, files: Sequence[Path], note: str = "", title: str = "") -> None:
    """Draw mean ranks on a line, 1, the best, on the left; names stand below, the better half on the left."""
    require_some(list(ranked.mean_ranks))
    order = sorted(ranked.mean_ranks, key=lambda method: ranked.mean_ranks[method])
    half = (len(order) + 1) // 2
    # The worst first on the right: lines then do not cross.
    sides = {"left": order[:half], "right": order[: half - 1 : -1]}
    bars = BAR * (len(ranked.groups) + 1)
    height = HEAD + bars + max(_places(ranked, names)[-1] for names in sides.values() if names) + LINE
    figure = new_figure(COLUMN, height, layout=None)
    axes = _blank(figure, height)
    scale = _Scale(max(len(order), 2))
    _draw_axis(axes, scale)
    if ranked.critical_difference is not None:
        _draw_ruler(axes, scale, ranked.critical_difference)
    for place, group in enumerate(ranked.groups):
        _draw_bar(axes, scale, [ranked.mean_ranks[method] for method in group], -BAR * (place + 1))
    for side, names in sides.items():
        for method, y in zip(names, _places(ranked, names), strict=True):
            _draw_name(axes, scale(ranked.mean_ranks[method]), -bars - y, _text(ranked, method), side)
    finish(figure, files, note, title)


def _blank(figure: Any, height: float) -> Any:
    """Return axes over the whole figure in inches, 0 at the height of the scale."""
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, COLUMN)
    axes.set_ylim(HEAD - height, HEAD)
    return axes


def _places(ranked: RankedMethods, names: Sequence[str]) -> list[float]:
    """Return how far down the middle of each name lies, in inches."""
    heights = [LINE + FURTHER * _text(ranked, name).count("\n") for name in names]
    ends = itertools.accumulate(heights)
    return [end - height / 2 for end, height in zip(ends, heights, strict=True)]


@dataclass(frozen=True)
class _Scale:
    """Where ranks from 1 to `most` lie, in inches from the left."""

    most: int

    def __call__(self, rank: float) -> float:
        return SIDE + (rank - 1) / (self.most - 1) * (COLUMN - 2 * SIDE)


def _text(ranked: RankedMethods, method: str) -> str:
    """Return a name with its rank, broken where it is long."""
    return fold(f"{method} {ranked.mean_ranks[method]:.2f}", SIDE - 0.07, SMALL)


def _draw_axis(axes: Any, scale: _Scale) -> None:
    axes.plot([scale(1), scale(scale.most)], [0, 0], color=INK, linewidth=0.8)
    step = int(np.ceil(scale.most / 10))
    for rank in range(1, scale.most + 1, step):
        axes.plot([scale(rank)] * 2, [0, 0.05], color=INK, linewidth=0.8)
        axes.text(scale(rank), 0.07, str(rank), ha="center", va="bottom", fontsize=SMALL)
    axes.text(SIDE - 0.12, 0.0, "mean rank", ha="right", va="center", fontsize=SMALL, color=GREY)


def _draw_ruler(axes: Any, scale: _Scale, difference: float) -> None:
    """Draw the critical difference as a length above the axis; one wider than the axis is said only."""
    text = f"critical difference {short(difference)}"
    left, right = scale(1), scale(1 + difference)
    if right > scale(scale.most) + 1e-9:
        axes.text(COLUMN / 2, 0.28, f"{text}: wider than the axis", ha="center", fontsize=SMALL, color=GREY)
        return
    axes.errorbar((left + right) / 2, 0.3, xerr=(right - left) / 2, color=GREY, capsize=2, linewidth=1)
    axes.text(right + 0.06, 0.3, text, ha="left", va="center", fontsize=SMALL, color=GREY)


def _draw_bar(axes: Any, scale: _Scale, ranks: Sequence[float], y: float) -> None:
    ends = [scale(min(ranks)) - 0.03, scale(max(ranks)) + 0.03]
    axes.plot(ends, [y, y], color=INK, linewidth=2.5, solid_capstyle="butt")


def _draw_name(axes: Any, x: float, y: float, text: str, side: str) -> None:
    """Draw a line from the axis down and out to the name."""
    end = SIDE - 0.1 if side == "left" else COLUMN - SIDE + 0.1
    axes.plot([x, x, end], [0, y, y], color=GREY, linewidth=0.7)
    where = end - 0.04 if side == "left" else end + 0.04
    axes.text(where, y, text, ha="right" if side == "left" else "left", va="center", fontsize=SMALL)
