"""Features of examples in two dimensions, one panel for each model, coloured by class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.flatness.results import Embedding
from flatfed.reports.curves import COLOURS
from flatfed.reports.figures.drawing.style import (
    COLUMN,
    GREY,
    INK,
    MEDIUM,
    PAGE,
    SMALL,
    finish,
    in_style,
    new_figure,
    require_some,
)
from flatfed.reports.figures.drawing.words import fold, one_note

CLASS_COLOURS = (*COLOURS, "#882255", "#A6A6A6")
MAP = "viridis"
"""Colours of more classes than those above."""
NUMBERED = 20
"""Classes whose numbers are written in the panels, at most."""
MARKERS = ("o", "^", "s", "D", "v", "P", "X")
"""Of the models of one map, in turn."""
NO_UNIT = "t-SNE (axes without unit)"


@in_style
def draw_embeddings(embeddings: Sequence[Embedding], files: Sequence[Path], title: str = "") -> None:
    """Draw the examples as dots, and the number of each class at the median of its dots.

    Where a map holds several models, each has a mark of its own.
    """
    require_some(embeddings)
    known = sorted({int(number) for embedding in embeddings for number in embedding.classes})
    colours = _colours(known)
    columns = {1: 1, 2: 2, 4: 2}.get(len(embeddings), 3)
    rows = -(-len(embeddings) // columns)
    width = COLUMN if columns == 1 else PAGE
    figure = new_figure(width, rows * {1: 3.2, 2: 3.3, 3: 2.4}[columns], "compressed")
    panels = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for axes, embedding in zip(panels, embeddings, strict=False):
        _draw_panel(axes, embedding, colours)
        if len(embeddings) > 1:
            axes.set_title(fold(embedding.label, width / columns - 0.3, MEDIUM))
    for axes in panels[len(embeddings) :]:
        axes.set_axis_off()
    if len(known) > len(CLASS_COLOURS):
        _add_bar(figure, panels, known)
    named = next((embedding.class_names for embedding in embeddings if embedding.class_names), ())
    names = [named[number] if number < len(named) else f"class {number}" for number in known]
    few = len(known) <= len(CLASS_COLOURS)
    keys = [_key(colours[number], name) for number, name in zip(known, names, strict=True)] if few else []
    models = {place: name for embedding in embeddings for place, name in enumerate(embedding.models)}
    keys += [_key(GREY, name, MARKERS[place % len(MARKERS)]) for place, name in _common(embeddings, models).items()]
    finish(figure, files, one_note(embeddings), title, keys)


def _colours(known: Sequence[int]) -> dict[int, Any]:
    """Return the colour of each class: distinct ones, or those of a map where classes are many."""
    if len(known) <= len(CLASS_COLOURS):
        return dict(zip(known, CLASS_COLOURS, strict=False))
    from matplotlib import colormaps

    shades = colormaps[MAP](np.linspace(0, 1, len(known)))
    return dict(zip(known, shades, strict=True))


def _draw_panel(axes: Any, embedding: Embedding, colours: dict[int, Any]) -> None:
    seen = np.isfinite(embedding.places).all(axis=1)
    places, classes = embedding.places[seen], embedding.classes[seen]
    if len(places):
        middle, half = (places.max(axis=0) + places.min(axis=0)) / 2, 0.54 * float(np.ptp(places, axis=0).max() or 1.0)
        axes.set(xlim=(middle[0] - half, middle[0] + half), ylim=(middle[1] - half, middle[1] + half))
        shades = np.array([colours[int(number)] for number in classes], dtype=object)
        whose = embedding.whose[seen] if len(embedding.whose) else np.zeros(len(places), dtype=np.int64)
        for model in np.unique(whose):
            own, marker = whose == model, MARKERS[model % len(MARKERS)]
            size = 4 if marker == "o" else 9
            axes.scatter(
                places[own, 0], places[own, 1], s=size, c=list(shades[own]), marker=marker, linewidths=0, alpha=0.8
            )
    numbered = len(colours) <= NUMBERED and not embedding.models  # a class has a place for each model
    for number in colours if numbered else ():
        own = places[classes == number]
        if len(own):
            box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "alpha": 0.85, "edgecolor": colours[number]}
            axes.text(
                *np.median(own, axis=0),
                str(number),
                ha="center",
                va="center",
                fontsize=SMALL,
                color=INK,
                bbox=box | {"linewidth": 0.8},
            )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[["top", "right"]].set_visible(True)
    axes.set_xlabel(NO_UNIT)
    axes.set_aspect("equal")


def _add_bar(figure: Any, panels: Sequence[Any], known: Sequence[int]) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.ticker import MaxNLocator

    bar = figure.colorbar(ScalarMappable(Normalize(0, len(known) - 1), MAP), ax=list(panels), aspect=30)
    bar.set_label("class")
    bar.locator = MaxNLocator(6, integer=True)
    bar.update_ticks()
    bar.outline.set_visible(False)


def _common(embeddings: Sequence[Embedding], models: dict[int, str]) -> dict[int, str]:
    """Return the models' names by their marks; clients that differ from map to map are counted instead."""
    same = len({embedding.models for embedding in embeddings if embedding.models}) <= 1
    return models if same else {place: name if place == 0 else f"client no. {place}" for place, name in models.items()}


def _key(colour: Any, name: str, marker: str = "o") -> tuple[Any, str]:
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="", marker=marker, markersize=4, color=colour), name
