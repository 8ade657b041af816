"""A number of each client over rounds, and what they have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.flatness.results import Floats
from flatfed.reports.curves import COLOURS
from flatfed.reports.figures.drawing.scales import finite, is_wide, make_log
from flatfed.reports.figures.drawing.style import COLUMN, GREY, finish, in_style, new_figure
from flatfed.reports.figures.drawing.words import named

BAND = "middle half of the clients"


@in_style
def draw_client_trends(
    rounds: Sequence[int],
    values: Mapping[int, Sequence[float | None]],
    files: Sequence[Path],
    y_name: str,
    title: str = "",
    mean_name: str = "mean",
) -> None:
    """Draw a thin line for each client, the mean, and the band between the quartiles of each round.

    `values` has a number for each of `rounds`, by client; None where a client has none that round, which its line
    leaps over. The y axis is logarithmic where the numbers span more than two decades.
    """
    from matplotlib.ticker import MaxNLocator

    table = _table(values, len(rounds))
    everything = finite([table])
    log = is_wide(everything)
    figure = new_figure(COLUMN, 2.3)
    axes = figure.subplots()
    if log:
        make_log(axes.yaxis, everything.max() / everything.min())
    known = [index for index in range(len(rounds)) if np.isfinite(table[:, index]).any()]
    xs = [rounds[index] for index in known]
    lines = _draw_clients(axes, rounds, table)
    told = [table[np.isfinite(table[:, index]), index] for index in known]
    quartiles = [np.quantile(row, [0.25, 0.75]) for row in told]
    low, high = zip(*quartiles, strict=True) if quartiles else ((), ())
    band = axes.fill_between(xs, low, high, color=COLOURS[0], alpha=0.25, linewidth=0)
    alone = {"marker": "o", "markersize": 4} if len(xs) == 1 else {}
    (mean,) = axes.plot(xs, [row.mean() for row in told], color=COLOURS[0], linewidth=2, zorder=4, **alone)
    axes.set_xlabel("round")
    axes.set_ylabel(named(y_name, log))
    axes.grid(axis="y")
    axes.margins(x=0.02)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    if len(xs) == 1:
        axes.set_xlim(xs[0] - 0.5, xs[0] + 0.5)
    finish(figure, files, "", title, [(mean, mean_name), (band, BAND), *lines])


def _table(values: Mapping[int, Sequence[float | None]], count: int) -> Floats:
    """Return clients x rounds, NaN where there is no number."""
    rows = [[math.nan if value is None else value for value in row] for row in values.values()]
    table = np.array(rows, dtype=np.float64).reshape(len(rows), count)
    return np.where(np.isfinite(table), table, np.nan)


def _draw_clients(axes: Any, rounds: Sequence[int], table: Floats) -> list[tuple[Any, str]]:
    """Draw a line for each client; return the entry of the legend."""
    from matplotlib.lines import Line2D

    keys: list[tuple[Any, str]] = []
    for row in table:
        known = np.isfinite(row)
        if known.any():
            alone = {"marker": ".", "markersize": 4} if known.sum() == 1 else {}
            shade = min(0.5, max(0.12, 8 / len(table)))
            axes.plot(np.array(rounds)[known], row[known], color=GREY, alpha=shade, linewidth=0.6, **alone)
            keys = [(Line2D([], [], color=GREY, linewidth=0.6), f"one client (of {len(table)})")]
    return keys
