"""The clients of some runs: classes, participation, spread of accuracy, and updates that were rejected."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flatfed.reports.page.measured_flatness import Measurements
from flatfed.reports.page.page_tables import TableData, table_data
from flatfed.reports.results.result import OneRun, Result
from flatfed.runs.packed import ROUNDS

MOST_CLIENTS, MOST_CLASSES, MOST_BARS = 400, 200, 400
"""Of a heat map, and of bars: what a screen can show."""
MOST_COUNTED = 1_000_000
"""Clients up to which also those are counted that never took part."""
WORST = 0.1
"""The share of clients whose mean stands beside the mean of all."""
Values = Mapping[int, float]


@dataclass(frozen=True)
class ClassTable:
    """How many examples of each class each client holds: a row for each client.

    Attributes:
        counts: by client and class.
        class_names: where they are known.
        seed: of the run whose partition it is.
    """

    counts: Sequence[Sequence[int]]
    class_names: Sequence[str]
    seed: int


def classes_data(table: ClassTable | None) -> dict[str, Any] | None:
    """Return the heat map of clients and classes, of the first ones where there are many."""
    if table is None or not table.counts or not table.counts[0]:
        return None
    clients, classes = len(table.counts), len(table.counts[0])
    counts = [list(row[:MOST_CLASSES]) for row in table.counts[:MOST_CLIENTS]]
    names = list(table.class_names) or [str(number) for number in range(classes)]
    shown = []
    if clients > MOST_CLIENTS:
        shown.append(f"the first {MOST_CLIENTS} of {clients:,} clients")
    if classes > MOST_CLASSES:
        shown.append(f"the first {MOST_CLASSES} of {classes:,} classes")
    note = f"Partition of seed {table.seed}"
    return {"counts": counts, "classes": names[:MOST_CLASSES], "note": ": ".join([note, *shown])}


def participation_data(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return how often each client took part: once for methods with the same cohorts, many clients as a histogram."""
    counts = [(f"{result.method}, seed {run.seed}", _participation(run)) for result in results for run in result.runs]
    groups: dict[tuple[tuple[int, int], ...], list[str]] = {}
    for name, own in counts:
        if own:
            groups.setdefault(tuple(sorted(own.items())), []).append(name)
    return [_bars(_joined(names), dict(own)) for own, names in groups.items()]


def _participation(run: OneRun) -> Counter[int]:
    """Count in how many rounds each client's update was used; one that never took part counts 0."""
    counts = Counter(dict.fromkeys(range(_population(run)), 0))
    for row in run.rows:
        counts.update(row["clients"])
    # Of thinned rows those of most rounds are missing.
    return counts if run.rows and not any(ROUNDS in row for row in run.rows) else Counter()


def _population(run: OneRun) -> int:
    setting = run.config.get("setting") or {}
    count = (setting.get("clients") or {}).get("count") or run.config["task"].get("clients")
    # A larger one is no number of clients, or one of which those that took part are enough.
    return count if isinstance(count, int) and count <= MOST_COUNTED else 0


def _joined(names: Sequence[str]) -> str:
    """Return a name for methods with the same cohorts: all that is common is said once."""
    if len(names) == 1:
        return names[0]
    seeds = {name.rpartition(", ")[2] for name in names}
    if len(seeds) == 1:
        return f"{seeds.pop()} ({len(names)} methods)"
    return f"{names[0]} and {len(names) - 1} more"


def _bars(name: str, counts: Mapping[int, int]) -> dict[str, Any]:
    if len(counts) > MOST_BARS:
        clients = Counter(counts.values())
        return {
            "name": name,
            "histogram": True,
            "x": sorted(clients),
            "y": [clients[times] for times in sorted(clients)],
        }
    return {"name": name, "histogram": False, "x": list(counts), "y": list(counts.values())}


# Accuracy of single clients.


def client_values(results: Sequence[Result], measurements: Measurements) -> dict[str, dict[str, list[float]]]:
    """Return every accuracy that was measured of single clients: by name, by method, the clients of all its runs."""
    found: dict[str, dict[str, list[float]]] = {}
    for result in results:
        for run, measured in zip(result.runs, measurements[result.method], strict=True):
            for name, values in _of_run(run, [one.result.clients for one in measured]).items():
                finite = [100 * value for value in values.values() if math.isfinite(value)]
                if finite:
                    found.setdefault(name, {}).setdefault(result.method, []).extend(finite)
    return found


def _of_run(run: OneRun, kept: Sequence[Mapping[str, Values]]) -> dict[str, Values]:
    """Return accuracies by client: what monitors saw last, or what was measured afterwards."""
    values: dict[str, Values] = {}
    for row in run.rows:
        for name, own in (row.get("clients_watch") or {}).items():
            values[name] = {int(client): value for client, value in own.items() if value is not None}
    for clients in kept:
        values |= clients
    return {name: own for name, own in values.items() if name.endswith("accuracy") and own}


def accuracy_tables(values: Mapping[str, Mapping[str, Sequence[float]]]) -> list[TableData]:
    """Return for each accuracy the spread over clients, and the mean of the worst tenth."""
    return [_accuracy_table(name, by_method) for name, by_method in values.items()]


def _accuracy_table(name: str, by_method: Mapping[str, Sequence[float]]) -> TableData:
    heads = ["method", "clients", "mean", "deviation", "worst 10 %", "lowest", "median", "highest"]
    rows = [[method, str(len(values)), *_spread_texts(values)] for method, values in by_method.items()]
    words = name.replace("_", " ")
    best = {2: True, 3: False, 4: True, 5: True, 6: True, 7: True}
    return table_data(heads, rows, (0,), best, f"{words[0].upper()}{words[1:]} in %, client by client, of all seeds")


def _spread_texts(values: Sequence[float]) -> list[str]:
    ordered = sorted(values)
    worst = ordered[: max(1, round(WORST * len(ordered)))]
    numbers = [
        statistics.fmean(ordered),
        statistics.pstdev(ordered),
        statistics.fmean(worst),
        ordered[0],
        statistics.median(ordered),
        ordered[-1],
    ]
    return [f"{number:.2f}" for number in numbers]


# Rejected updates.


def rejected_table(results: Sequence[Result]) -> TableData | None:
    """Return which updates were rejected and why; None where none was."""
    rows = []
    for result in results:
        for run in result.runs:
            rows += [[result.method, str(run.seed), *row] for row in _rejected(run)]
    if not rows:
        return None
    heads = ["method", "seed", "reason", "updates", "clients", "rounds"]
    return table_data(heads, rows, (0, 2, 5), caption="Rejected updates, by reason")


def _rejected(run: OneRun) -> list[list[str]]:
    """Return the reasons of a run, each with how many updates, of how many clients, and in which rounds."""
    reasons: dict[str, list[tuple[int, Any]]] = {}
    for row in run.rows:
        for entry in row.get("rejected") or ():
            reasons.setdefault(str(entry.get("reason", "")), []).append((row["round"] + 1, entry.get("client")))
    rows = []
    for reason, places in reasons.items():
        clients = len({client for _, client in places})
        rows.append([reason, str(len(places)), str(clients), _span([round for round, _ in places])])
    return rows


def _span(rounds: Sequence[int]) -> str:
    first, last = min(rounds), max(rounds)
    return str(first) if first == last else f"{first} to {last}"
