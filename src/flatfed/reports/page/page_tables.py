"""Tables as a page needs them: texts, the value that each is sorted by, and which are the best of their column."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from flatfed.published.wording import value_text
from flatfed.reports.results.result import Result
from flatfed.reports.tables import beside_published
from flatfed.reports.tables.columns import PLAIN, columns, further, primary
from flatfed.reports.tables.extras import Extras, Target
from flatfed.reports.tables.grid import NOTHING, UNITS, heads_of, number, one_line, texts_of
from flatfed.reports.tables.table import caption, notes
from flatfed.reports.tables.target_tables import HOW
from flatfed.reports.tables.target_tables import columns as target_columns
from flatfed.reports.tables.targets import Reaching
from flatfed.runs.metrics import Metric

TableData = dict[str, Any]
NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
SIZES = {unit: 1000.0**power for power, unit in enumerate(("B", *UNITS))}


def sort_value(text: str) -> float | None:
    """Return the first number of a text, in bytes where it is a size; None where there is none."""
    found = NUMBER.search(text)
    if found is None:
        return None
    value = float(found[0].replace(",", "").replace("−", "-"))
    unit = text[found.end() :].strip()
    return value * SIZES.get(unit, 1.0)


def table_data(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    words: Collection[int] = (0,),
    best: Mapping[int, bool] | None = None,
    caption: str = "",
    notes: Sequence[str] = (),
) -> TableData:
    """Return a table; `words` are the columns of words, `best` those with a direction: whether higher is better."""
    marked = _best_places(rows, best or {})
    cells = [[_cell(text, place, words) for place, text in enumerate(row)] for row in rows]
    for row, column in marked:
        cells[row][column]["best"] = True
    named = [{"text": head, "words": place in words} for place, head in enumerate(one_line(heads))]
    return {"caption": caption, "heads": named, "rows": cells, "notes": list(notes)}


def _cell(text: str, place: int, words: Collection[int]) -> dict[str, Any]:
    value: str | float | None = text.casefold() if place in words else sort_value(text)
    return {"text": text, "sort": value, "best": False}


def _best_places(rows: Sequence[Sequence[str]], best: Mapping[int, bool]) -> list[tuple[int, int]]:
    """Return rows and columns of the best texts; what is printed alike is marked alike."""
    places = []
    # A single line is the best of nothing.
    if len(rows) < 2:
        return []
    for column, is_higher_better in best.items():
        values = [sort_value(row[column]) for row in rows]
        known = [value for value in values if value is not None]
        # Where all are alike none is the best.
        if len(set(known)) < 2:
            continue
        top = max(known) if is_higher_better else min(known)
        places += [(row, column) for row, value in enumerate(values) if value == top]
    return places


def results_table(results: Sequence[Result], extras: Extras = PLAIN) -> TableData:
    """Return the table of a comparison."""
    chosen = columns(results, extras)
    words = [place for place, column in enumerate(chosen) if column.words]
    directions = _directions(results, extras)
    best = {place: directions[column.group] for place, column in enumerate(chosen) if column.group in directions}
    rows = [texts_of(result, chosen) for result in results]
    return table_data(heads_of(chosen), rows, words, best, caption(results, extras), notes(results, extras))


def _directions(results: Sequence[Result], extras: Extras) -> dict[str, bool]:
    """Return by group of columns whether higher values are better, where that is known."""
    metrics: dict[str, Metric] = {metric.column: metric for metric in further(results)}
    main = primary(results)
    # Methods with different metrics have no best one.
    if len({result.primary.column for result in results}) == 1:
        metrics |= dict.fromkeys(("values", *(f"at {round}" for round in extras.at)), main)
    known = {group: metric.shown.higher_is_better for group, metric in metrics.items()}
    directions = {group: direction for group, direction in known.items() if direction is not None}
    if extras.baseline:
        directions["improvement"] = True
    return directions


def target_tables(results: Sequence[Result], extras: Extras = PLAIN) -> list[TableData]:
    """Return a table for each target; where none was asked for, the first method's last-n mean is one."""
    tables = []
    for reaching in Reaching.all(results, _with_target(results, extras)):
        if reaching.value is None:
            continue
        chosen = target_columns(reaching)
        rows = [texts_of(result, chosen) for result in results]
        costs = {place: False for place, column in enumerate(chosen) if column.head not in NOT_COSTS}
        heading = reaching.title[0].upper() + reaching.title[1:]
        tables.append(table_data(heads_of(chosen), rows, (0,), costs, heading))
    if tables:
        tables[-1]["notes"] = [f"{HOW[0].upper()}{HOW[1:]}."]
    return tables


NOT_COSTS = ("method", "reached", "speed-up")
"""Columns of a target's table of which less is not better."""


def _with_target(results: Sequence[Result], extras: Extras) -> Extras:
    """Return the targets that were asked for, or what the first method came to."""
    is_comparison = len(results) > 1 and primary(results).shown.higher_is_better is not None
    if extras.targets or not is_comparison:
        return extras
    # Not by its text: a label may hold a colon.
    first = results[0].method
    return Extras(targets=(Target(f"{first}:final", None, first),), baseline=extras.baseline)


def published_table(results: Sequence[Result]) -> TableData | None:
    """Return measured beside published values; None where nothing was published for these settings."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for found in beside_published.beside_published(results).values():
        for beside in found:
            rows.setdefault(_published_row(beside), []).append(beside.match.value.table)
    if not rows:
        return None
    lines = [[*row[:4], f"{row[4]}, {', '.join(places)}", row[5]] for row, places in rows.items()]
    heads = ["method", "metric", "measured", "published", "where", "in what they differ"]
    return table_data(heads, lines, (0, 1, 4, 5), caption="Measured, and published for the same setting")


def _published_row(beside: beside_published.Beside) -> tuple[str, ...]:
    match = beside.match
    differences = [*match.differences, *(f"{name} not stated" for name in match.unstated)]
    measured = number(beside.measured)
    apart = "; ".join(differences) or NOTHING
    return beside.method, match.value.metric, measured, value_text(match.value), match.value.paper, apart
