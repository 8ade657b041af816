"""Features of examples in two dimensions, one panel for each model, coloured by class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flatfed.flatness.drawable import Embedding, Floats
from flatfed.reports.figures.drawing.scales import add_panels, add_titles, columns_for, rows_for
from flatfed.reports.figures.drawing.style import (
    COLOURS,
    COLUMN,
    GREY,
    INK,
    PAGE,
    SMALL,
    finish,
    in_style,
    new_figure,
    one_note,
    require_some,
)

CLASS_COLOURS = (*COLOURS, "#882255", "#A6A6A6")
MAP = "viridis"
"""Colours of more classes than those above."""
NUMBERED = 20
"""Classes whose numbers are written in the panels, at most."""
MARKERS = ("o", "^", "s", "D", "v", "P", "X")
"""Of the models of one map, in turn."""
HEIGHTS = {1: 3.2, 2: 3.3, 3: 2.4}
"""Inches: the height of a row, by the number of panels in it."""
NO_UNIT = "t-SNE (axes without unit)"


@in_style
def draw_embeddings(embeddings: Sequence[Embedding], files: Sequence[Path], title: str = "") -> None:
    """Draw the examples as dots, and the number of each class at the median of its dots.

    Where a map holds several models, each has a mark of its own.
    """
    require_some(embeddings)
    classes = sorted({int(number) for embedding in embeddings for number in embedding.classes})
    colours = _colours(classes)
    figure = _draw_panels(embeddings, colours)
    keys = _model_keys(embeddings)
    if _are_few(classes):
        keys = [*_class_keys(colours, _class_names(embeddings)), *keys]
    else:
        _add_bar(figure, classes)
    finish(figure, files, one_note(embeddings), title, keys)


def _draw_panels(embeddings: Sequence[Embedding], colours: dict[int, Any]) -> Any:
    """Return a figure with a panel for each map, named where there are several."""
    count = len(embeddings)
    columns = columns_for(count)
    width = COLUMN if columns == 1 else PAGE
    figure = new_figure(width, rows_for(count, columns) * HEIGHTS[columns], "compressed")
    panels = add_panels(figure, count, columns)
    for axes, embedding in zip(panels, embeddings, strict=True):
        _draw_panel(axes, embedding, colours)
    if count > 1:
        add_titles(panels, [embedding.label for embedding in embeddings], width / columns - 0.3)
    return figure


def _are_few(classes: Sequence[int]) -> bool:
    """Say whether each class can have a distinct colour."""
    return len(classes) <= len(CLASS_COLOURS)


def _class_names(embeddings: Sequence[Embedding]) -> Sequence[str]:
    """Return the names of the classes, of the first map that has some."""
    for embedding in embeddings:
        if embedding.class_names:
            return embedding.class_names
    return ()


def _class_keys(colours: dict[int, Any], names: Sequence[str]) -> list[tuple[Any, str]]:
    return [_key(colour, _class_name(number, names)) for number, colour in colours.items()]


def _class_name(number: int, names: Sequence[str]) -> str:
    if number < len(names):
        return names[number]
    return f"class {number}"


def _model_keys(embeddings: Sequence[Embedding]) -> list[tuple[Any, str]]:
    return [_key(GREY, name, _marker(place)) for place, name in _model_names(embeddings).items()]


def _marker(model: int) -> str:
    return MARKERS[model % len(MARKERS)]


def _colours(classes: Sequence[int]) -> dict[int, Any]:
    """Return the colour of each class: distinct ones, or those of a map where classes are many."""
    if _are_few(classes):
        # There may be more colours than classes.
        return dict(zip(classes, CLASS_COLOURS, strict=False))
    from matplotlib import colormaps

    shades = colormaps[MAP](np.linspace(0, 1, len(classes)))
    return dict(zip(classes, shades, strict=True))


def _draw_panel(axes: Any, embedding: Embedding, colours: dict[int, Any]) -> None:
    seen = np.isfinite(embedding.places).all(axis=1)
    places, classes = embedding.places[seen], embedding.classes[seen]
    if len(places):
        _set_limits(axes, places)
        shades = np.array([colours[int(number)] for number in classes], dtype=object)
        _draw_dots(axes, places, shades, _models_of(embedding)[seen])
    # With several models a class has a place for each, and one number could not stand at all of them.
    if len(colours) <= NUMBERED and not embedding.models:
        _write_numbers(axes, places, classes, colours)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[["top", "right"]].set_visible(True)
    axes.set_xlabel(NO_UNIT)
    axes.set_aspect("equal")


def _set_limits(axes: Any, places: Floats) -> None:
    """Make the panel a square around all dots, with a margin."""
    middle = (places.max(axis=0) + places.min(axis=0)) / 2
    # All dots may lie at one place.
    half = 0.54 * float(np.ptp(places, axis=0).max() or 1.0)
    axes.set(xlim=(middle[0] - half, middle[0] + half), ylim=(middle[1] - half, middle[1] + half))


def _models_of(embedding: Embedding) -> npt.NDArray[np.int64]:
    """Return the number of each dot's model; 0 where there is one model."""
    if len(embedding.whose):
        return embedding.whose
    return np.zeros(len(embedding.places), dtype=np.int64)


def _draw_dots(axes: Any, places: Floats, shades: Any, models: npt.NDArray[np.int64]) -> None:
    for model in np.unique(models):
        own, marker = models == model, _marker(model)
        size = 4 if marker == "o" else 9
        x, y = places[own].T
        axes.scatter(x, y, s=size, c=list(shades[own]), marker=marker, linewidths=0, alpha=0.8)


def _write_numbers(axes: Any, places: Floats, classes: Any, colours: dict[int, Any]) -> None:
    """Write the number of each class at the median of its dots."""
    for number, colour in colours.items():
        own = places[classes == number]
        if len(own):
            _write_number(axes, np.median(own, axis=0), number, colour)


def _write_number(axes: Any, place: Floats, number: int, colour: Any) -> None:
    box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "alpha": 0.85, "edgecolor": colour, "linewidth": 0.8}
    axes.text(*place, str(number), ha="center", va="center", fontsize=SMALL, color=INK, bbox=box)


def _add_bar(figure: Any, classes: Sequence[int]) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.ticker import MaxNLocator

    bar = figure.colorbar(ScalarMappable(Normalize(0, len(classes) - 1), MAP), ax=list(figure.axes), aspect=30)
    bar.set_label("class")
    bar.locator = MaxNLocator(6, integer=True)
    bar.update_ticks()
    bar.outline.set_visible(False)


def _model_names(embeddings: Sequence[Embedding]) -> dict[int, str]:
    """Return the models' names by their marks; clients that differ from map to map are counted instead."""
    names: dict[int, str] = {}
    for embedding in embeddings:
        names |= dict(enumerate(embedding.models))
    if _models_differ(embeddings):
        # The first model of each map is the global one, and keeps its name.
        names |= {place: f"client no. {place}" for place in range(1, len(names))}
    return names


def _models_differ(embeddings: Sequence[Embedding]) -> bool:
    """Say whether maps of several models have different ones."""
    different = {embedding.models for embedding in embeddings} - {()}
    return len(different) > 1


def _key(colour: Any, name: str, marker: str = "o") -> tuple[Any, str]:
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="", marker=marker, markersize=4, color=colour), name
