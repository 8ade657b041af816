"""Landscapes that lie in RUN/flatness: surfaces to turn and lines, several methods on one set of axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from flatfed.core.errors import FlatfedError
from flatfed.reports.page.series import rounded
from flatfed.reports.page.thin import kept_places
from flatfed.reports.results.result import OneRun, Result
from flatfed.reports.tables.grid import known
from flatfed.runs.records.files import read_json
from flatfed.runs.results import FOLDER

KINDS = ("surface", "client", "plane", "clients", "client-plane", "line", "along")
LARGEST = 50_000_000
"""Bytes of a file: a larger one is no landscape."""
MOST = 61
"""Points per axis of a surface that is drawn."""
MOST_OF_LINE = 301
Drawing = dict[str, Any]
Named = tuple[str, Drawing]


def landscapes_data(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return the surfaces and lines of these runs, those together that have the same axes and examples."""
    groups: dict[tuple[str, ...], list[Drawing]] = {}
    for result in results:
        for run in result.runs:
            for title, drawing in _drawings(run):
                key = (title, *(drawing.get(name, "") for name in ("x_name", "y_name", "note")))
                _add(groups.setdefault(key, []), drawing, run)
    return [_group(key, drawings) for key, drawings in groups.items()]


def _group(key: tuple[str, ...], drawings: list[Drawing]) -> dict[str, Any]:
    title, x_name, y_name, note = key
    return {"title": title, "x_name": x_name, "y_name": y_name, "note": note, "items": drawings}


def _add(drawings: list[Drawing], drawing: Drawing, run: OneRun) -> None:
    """Add a drawing with a label of its own; the same one may lie with several runs."""
    if any(_same(other, drawing) for other in drawings):
        return
    label = drawing["label"]
    if label in {other["label"] for other in drawings}:
        label = f"{label}, seed {run.seed}"
    drawings.append(drawing | {"label": label})


def _same(first: Drawing, second: Drawing) -> bool:
    return {**first, "label": ""} == {**second, "label": ""}


def _drawings(run: OneRun) -> Iterator[Named]:
    """Yield the drawings of a run with the title of what they are; files that hold none are left out."""
    for kind in KINDS:
        content = _content(run.path / FOLDER / f"{kind}.json")
        for grid in _listed(content, "grids"):
            yield from _surface(kind, grid)
        for line in _listed(content, "lines"):
            yield from _lines(kind, line)


def _content(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            return {}
        return read_json(path)
    except (FlatfedError, OSError):
        return {}


def _listed(content: dict[str, Any], name: str) -> list[Any]:
    found = content.get(name)
    return found if isinstance(found, list) else []


def _surface(kind: str, grid: Any) -> Iterator[Named]:
    """Yield a surface, where a file really holds one."""
    if not isinstance(grid, dict):
        return
    xs, ys, losses = _numbers(grid.get("xs")), _numbers(grid.get("ys")), grid.get("losses")
    if xs is None or ys is None or not isinstance(losses, list) or len(losses) != len(ys):
        return
    rows = known(map(_gapped, losses))
    if len(rows) != len(ys) or any(len(row) != len(xs) for row in rows):
        return
    across, down = kept_places(len(xs), MOST), kept_places(len(ys), MOST)
    kept = [[rows[row][column] for column in across] for row in down]
    parts = [kind, _text(grid, "sheet"), _text(grid, "panel")]
    surface: Drawing = {"label": _text(grid, "label"), "kind": "surface", "losses": kept}
    surface |= {"xs": [xs[place] for place in across], "ys": [ys[place] for place in down]}
    yield ", ".join(filter(None, parts)), surface | _named(grid)


def _lines(kind: str, line: Any) -> Iterator[Named]:
    """Yield the losses along a line, data set by data set."""
    if not isinstance(line, dict) or not isinstance(line.get("losses"), dict):
        return
    xs = _numbers(line.get("xs"))
    for data, losses in line["losses"].items():
        values = _gapped(losses)
        if xs is None or values is None or len(values) != len(xs):
            continue
        places = kept_places(len(xs), MOST_OF_LINE)
        drawn = {"xs": [xs[place] for place in places], "losses": [values[place] for place in places]}
        yield f"{kind}, {data}", {"label": _text(line, "label"), "kind": "line", **drawn, **_named(line)}


def _named(drawing: dict[str, Any]) -> Drawing:
    return {name: _text(drawing, name) for name in ("x_name", "y_name", "note")}


def _text(drawing: dict[str, Any], name: str) -> str:
    value = drawing.get(name, "")
    return value if isinstance(value, str) else ""


def _numbers(values: Any) -> list[float] | None:
    """Return a list of finite numbers, or None for anything else."""
    gapped = _gapped(values)
    if not gapped or None in gapped:
        return None
    return rounded(value for value in gapped if value is not None)


def _gapped(values: Any) -> list[float | None] | None:
    """Return a list of numbers, None where one is not finite; or None for anything else."""
    if not isinstance(values, list) or not all(map(_is_value, values)):
        return None
    return [None if value is None or not math.isfinite(value) else rounded([value])[0] for value in values]


def _is_value(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
