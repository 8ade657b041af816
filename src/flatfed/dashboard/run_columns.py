"""A run's numbers as columns in memory: read once, followed from there, and thinned when they are sent."""

from __future__ import annotations

import threading
from array import array
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flatfed.core.configuration.checking import escaped
from flatfed.core.configuration.settings import averaged_rounds
from flatfed.dashboard.entries import primary_metric, standing
from flatfed.dashboard.tails import HistoryFollower, number
from flatfed.reports.drawn_rounds import FEWEST
from flatfed.reports.number_labels import LABELS
from flatfed.reports.page.thin import kept_places, thinned
from flatfed.runs.history import Row

MOST_POINTS = 500
"""Of a curve that is sent; a curve that grows gets its new points beside them."""
MOST_COLUMNS = 200
"""Of one run; a row may come from anybody."""
MOST_VALUES = 4_000_000
"""Numbers of one run that are kept, 20 of each of 200,000 rounds, say."""
MOST_REASONS = 500
OTHER_REASON = "another reason"
TOO_LONG = "history.jsonl is too long to be shown whole; these are its first rounds"
RECENT_REJECTED = 50
AXES = ("round", "bytes", "backprops", "seconds")
NO_CURVES = {"round", "bytes_down", "bytes_up", "backprops", "seconds", "attempts"}
Position = tuple[int, int]
"""The generation of a history, and how many of its rows are known."""


class NumberColumn:
    """The values of one number, and the rows that have it.

    Attributes:
        is_denser: whether rounds that have it lie apart at first, and later closer than those between which a run is
            evaluated.
    """

    def __init__(self) -> None:
        self.at = array("q")
        self.values = array("d")
        self.is_denser = False
        self._is_apart = False
        self._close = 1

    def add(self, row: int, value: float, every: int) -> None:
        """Add a value; rows follow one another as rounds do."""
        gap = row - self.at[-1] if self.at else every
        self._is_apart |= bool(self.at) and gap >= every
        self._close = self._close + 1 if gap < every else 1
        # Two may be the last evaluation and the one before.
        self.is_denser |= self._is_apart and self._close >= FEWEST
        self.at.append(row)
        self.values.append(value)

    def since(self, row: int) -> tuple[Sequence[int], Sequence[float]]:
        """Return rows and values from a row on."""
        first = len(self.at)
        while first and self.at[first - 1] >= row:
            first -= 1
        return self.at[first:], self.values[first:]


class RunColumns:
    """The curves of one run."""

    def __init__(self, path: Path, root: Path, config: Mapping[str, Any]) -> None:
        self._follower = HistoryFollower(path / "history.jsonl", root)
        self._path, self._root, self._config = path, root, config
        every = number(config["settings"].get("evaluate_every"))
        self._every = max(1, int(every or 1))
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self._axes = {name: array("d") for name in AXES}
        self._count = 0
        self._columns: dict[str, NumberColumn] = {}
        self._reasons: Counter[str] = Counter()
        self._rejected: deque[dict[str, Any]] = deque(maxlen=RECENT_REJECTED)

    def changes(self, known: Position | None) -> tuple[Position, dict[str, Any] | None]:
        """Read what was added, and return what is new since a position; None where nothing is."""
        with self._lock:
            if self._follower.restarted():
                self._clear()
            self._read()
            count = len(self._axes["round"])
            position = self._follower.generation, count
            if known == position:
                return position, None
            is_more = known is not None and known[0] == position[0]
            first = known[1] if known is not None and is_more else 0
            return position, self._piece(first)

    def _read(self) -> None:
        if self._is_full():
            return
        for row in self._follower.new_rows():
            self._add(row)
            if self._is_full():
                return

    def _is_full(self) -> bool:
        return self._count >= MOST_VALUES

    def _add(self, row: Row) -> None:
        self._count += len(AXES)
        place = len(self._axes["round"])
        traffic = (number(row.get("bytes_down")) or 0) + (number(row.get("bytes_up")) or 0)
        costs = (traffic, number(row.get("backprops")) or 0, number(row.get("seconds")) or 0)
        self._axes["round"].append(row["round"] + 1)
        for name, cost in zip(AXES[1:], costs, strict=True):
            before = self._axes[name][-1] if place else 0.0
            self._axes[name].append(before + cost)
        for name, value in [*row.items(), *(row.get("watch") or {}).items()]:
            self._add_number(name, number(value), place)
        for rejected in row.get("rejected") or ():
            reason, client = (escaped(str(rejected.get(name)))[:300] for name in ("reason", "client"))
            is_new = reason not in self._reasons and len(self._reasons) >= MOST_REASONS
            self._reasons[OTHER_REASON if is_new else reason] += 1
            self._rejected.append({"round": row["round"] + 1, "client": client, "reason": reason})

    def _add_number(self, name: str, value: float | None, place: int) -> None:
        if value is None or name in NO_CURVES:
            return
        if name not in self._columns:
            if len(self._columns) >= MOST_COLUMNS:
                return
            self._columns[name] = NumberColumn()
        self._count += 1
        self._columns[name].add(place, value, self._every)

    def _piece(self, first: int) -> dict[str, Any]:
        """Return the rows from one on: axes at the rows that are sent, and for each number which of these have it."""
        kept = {name: self._kept(column, first) for name, column in self._columns.items()}
        rows = sorted({row for at, _ in kept.values() for row in at})
        places = {row: place for place, row in enumerate(rows)}
        series = {
            name: {
                "at": [places[row] for row in at],
                "mean": _rounded(values, self._scale(name)),
                **self._spacing(self._columns[name]),
            }
            for name, (at, values) in kept.items()
            if at
        }
        axes = {name: _rounded([values[row] for row in rows]) for name, values in self._axes.items()}
        return {
            "whole": first == 0,
            "x": axes,
            "series": series,
            "metrics": [self._described(name) for name in self._ordered()],
            "numbers": self.numbers(),
            "rejected": self.rejected(),
            "damage": self._follower.damage or (TOO_LONG if self._is_full() else ""),
        }

    def _kept(self, column: NumberColumn, first: int) -> tuple[list[int], list[float]]:
        """Return rows and values that are sent; evenly spaced ones and those between are thinned each for itself."""
        at, values = column.since(first)
        if not column.is_denser:
            places = kept_places(len(at), MOST_POINTS)
        else:
            even = [place for place, row in enumerate(at) if self._axes["round"][row] % self._every == 0]
            between = sorted(set(range(len(at))) - set(even))
            places = sorted({*thinned(even, MOST_POINTS), *thinned(between, MOST_POINTS)})
        return [at[place] for place in places], [values[place] for place in places]

    def _spacing(self, column: NumberColumn) -> dict[str, int]:
        """Say which rounds are evenly spaced, where others lie closer."""
        return {"every": self._every} if column.is_denser else {}

    def _ordered(self) -> list[str]:
        first = [name for name in (primary_metric(self._config).column, "train_loss") if name in self._columns]
        return list(dict.fromkeys([*first, *sorted(self._columns)]))

    def _shown(self, name: str) -> tuple[str, str]:
        """Return label and unit of a number."""
        for test in self._config.get("test_sets") or ["test"]:
            own = (self._config.get("metrics") or {}).get(name.removeprefix(f"{test}_"))
            if name.startswith(f"{test}_") and own:
                return f"{test} {own.get('label') or name.removeprefix(f'{test}_')}", own.get("unit", "")
        if name.endswith("_accuracy"):
            return name.replace("_", " "), "%"
        return name.replace("_", " "), ""

    def _scale(self, name: str) -> float:
        return 100.0 if self._shown(name)[1] == "%" else 1.0

    def _described(self, name: str) -> dict[str, Any]:
        label, unit = self._shown(name)
        words = LABELS.get(name) or (f"{label} ({unit})" if unit else label)
        is_logarithmic = name == "train_loss" or name.startswith("lambda")
        return {"name": escaped(name), "label": escaped(words), "log": is_logarithmic}

    def numbers(self) -> list[dict[str, Any]]:
        """Return what a table shows of the run: name, value, and whether more is better where that is known."""
        metric, settings = primary_metric(self._config), self._config["settings"]
        column = self._columns.get(metric.column, NumberColumn())
        values = [metric.scale * value for value in column.values]
        planned = settings["rounds"]
        if self._axes["round"] and standing(self._path, self._root)[0] == "finished":
            planned = min(planned, int(self._axes["round"][-1]))  # it may have ended early
        first = planned - averaged_rounds(planned, settings.get("evaluate_last"))
        rounds = [self._axes["round"][row] for row in column.at]
        last = [value for value, round in zip(values, rounds, strict=True) if round > first]
        better = metric.higher_is_better
        best = None if better is None or not values else (max if better else min)(values)
        unit = f" ({metric.unit})" if metric.unit else ""
        losses = self._columns.get("train_loss", NumberColumn()).values
        return [
            _number("round", self._axes["round"][-1:]),
            _number(f"{metric.label}{unit}, now", values[-1:], better),
            _number("last-n mean", [sum(last) / len(last)] if last else [], better),
            _number("best", [] if best is None else [best], better),
            _number("training loss", losses[-1:], False),
            _number("bytes", self._axes["bytes"][-1:]),
            _number("backprops", self._axes["backprops"][-1:]),
            _number("seconds", self._axes["seconds"][-1:]),
            _number("rejected updates", [float(sum(self._reasons.values()))]),
        ]

    def rejected(self) -> dict[str, Any]:
        """Return rejected updates: how many for each reason, and the last of them."""
        reasons = [{"reason": reason, "count": count} for reason, count in self._reasons.most_common(20)]
        return {"reasons": reasons, "last": list(self._rejected)[::-1]}


def _number(name: str, values: Sequence[float], is_more_better: bool | None = None) -> dict[str, Any]:
    value = float(f"{values[-1]:.6g}") if values else None
    return {"name": escaped(name), "value": value, "better": is_more_better}


def _rounded(values: Sequence[float], scale: float = 1.0) -> list[float]:
    return [float(f"{scale * value:.6g}") for value in values]
