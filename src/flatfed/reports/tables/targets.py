"""The cost to reach a target: rounds, model transmissions, bytes, backprops and seconds of each method.

A run reaches a target in the first evaluated round (counted from 1) whose value is as good; costs are totals up to and
with that round. FedGloSS (Tables 5 and 10), FedGF (Table 4) and FedWMSAM (Table 3) compare methods so.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from flatfed.reports.results.one_run import OneRun
from flatfed.reports.results.results import Result
from flatfed.reports.tables.columns import last_mean, primary
from flatfed.reports.tables.extras import VALUES, WORDS, Extras, Target, find_result
from flatfed.reports.tables.grid import ALWAYS, LAST, Column, fitted, markdown_lines
from flatfed.reports.tables.numbers import NOTHING, Spread, megabytes, of_metric, spread_of
from flatfed.runs.history import Row
from flatfed.runs.metrics import Metric

if TYPE_CHECKING:
    from rich.table import Table

HOW = (
    "round: the first evaluated one that is as good as the target, and totals up to it; means over the seeds that "
    "reached it. Transmissions: model-sized vectors that a client exchanges, (bytes down + up) / (clients × bytes of "
    "the model), added up over the rounds"
)


@dataclass(frozen=True)
class Cost:
    """What one run had spent when it reached a target; `transmissions` is None where the model's size is not known."""

    round: int
    transmissions: float | None
    bytes: int
    backprops: int
    seconds: float

    @classmethod
    def up_to(cls, run: OneRun, round: int) -> Cost:
        """Add up a run's rounds to this one, counted from 1."""
        rows = [row for row in run.rows if row["round"] < round]
        size = run.config.get("model_bytes")
        return cls(
            round,
            sum(transmissions(row, size) for row in rows) if size else None,
            sum(row["bytes_down"] + row["bytes_up"] for row in rows),
            sum(row["backprops"] for row in rows),
            sum(row["seconds"] for row in rows),
        )


NAMES = tuple(Cost.__dataclass_fields__)


def transmissions(row: Row, model_bytes: int) -> float:
    """Return how many model-sized vectors a client of a round exchanged, down and up, from the bytes counted."""
    clients = {*row["clients"], *(entry["client"] for entry in row.get("refused", ()))}
    exchanged: int = row["bytes_down"] + row["bytes_up"]
    return exchanged / (max(len(clients), 1) * model_bytes)


@dataclass(frozen=True)
class Reaching:
    """What it takes the methods to reach one target.

    A target relative to a method is each seed's own where that method has every seed of the others, and otherwise its
    mean over seeds.
    """

    target: Target
    results: Sequence[Result]
    baseline: str | None = None

    @classmethod
    def all(cls, results: Sequence[Result], extras: Extras) -> list[Reaching]:
        """Return one for each target that was asked for."""
        found = [cls(target, results, extras.baseline) for target in extras.targets]
        for one in found:
            extras.check_metric(one.metric)
        return found

    @cached_property
    def owner(self) -> Result | None:
        """The method whose value is the target, if it is one's."""
        name = self.target.method
        return None if name is None else find_result(self.results, name, f"--target {self.target.text}")

    @property
    def metric(self) -> Metric:
        """What is to reach the target."""
        return primary(self.results) if self.owner is None else self.owner.primary

    @property
    def key(self) -> str:
        """The owner's value in summaries."""
        return f"{self.metric.stem}_{VALUES[self.target.which]}"

    @cached_property
    def by_seed(self) -> dict[int, float]:
        """The target of each seed, where it is each seed's own."""
        if self.owner is None:
            return {}
        own = {run.seed: run.summary[self.key] for run in self.owner.good if run.summary.get(self.key) is not None}
        return own if all(run.seed in own for result in self.results for run in result.runs) else {}

    @cached_property
    def value(self) -> float | None:
        """The target, or its mean over seeds; None where its owner has none."""
        if self.owner is None:
            return self.target.value
        spread = self.owner.spread(self.key)
        return spread[0] if spread else None

    def cost(self, run: OneRun) -> Cost | None:
        """Return what a run had spent when it reached the target, or None if it never did."""
        goal = self.by_seed.get(run.seed, self.value)
        if goal is None:
            return None
        rounds = (round + 1 for round, value in self.metric.values(run.rows) if self.metric.reaches(value, goal))
        first = next(rounds, None)
        return None if first is None else Cost.up_to(run, first)

    def spread(self, result: Result, name: str) -> Spread | None:
        """Return mean and deviation of a cost over the runs that reached the target."""
        costs = [cost for run in result.runs if (cost := self.cost(run)) is not None]
        return spread_of([value for cost in costs if (value := getattr(cost, name)) is not None])

    def reached(self, result: Result) -> int:
        """Return how many of a method's runs reached the target."""
        return sum(self.cost(run) is not None for run in result.runs)

    @cached_property
    def reference(self) -> Result | None:
        """The method that speed-ups are over: the target's owner, the baseline, or the first that reached it."""
        if self.owner is not None or self.baseline is None:
            return self.owner or next((result for result in self.results if self.reached(result)), None)
        return find_result(self.results, self.baseline, "--baseline")

    def speed_up(self, result: Result) -> float | None:
        """Return the reference's mean number of rounds over a method's, over the seeds in which both reached it.

        Methods that have no seed in common are compared by their means.
        """
        if self.reference is None:
            return None
        theirs, own = self._rounds(self.reference), self._rounds(result)
        seeds = {run.seed for run in self.reference.runs} & {run.seed for run in result.runs}
        if seeds:
            both = theirs.keys() & own.keys()
            theirs, own = ({seed: rounds[seed] for seed in both} for rounds in (theirs, own))
        return statistics.fmean(theirs.values()) / statistics.fmean(own.values()) if theirs and own else None

    def _rounds(self, result: Result) -> dict[int, int]:
        """Return the round in which each seed that reached the target did."""
        return {run.seed: cost.round for run in result.runs if (cost := self.cost(run)) is not None}

    def record(self, run: OneRun) -> dict[str, Any]:
        """Return a run's costs under names of their own: `to_0.75_round`, `to_0.75_bytes`."""
        cost = self.cost(run)
        values: dict[str, Any] = dict.fromkeys(NAMES) if cost is None else asdict(cost)
        value = {"value": self.by_seed.get(run.seed, self.value)}
        return {f"to_{self.target.text}_{name}": entry for name, entry in (value | values).items()}

    @property
    def title(self) -> str:
        """What is to be reached, in words."""
        goal = of_metric(self.metric, None if self.value is None else (self.value, None))
        unit = f" {self.metric.shown.unit}" if self.metric.shown.unit and self.value is not None else ""
        name = f"{self.metric.test} {self.metric.label}"
        over = f"; speed-up over {self.reference.method}" if self.reference is not None else ""
        if self.owner is None:
            return f"cost to reach {name} {goal}{unit}{over}"
        words = last_mean([self.owner]) if self.target.which == "final" else WORDS[self.target.which]
        whose = ", each seed its own" if self.by_seed and len(self.owner.runs) > 1 else ""
        return f"cost to reach {name} {goal}{unit} ({self.target.text}: its {words}{whose}){over}"


def terminal_tables(results: Sequence[Result], extras: Extras, width: int) -> list[Table]:
    """Return the tables of all targets; the last says how to read them."""
    from rich.text import Text

    found: list[Table] = []
    every = Reaching.all(results, extras)
    for one in every:
        tables = fitted(results, columns(one), HOW if one is every[-1] else "", width)
        tables[0].title, tables[0].title_justify = Text(f"\n{one.title}"), "left"
        found += tables
    return found


def markdown(results: Sequence[Result], extras: Extras) -> str:
    """Return the tables of all targets as Markdown, or nothing."""
    every = Reaching.all(results, extras)
    parts = [f"\n## {_capital(one.title)}\n\n{markdown_lines(results, columns(one))}\n" for one in every]
    return "".join(parts) + (f"\n{_capital(HOW)}.\n" if parts else "")


def aggregates(results: Sequence[Result], extras: Extras) -> list[dict[str, Any]]:
    """Return one record per target and method, with means and deviations over the runs that reached it."""
    return [_aggregate(one, result) for one in Reaching.all(results, extras) for result in results]


def _aggregate(one: Reaching, result: Result) -> dict[str, Any]:
    record: dict[str, Any] = {"target": one.target.text, "metric": one.metric.column, "value": one.value}
    record |= {"method": result.method, "reached": one.reached(result), "runs": len(result.runs)}
    for name in NAMES:
        mean, std = one.spread(result, name) or (None, None)
        record |= {name: mean, f"{name}_std": std}
    reference = one.reference.method if one.reference is not None else None
    return record | {"speed_up": one.speed_up(result), "speed_up_over": reference}


def columns(one: Reaching) -> list[Column[Result]]:
    """Return the columns of one target's table; how many seeds reached it only where there are several."""
    several = any(len(result.runs) > 1 for result in one.results)
    reached = [Column[Result]("reached", lambda result: f"{one.reached(result)} of {len(result.runs)}", "reach")]
    return [
        Column("method", lambda result: result.method, ALWAYS, words=True),
        *(reached if several else []),
        Column("round", _cell(one, "round", lambda mean: f"{mean:,.0f}", "{:,.1f} ± {:,.1f}"), "reach"),
        Column("speed-up", lambda result: _times(one.speed_up(result)), "reach"),
        Column("transmissions", _cell(one, "transmissions", lambda mean: f"{mean:,.1f}"), LAST),
        Column("bytes", _cell(one, "bytes", megabytes), LAST),
        Column("backprops", _cell(one, "backprops", lambda mean: f"{mean:,.0f}"), LAST),
        Column("seconds", _cell(one, "seconds", lambda mean: f"{mean:,.1f}"), LAST),
    ]


def _cell(one: Reaching, name: str, text: Callable[[float], str], both: str = "") -> Callable[[Result], str]:
    """Return what writes a cost: its mean, or with the pattern `both` mean and deviation where there are several."""

    def cell(result: Result) -> str:
        spread = one.spread(result, name)
        if spread is None:
            return NOTHING
        return both.format(*spread) if both and spread[1] is not None else text(spread[0])

    return cell


def _times(ratio: float | None) -> str:
    return NOTHING if ratio is None else f"{ratio:.2f}×"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
