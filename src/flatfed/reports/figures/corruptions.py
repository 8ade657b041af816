"""Accuracy under each corruption, a bar for every method; over severities, a line for every method."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flatfed.reports.figures.drawing.style import (
    COLOURS,
    COLUMN,
    INK,
    PAGE,
    colour,
    finish,
    in_style,
    look,
    new_figure,
    require_some,
)

Bars = list[dict[str, list[float]]]
"""Sections of names, each with a value for every seed; none where there is no value."""

BAR, GAP, LEAST = 0.075, 0.11, 0.2
"""Inches: a bar's height, the gap between two groups of bars, and the least height of both."""
FEW = 8
"""Groups that stand in one panel, at most; more are divided."""
TREND = 2.0
"""Inches: the height of the lines over severities."""
HATCHES = ("", "////", "....")


@in_style
def draw_corruptions(
    values: Mapping[str, Bars],
    files: Sequence[Path],
    x_name: str,
    title: str = "",
    trends: Mapping[str, Mapping[str, list[float]]] | None = None,
) -> None:
    """Draw the values of every label as grouped bars, all on one scale; a thin line is the range over seeds.

    Args:
        values: for each label the same sections of the same names.
        files: what to write; the ending decides the format.
        x_name: what the bars measure.
        title: what stands above.
        trends: for each label the values at places that follow one another, such as severities; drawn below.
    """
    require_some(list(values))
    sections = [list(section) for section in next(iter(values.values()))]
    panels = _divided(sections)
    step = max(LEAST, BAR * len(values) + GAP)
    rows = max(_rows(panel) for panel in panels)
    figure, bar_axes, trend_axes = _panels(len(panels), step * rows + 0.45, bool(trends))
    for axes, panel in zip(bar_axes, panels, strict=True):
        _draw_bars(axes, panel, values, step)
        axes.set_ylim(rows - 0.4, -0.6)  # a bar is as high in one panel as in the other
        axes.set_xlabel(x_name)
    if trends:
        _draw_trends(trend_axes, trends, x_name.partition(",")[0])
    finish(figure, files, _note(values), title, _keys(list(values)))


def _keys(labels: Sequence[str]) -> list[tuple[Any, str]]:
    return [_key(index, label) for index, label in enumerate(labels)]


def _panels(count: int, body: float, with_trends: bool) -> tuple[Any, list[Any], Any]:
    """Return a figure, panels for bars on one scale and, where there are trends, one for them below."""
    if with_trends:
        figure = new_figure(PAGE, body + TREND)
        grid = figure.add_gridspec(2, count, height_ratios=[body, TREND])
        return figure, _side_by_side(figure, grid, count), figure.add_subplot(grid[1, :])
    width = PAGE if count > 1 else COLUMN
    figure = new_figure(width, body)
    grid = figure.add_gridspec(1, count, height_ratios=[1])
    return figure, _side_by_side(figure, grid, count), None


def _side_by_side(figure: Any, grid: Any, count: int) -> list[Any]:
    first = figure.add_subplot(grid[0, 0])
    return [first, *(figure.add_subplot(grid[0, column], sharex=first) for column in range(1, count))]


def _note(values: Mapping[str, Bars]) -> str:
    """Say what bars and lines are where there are several seeds."""
    lists = [seeds for bars in values.values() for seeds in _by_name(bars).values()]
    if not _are_several(lists):
        return ""
    return "means over seeds, with the range over seeds"


def _by_name(bars: Bars) -> dict[str, list[float]]:
    """Return the values of all sections in one."""
    return {name: seeds for section in bars for name, seeds in section.items()}


def _are_several(lists: Iterable[list[float]]) -> bool:
    """Say whether something was measured of several seeds."""
    return any(len(seeds) > 1 for seeds in lists)


def _rows(panel: Sequence[Sequence[str]]) -> float:
    """Return the groups of a panel, with half a group between sections."""
    return sum(map(len, panel)) + 0.5 * (len(panel) - 1)


def _divided(sections: list[list[str]]) -> list[list[list[str]]]:
    """Return one panel where there are few groups, else two of about equal height, divided between sections."""
    if sum(map(len, sections)) <= FEW:
        return [sections]
    places = range(1, len(sections))
    # A section stays whole, so the panels cannot be exactly equal.
    best = min(places, key=lambda at: max(_rows(sections[:at]), _rows(sections[at:])))
    return [sections[:best], sections[best:]]


def _draw_bars(axes: Any, panel: Sequence[Sequence[str]], values: Mapping[str, Bars], step: float) -> None:
    places = _places(panel)
    height = _bar_height(len(values), step)
    for index, bars in enumerate(values.values()):
        shift = (index - (len(values) - 1) / 2) * height
        shifted = {name: place + shift for name, place in places.items()}
        _draw_label(axes, index, bars, shifted, height)
    axes.set_yticks(list(places.values()), list(places))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def _places(panel: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return where the groups of bars stand, with half a group between sections."""
    places: dict[str, float] = {}
    place = 0.0
    for section in panel:
        for name in section:
            places[name] = place
            place += 1
        place += 0.5
    return places


def _bar_height(count: int, step: float) -> float:
    """Return the height of a bar, in groups."""
    if count == 1:
        return 0.6
    # At most 0.8 of a group in all, so that groups stay apart.
    return min(BAR / step, 0.8 / count)


def _draw_label(axes: Any, index: int, bars: Bars, places: Mapping[str, float], height: float) -> None:
    """Draw the bars of a label, and the range over seeds where there are several."""
    seeds_at = _seeds_at(places, _by_name(bars))
    ys, means = list(seeds_at), list(map(statistics.fmean, seeds_at.values()))
    # Hatches take the colour of edges, which are drawn without width.
    axes.barh(ys, means, height=0.92 * height, color=colour(index), hatch=_hatch(index), edgecolor="white", lw=0)
    several = {place: seeds for place, seeds in seeds_at.items() if len(seeds) > 1}
    if several:
        low, high = list(map(min, several.values())), list(map(max, several.values()))
        axes.hlines(list(several), low, high, color=INK, linewidth=0.7)


def _seeds_at(places: Mapping[str, float], values: Mapping[str, list[float]]) -> dict[float, list[float]]:
    """Return the values of each seed, by place; nothing at places without a value."""
    return {place: values[name] for name, place in places.items() if values.get(name)}


def _draw_trends(axes: Any, trends: Mapping[str, Mapping[str, list[float]]], y_name: str) -> None:
    names = list(next(iter(trends.values())))
    places = {name: place for place, name in enumerate(names)}
    for index, points in enumerate(trends.values()):
        _draw_trend(axes, index, _seeds_at(places, points))
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel("severity")
    axes.set_ylabel(f"{y_name}, mean")
    axes.grid(axis="y")


def _draw_trend(axes: Any, index: int, seeds_at: Mapping[float, list[float]]) -> None:
    """Draw the mean over seeds at each place, and the range where there are several seeds."""
    xs, lists = list(seeds_at), list(seeds_at.values())
    axes.plot(xs, list(map(statistics.fmean, lists)), marker="o", markersize=3.5, **look(index))
    if _are_several(lists):
        low, high = list(map(min, lists)), list(map(max, lists))
        axes.fill_between(xs, low, high, color=colour(index), alpha=0.15, linewidth=0)


def _hatch(index: int) -> str:
    # Hatches tell labels apart once all colours are used.
    return HATCHES[index // len(COLOURS) % len(HATCHES)]


def _key(index: int, label: str) -> tuple[Any, str]:
    from matplotlib.patches import Patch

    return Patch(facecolor=colour(index), hatch=_hatch(index), edgecolor="white", linewidth=0), label
