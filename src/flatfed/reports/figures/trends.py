"""A number of each client over rounds, and what they have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flatfed.flatness.drawable import Floats
from flatfed.reports.figures.drawing.scales import finite, fit_scale, is_wide, with_gaps
from flatfed.reports.figures.drawing.style import COLOURS, COLUMN, GREY, alone, finish, in_style, named, new_figure

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
    table = _table(values, len(rounds))
    numbers = finite([table])
    figure = new_figure(COLUMN, 2.3)
    axes = figure.subplots()
    fit_scale(axes.yaxis, numbers)
    lines = _draw_clients(axes, rounds, table)
    columns = _known_columns(rounds, table)
    band = _draw_band(axes, columns)
    mean = _draw_mean(axes, columns)
    _dress(axes, named(y_name, is_wide(numbers)), list(columns))
    finish(figure, files, "", title, [(mean, mean_name), (band, BAND), *lines])


def _known_columns(rounds: Sequence[int], table: Floats) -> dict[int, Floats]:
    """Return the clients' numbers of each round that has some."""
    columns = {round: column[np.isfinite(column)] for round, column in zip(rounds, table.T, strict=True)}
    return {round: column for round, column in columns.items() if column.size}


def _draw_band(axes: Any, columns: Mapping[int, Floats]) -> Any:
    """Draw the band between the quartiles."""
    low = [np.quantile(column, 0.25) for column in columns.values()]
    high = [np.quantile(column, 0.75) for column in columns.values()]
    return axes.fill_between(list(columns), low, high, color=COLOURS[0], alpha=0.25, linewidth=0)


def _draw_mean(axes: Any, columns: Mapping[int, Floats]) -> Any:
    means = [column.mean() for column in columns.values()]
    (line,) = axes.plot(list(columns), means, color=COLOURS[0], linewidth=2, zorder=4, **alone(len(means), size=4))
    return line


def _dress(axes: Any, y_name: str, rounds: Sequence[int]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("round")
    axes.set_ylabel(y_name)
    axes.grid(axis="y")
    axes.margins(x=0.02)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    # One round has no range of its own.
    if len(rounds) == 1:
        axes.set_xlim(rounds[0] - 0.5, rounds[0] + 0.5)


def _table(values: Mapping[int, Sequence[float | None]], count: int) -> Floats:
    """Return clients x rounds, NaN where there is no number."""
    rows = list(values.values())
    table = np.array(rows, dtype=np.float64).reshape(len(rows), count)  # None becomes NaN
    return with_gaps(table)


def _draw_clients(axes: Any, rounds: Sequence[int], table: Floats) -> list[tuple[Any, str]]:
    """Draw a line for each client; return the entry of the legend."""
    rows = [row for row in table if np.isfinite(row).any()]
    shade = min(0.5, max(0.12, 8 / max(len(table), 1)))  # the more lines, the paler
    for row in rows:
        _draw_client(axes, np.array(rounds), row, shade)
    if not rows:
        return []
    return [_client_key(len(table))]


def _draw_client(axes: Any, rounds: npt.NDArray[np.int64], row: Floats, shade: float) -> None:
    known = np.isfinite(row)
    mark = alone(int(known.sum()), ".", 4)
    axes.plot(rounds[known], row[known], color=GREY, alpha=shade, linewidth=0.6, **mark)


def _client_key(count: int) -> tuple[Any, str]:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=GREY, linewidth=0.6), f"one client (of {count})"
