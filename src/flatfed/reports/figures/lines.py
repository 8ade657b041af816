"""The loss along lines through weight space, one panel for each data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.flatness.results import Floats, Line
from flatfed.reports.figures.drawing.placing import Tag, place_tags
from flatfed.reports.figures.drawing.scales import finite, is_wide, make_log
from flatfed.reports.figures.drawing.style import COLUMN, MEDIUM, PAGE, finish, in_style, look, new_figure, require_some
from flatfed.reports.figures.drawing.words import fold, named, one_note, short

HEIGHT = 2.3
VISIBLE = 0.03
"""Share of the axes' height from which on a barrier is drawn as an arrow."""
FINE = 300
"""Points of each curve that names keep off."""


@in_style
def draw_lines(lines: Sequence[Line], files: Sequence[Path], title: str = "") -> None:
    """Draw the loss along each line, with the models on it and the barrier between the outermost two.

    All panels share one scale, which is logarithmic where the losses span more than two decades. What is not finite
    is a gap in the curve.
    """
    sets = list(dict.fromkeys(name for line in lines for name in line.losses))
    require_some(sets)
    losses = finite(values for line in lines for values in line.losses.values())
    log = is_wide(losses)
    x_name = " / ".join(dict.fromkeys(line.x_name for line in lines))
    figure, panels = _panels(sets, x_name, named("loss", log))
    if log:
        make_log(panels[0].yaxis, losses.max() / losses.min())
    for axes, name in zip(panels, sets, strict=True):
        _draw_curves(axes, lines, name)
    figure.draw_without_rendering()
    for axes, name in zip(panels, sets, strict=True):
        _annotate(axes, [(index, line) for index, line in enumerate(lines) if name in line.losses], name)
    finish(figure, files, one_note(lines), title, [_key(index, line) for index, line in enumerate(lines)])


def _panels(sets: Sequence[str], x_name: str, y_name: str) -> tuple[Any, list[Any]]:
    """Return a figure with a named panel for each data set, on one scale."""
    from matplotlib.ticker import MaxNLocator

    columns = min(len(sets), 3)
    rows = -(-len(sets) // columns)
    figure = new_figure(COLUMN if columns == 1 else PAGE, HEIGHT * rows)
    panels = list(figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel())
    for index, (axes, name) in enumerate(zip(panels, sets, strict=False)):
        axes.set_title(name)
        axes.grid(axis="y")
        axes.margins(x=0.04, y=0.18)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        if index % columns == 0:
            axes.set_ylabel(y_name)
        if index + columns >= len(sets):
            axes.set_xlabel(fold(x_name, figure.get_figwidth() / columns - 0.2, MEDIUM))
            axes.tick_params(labelbottom=True)
    for axes in panels[len(sets) :]:
        axes.set_axis_off()
    return figure, panels[: len(sets)]


def _draw_curves(axes: Any, lines: Sequence[Line], name: str) -> None:
    for index, line in enumerate(lines):
        if name in line.losses:
            losses = line.losses[name]
            axes.plot(line.xs, np.where(np.isfinite(losses), losses, np.nan), **look(index))


def _annotate(axes: Any, lines: Sequence[tuple[int, Line]], name: str) -> None:
    """Put models and barriers on the curves of a panel, and write their names where there is room."""
    models: dict[tuple[str, float], list[Tag]] = {}
    tags: list[Tag] = []
    drawn: list[Floats] = []
    for index, line in lines:
        known = np.isfinite(line.losses[name])
        if not known.any():
            continue
        xs, losses = line.xs[known], line.losses[name][known]
        colour = look(index)["color"]
        for model, x in line.marks.items():
            models.setdefault((model, x), []).append(_mark(axes, model, x, xs, losses, colour))
        if name in line.barriers:
            tag, arrow = _barrier(axes, line, xs, losses, line.barriers[name], colour)
            tags.append(tag)
            drawn.append(arrow)
        fine = np.linspace(xs.min(), xs.max(), FINE)
        drawn.append(axes.transData.transform(np.stack([fine, np.interp(fine, xs, losses)], axis=1)))
    # A model that several lines go through is named once.
    for same in models.values():
        lowest = min(same, key=lambda tag: tag.y)
        tags.append(lowest if len(same) == 1 else Tag(lowest.text, lowest.x, lowest.y))
    if drawn:
        place_tags(axes, tags, drawn=np.concatenate(drawn))


def _mark(axes: Any, model: str, x: float, xs: Floats, losses: Floats, colour: str) -> Tag:
    """Put a dot on the curve; a hollow one at its end for a model outside."""
    inner = float(np.clip(x, xs.min(), xs.max()))
    y = float(np.interp(inner, xs, losses))
    outside = inner != x
    axes.plot(inner, y, "o", markersize=4.5, color="white" if outside else colour, markeredgecolor=colour, zorder=5)
    return Tag(f"{model} (outside)" if outside else model, inner, y, colour)


def _barrier(axes: Any, line: Line, xs: Floats, losses: Floats, barrier: float, colour: str) -> tuple[Tag, Floats]:
    """Draw an arrow from the straight line between the outermost models up to the curve; return its name and pixels."""
    ends = sorted(float(np.clip(x, xs.min(), xs.max())) for x in line.marks.values())
    first, last = (ends[0], ends[-1]) if len(ends) > 1 else (float(xs.min()), float(xs.max()))
    fine = np.linspace(first, last, FINE)
    curve = np.interp(fine, xs, losses)
    chord = np.interp(fine, [first, last], [curve[0], curve[-1]])
    top = int(np.argmax(curve - chord))
    axes.plot(fine, chord, color=colour, linewidth=0.7, linestyle=(0, (1, 2)))
    low, high = axes.transData.transform([(fine[top], chord[top]), (fine[top], curve[top])])
    if high[1] - low[1] > VISIBLE * axes.bbox.height:
        arrow = {
            "arrowstyle": "<->",
            "color": colour,
            "linewidth": 0.8,
            "shrinkA": 0,
            "shrinkB": 0,
            "mutation_scale": 6,
        }
        axes.annotate("", (fine[top], curve[top]), (fine[top], chord[top]), arrowprops=arrow)
    return Tag(f"barrier {short(barrier)}", float(fine[top]), float(curve[top]), colour), np.linspace(low, high, FINE)


def _key(index: int, line: Line) -> tuple[Any, str]:
    from matplotlib.lines import Line2D

    return Line2D([], [], **look(index)), line.label
