"""Figures as people write them in a study's file: every mistake with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from flatfed.core.configuration.checking import shown
from flatfed.core.errors import ConfigError, nearest
from flatfed.experiments.measuring.corruption_request import corruptions_named
from flatfed.experiments.measuring.protocols import asked_for
from flatfed.experiments.measuring.views import View
from flatfed.experiments.spelling.kinds import ChoiceKind, OptionKind, TextKind
from flatfed.studies.drawing.figure import DRAWN, Figure

Way = tuple[str, ...]
Note = Callable[[Way, str], None]
ReadSeeds = Callable[[Any, Way], tuple[int, ...]]
DRAW, METHODS, SETTINGS, SEEDS = "draw", "methods", "settings", "seeds"
OF_FIGURE = (DRAW, METHODS, SETTINGS, SEEDS)
"""What every figure may say, whatever it draws."""


def read_figures(content: Any, way: Way, note: Note, read_seeds: ReadSeeds) -> dict[str, Figure]:
    """Return the figures that a study's file asks for; what is wrong is noted with its place."""
    if not isinstance(content, Mapping):
        note(way, "figures must be names, each with what it draws: {draw: landscape}")
        return {}
    figures: dict[str, Figure] = {}
    for name, entries in content.items():
        here = (*way, str(name))
        if str(name) in figures:
            note(here, f"the name {str(name)!r} stands there twice; give another")
        figure = _figure(entries, here, note)
        if figure is None:
            continue
        if entries.get(SEEDS) is not None:
            figure = replace(figure, seeds=read_seeds(entries[SEEDS], (*here, SEEDS)))
            if entries[SEEDS] in ([], ""):
                note((*here, SEEDS), "name a seed of the study, or leave seeds out for the first")
        figures[str(name)] = figure
    return figures


def _figure(content: Any, way: Way, note: Note) -> Figure | None:
    if not isinstance(content, Mapping) or DRAW not in content:
        note(way, f"say what it draws, such as {{draw: landscape}}; known: {', '.join(DRAWN)}")
        return None
    draw = content[DRAW]
    if not isinstance(draw, str) or draw not in DRAWN:
        note((*way, DRAW), nearest(str(draw), DRAWN, "drawing"))
        return None
    mistakes: list[tuple[Way, str]] = []
    options = _options(content, draw, way, mistakes)
    methods = _names(content.get(METHODS), (*way, METHODS), mistakes)
    settings = _names(content.get(SETTINGS), (*way, SETTINGS), mistakes)
    figure = Figure(draw, options, methods, settings)
    if not mistakes:
        mistakes += _contradictions(figure, way)
    for place, mistake in mistakes:
        note(place, mistake)
    return figure


def _options(content: Mapping[Any, Any], draw: str, way: Way, mistakes: list[tuple[Way, str]]) -> dict[str, Any]:
    """Return the options that are given, in Python's types."""
    declared = DRAWN[draw]
    known = [*declared, *OF_FIGURE]
    options: dict[str, Any] = {}
    for name, value in content.items():
        if name in OF_FIGURE:
            continue
        here = (*way, str(name))
        if name not in declared:
            mistakes.append((here, nearest(str(name), known, f"entry of a figure that draws {draw}")))
            continue
        if value is None:
            continue
        try:
            options[name] = declared[name].kind.read(_as_typed(value, declared[name].kind))
        except ConfigError as error:
            mistakes.append((here, f"{name}: {error}"))
    return options


def _as_typed(value: Any, kind: OptionKind) -> Any:
    """Return a value as it would be typed: YAML has numbers and lists where a command line has texts."""
    if isinstance(kind, ChoiceKind) and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(kind, TextKind) and isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ", ".join(value)
    return value


def _names(content: Any, way: Way, mistakes: list[tuple[Way, str]]) -> tuple[str, ...]:
    """Return names of methods or settings: one, or a list."""
    if content is None:
        return ()
    listed = content if isinstance(content, list | tuple) else [content]
    if not listed or any(isinstance(name, Mapping | list) or name is None for name in listed):
        mistakes.append((way, f"{shown(content)} is not a list of names; leave it out for all {way[-1]}"))
        return ()
    return tuple(map(str, listed))


def _contradictions(figure: Figure, way: Way) -> list[tuple[Way, str]]:
    """Return what is wrong with options that are right one by one."""
    try:
        _CHECKS.get(figure.draw, _accept)(figure)
    except ConfigError as error:
        # The option that it is about, where the error says so.
        place = (*way, error.parameter) if error.parameter in figure.options else way
        return [(place, str(error))]
    return []


def _accept(figure: Figure) -> None:
    """Find nothing wrong."""


def _check_landscape(figure: Figure) -> None:
    View.of(figure.values)


def _check_flatness(figure: Figure) -> None:
    if "protocol" in figure.options:
        for name in ("measure", "data", "weights", "space"):
            if name in figure.options:
                raise ConfigError(f"protocol decides what is measured, and of what; leave out {name}", parameter=name)
    with _about("measure"):
        asked_for(figure.values)


def _check_embedding(figure: Figure) -> None:
    if "clients" in figure.options and "weights" in figure.options:
        raise ConfigError("a map of clients shows the global model beside theirs; leave out weights", "weights")


def _check_robustness(figure: Figure) -> None:
    with _about("corruptions"):
        corruptions_named(figure.values["corruptions"])


@contextmanager
def _about(parameter: str) -> Iterator[None]:
    """Let an error say which option it is about."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{parameter}: {error}", parameter=parameter) from None


_CHECKS: Mapping[str, Callable[[Figure], None]] = {
    "landscape": _check_landscape,
    "flatness": _check_flatness,
    "embedding": _check_embedding,
    "robustness": _check_robustness,
}
