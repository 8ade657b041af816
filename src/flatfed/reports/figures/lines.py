"""The loss along lines through weight space, one panel for each data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.flatness.drawable import Floats, Line
from flatfed.reports.figures.drawing.placing import Tag, place_tags
from flatfed.reports.figures.drawing.scales import (
    add_panels,
    finite,
    fit_scale,
    is_wide,
    left_ones,
    lowest_ones,
    rows_for,
    with_gaps,
)
from flatfed.reports.figures.drawing.style import (
    COLUMN,
    MEDIUM,
    PAGE,
    finish,
    fold,
    in_style,
    look,
    named,
    new_figure,
    one_note,
    require_some,
    short,
)
from flatfed.reports.figures.drawing.style import colour as colour_of

HEIGHT = 2.3
VISIBLE = 0.03
"""Share of the axes' height from which on a barrier is drawn as an arrow."""
FINE = 300
"""Points of each curve that names keep off."""
ARROW = {"arrowstyle": "<->", "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 6}
Numbered = tuple[int, Line]
"""A line and its number among all that are drawn."""


@in_style
def draw_lines(lines: Sequence[Line], files: Sequence[Path], title: str = "") -> None:
    """Draw the loss along each line, with the models on it and the barrier between the outermost two.

    All panels share one scale, which is logarithmic where the losses span more than two decades. What is not finite
    is a gap in the curve.
    """
    sets = data_sets(lines)
    require_some(sets)
    figure, panels = _scaled_panels(lines, sets)
    drawn = {name: _lines_on(lines, name) for name in sets}
    for axes, name in zip(panels, sets, strict=True):
        _draw_curves(axes, drawn[name], name)
    # Names find their places by pixels, which stand only when all panels are laid out.
    figure.draw_without_rendering()
    for axes, name in zip(panels, sets, strict=True):
        _annotate(axes, drawn[name], name)
    finish(figure, files, one_note(lines), title, [_key(index, line) for index, line in enumerate(lines)])


def data_sets(lines: Sequence[Line]) -> list[str]:
    """Return the data sets that lines have losses on, in order."""
    return list(dict.fromkeys(name for line in lines for name in line.losses))


def _scaled_panels(lines: Sequence[Line], sets: Sequence[str]) -> tuple[Any, list[Any]]:
    """Return a figure with panels, on the scale that the losses need."""
    losses = finite(values for line in lines for values in line.losses.values())
    figure, panels = _panels(sets, _x_name(lines), named("loss", is_wide(losses)))
    fit_scale(panels[0].yaxis, losses)  # the others share it
    return figure, panels


def _x_name(lines: Sequence[Line]) -> str:
    return " / ".join(dict.fromkeys(line.x_name for line in lines))


def _lines_on(lines: Sequence[Line], name: str) -> list[Numbered]:
    """Return the lines that have losses on a data set; each keeps its number, which decides its colour."""
    return [(index, line) for index, line in enumerate(lines) if name in line.losses]


def _panels(sets: Sequence[str], x_name: str, y_name: str) -> tuple[Any, list[Any]]:
    """Return a figure with a named panel for each data set, on one scale."""
    columns = min(len(sets), 3)
    width = COLUMN if columns == 1 else PAGE
    figure = new_figure(width, HEIGHT * rows_for(len(sets), columns))
    panels = add_panels(figure, len(sets), columns, shared=True)
    for axes, name in zip(panels, sets, strict=True):
        _dress(axes, name)
    for axes in left_ones(panels, columns):
        axes.set_ylabel(y_name)
    for axes in lowest_ones(panels, columns):
        axes.set_xlabel(fold(x_name, width / columns - 0.2, MEDIUM))
        # Shared axes have their numbers in the last row, which need not be full.
        axes.tick_params(labelbottom=True)
    return figure, panels


def _dress(axes: Any, name: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title(name)
    axes.grid(axis="y")
    axes.margins(x=0.04, y=0.18)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))


def _draw_curves(axes: Any, lines: Sequence[Numbered], name: str) -> None:
    for index, line in lines:
        axes.plot(line.xs, with_gaps(line.losses[name]), **look(index))


@dataclass
class _Annotations:
    """What a panel's names are: of models, by name and place; of barriers; and pixels that names keep off."""

    models: dict[tuple[str, float], list[Tag]] = field(default_factory=dict)
    barriers: list[Tag] = field(default_factory=list)
    drawn: list[Floats] = field(default_factory=list)

    @property
    def tags(self) -> list[Tag]:
        """All names; a model that several lines go through is named once."""
        return [*self.barriers, *map(_named_once, self.models.values())]


def _named_once(tags: Sequence[Tag]) -> Tag:
    """Return one name for a model that is on several lines, at the lowest of them and in no line's colour."""
    lowest = min(tags, key=lambda tag: tag.y)
    if len(tags) == 1:
        return lowest
    return Tag(lowest.text, lowest.x, lowest.y)


def _annotate(axes: Any, lines: Sequence[Numbered], name: str) -> None:
    """Put models and barriers on the curves of a panel, and write their names where there is room."""
    annotations = _Annotations()
    for index, line in lines:
        if np.isfinite(line.losses[name]).any():
            _annotate_line(axes, line, name, colour_of(index), annotations)
    if annotations.drawn:
        place_tags(axes, annotations.tags, drawn=np.concatenate(annotations.drawn))


def _annotate_line(axes: Any, line: Line, name: str, colour: str, annotations: _Annotations) -> None:
    known = np.isfinite(line.losses[name])
    xs, losses = line.xs[known], line.losses[name][known]
    for model, x in line.marks.items():
        tag = _mark(axes, model, x, xs, losses, colour)
        annotations.models.setdefault((model, x), []).append(tag)
    if name in line.barriers:
        tag, arrow = _barrier(axes, line, xs, losses, line.barriers[name], colour)
        annotations.barriers.append(tag)
        annotations.drawn.append(arrow)
    # Names keep off the curve between its points too.
    fine = np.linspace(xs.min(), xs.max(), FINE)
    curve = np.stack([fine, np.interp(fine, xs, losses)], axis=1)
    annotations.drawn.append(axes.transData.transform(curve))


def _mark(axes: Any, model: str, x: float, xs: Floats, losses: Floats, colour: str) -> Tag:
    """Put a dot on the curve; a hollow one at its end for a model outside."""
    inner = _inside(x, xs)
    y = float(np.interp(inner, xs, losses))
    face, text = colour, model
    if inner != x:
        face, text = "white", f"{model} (outside)"
    axes.plot(inner, y, "o", markersize=4.5, color=face, markeredgecolor=colour, zorder=5)
    return Tag(text, inner, y, colour)


def _inside(x: float, xs: Floats) -> float:
    return float(np.clip(x, xs.min(), xs.max()))


def _barrier(axes: Any, line: Line, xs: Floats, losses: Floats, barrier: float, colour: str) -> tuple[Tag, Floats]:
    """Draw an arrow from the straight line between the outermost models up to the curve; return its name and pixels."""
    first, last = _outermost(line, xs)
    fine = np.linspace(first, last, FINE)
    curve = np.interp(fine, xs, losses)
    chord = np.interp(fine, [first, last], [curve[0], curve[-1]])
    top = int(np.argmax(curve - chord))
    axes.plot(fine, chord, color=colour, linewidth=0.7, linestyle=(0, (1, 2)))
    foot, head = (fine[top], chord[top]), (fine[top], curve[top])
    low, high = axes.transData.transform([foot, head])
    if high[1] - low[1] > VISIBLE * axes.bbox.height:
        axes.annotate("", head, foot, arrowprops=ARROW | {"color": colour})
    return Tag(f"barrier {short(barrier)}", float(fine[top]), float(curve[top]), colour), np.linspace(low, high, FINE)


def _outermost(line: Line, xs: Floats) -> tuple[float, float]:
    """Return the places of the outermost models, or the ends of the line where there are no two."""
    ends = sorted(_inside(x, xs) for x in line.marks.values())
    if len(ends) > 1:
        return ends[0], ends[-1]
    return float(xs.min()), float(xs.max())


def _key(index: int, line: Line) -> tuple[Any, str]:
    from matplotlib.lines import Line2D

    return Line2D([], [], **look(index)), line.label
