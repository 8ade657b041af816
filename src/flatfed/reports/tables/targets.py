"""The cost to reach a target: rounds, model transmissions, bytes, backprops and seconds of each method.

A run reaches a target in the first evaluated round (counted from 1) whose value is as good; costs are totals up to and
with that round. FedGloSS (Tables 5 and 10), FedGF (Table 4) and FedWMSAM (Table 3) compare methods so.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from flatfed.reports.results.result import OneRun, Result, all_runs
from flatfed.reports.tables.columns import last_mean, primary
from flatfed.reports.tables.extras import VALUES, WORDS, Extras, Target, find_result
from flatfed.reports.tables.grid import Spread, known, known_items, mean_of, of_metric, spread_of
from flatfed.runs.history import Row
from flatfed.runs.metrics import Metric, asked_clients


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
        # Rows count from 0, so that the round itself is among them.
        rows = [row for row in run.rows if row["round"] < round]
        return cls(
            round,
            _total_transmissions(rows, run.config.get("model_bytes")),
            sum(map(_exchanged, rows)),
            _total(rows, "backprops"),
            _total(rows, "seconds"),
        )


COST_NAMES = tuple(Cost.__dataclass_fields__)


def transmissions(row: Row, model_bytes: int) -> float:
    """Return how many model-sized vectors a client of a round exchanged, down and up, from the bytes counted."""
    # A round may have had no clients.
    return _exchanged(row) / (max(len(asked_clients(row)), 1) * model_bytes)


def _total_transmissions(rows: Sequence[Row], model_bytes: int | None) -> float | None:
    if not model_bytes:
        return None
    return sum(transmissions(row, model_bytes) for row in rows)


def _total(rows: Sequence[Row], name: str) -> Any:
    return sum(row[name] for row in rows)


def _exchanged(row: Row) -> int:
    total: int = row["bytes_down"] + row["bytes_up"]
    return total


@dataclass(frozen=True)
class Reaching:
    """What it takes the methods to reach one target.

    A target relative to a method is each seed's own where that method has every seed of the others, and otherwise its
    mean over seeds.
    """

    target: Target
    results: Sequence[Result]
    baseline: str | None = None
    chosen: Metric | None = None
    """What is to reach the target, where it is not the methods' first metric."""

    @classmethod
    def all(cls, results: Sequence[Result], extras: Extras, metric: Metric | None = None) -> list[Reaching]:
        """Return one for each target that was asked for."""
        every = [cls(target, results, extras.baseline, metric) for target in extras.targets]
        for reaching in every:
            extras.check_metric(reaching.metric)
        return every

    @cached_property
    def owner(self) -> Result | None:
        """The method whose value is the target, if it is one's."""
        if self.target.method is None:
            return None
        return find_result(self.results, self.target.method, f"target {self.target.text}")

    @property
    def metric(self) -> Metric:
        """What is to reach the target."""
        if self.chosen is not None:
            return self.chosen
        if self.owner is None:
            return primary(self.results)
        return self.owner.primary

    @property
    def key(self) -> str:
        """The owner's value in summaries."""
        return f"{self.metric.stem}_{VALUES[self.target.which]}"

    @cached_property
    def by_seed(self) -> dict[int, float]:
        """The target of each seed, where it is each seed's own."""
        if self.owner is None:
            return {}
        own = known_items({run.seed: run.summary.get(self.key) for run in self.owner.good})
        seeds = {run.seed for run in all_runs(self.results)}
        # One seed without a target of its own, and all go by the mean: else seeds would be held to different ones.
        if not seeds <= own.keys():
            return {}
        return own

    @cached_property
    def value(self) -> float | None:
        """The target, or its mean over seeds; None where its owner has none."""
        if self.owner is None:
            return self.target.value
        return mean_of(self.owner.spread(self.key))

    def cost(self, run: OneRun) -> Cost | None:
        """Return what a run had spent when it reached the target, or None if it never did."""
        goal = self.by_seed.get(run.seed, self.value)
        if goal is None:
            return None
        for round, value in self.metric.values(run.rows):
            if self.metric.reaches(value, goal):
                # Histories count rounds from 0, people from 1.
                return Cost.up_to(run, round + 1)
        return None

    def _costs(self, result: Result) -> list[Cost]:
        """Return what the runs that reached the target had spent."""
        return known(map(self.cost, result.runs))

    def spread(self, result: Result, name: str) -> Spread | None:
        """Return mean and deviation of a cost over the runs that reached the target."""
        return spread_of(known(getattr(cost, name) for cost in self._costs(result)))

    def reached(self, result: Result) -> int:
        """Return how many of a method's runs reached the target."""
        return len(self._costs(result))

    @cached_property
    def reference(self) -> Result | None:
        """The method that speed-ups are over: the target's owner, the baseline, or the first that reached it."""
        if self.owner is not None:
            return self.owner
        if self.baseline is not None:
            return find_result(self.results, self.baseline, "baseline")
        return next(filter(self.reached, self.results), None)

    @property
    def reference_name(self) -> str | None:
        """The name of the method that speed-ups are over."""
        if self.reference is None:
            return None
        return self.reference.method

    def speed_up(self, result: Result) -> float | None:
        """Return the reference's mean number of rounds over a method's, over the seeds in which both reached it.

        Methods that have no seed in common are compared by their means.
        """
        if self.reference is None:
            return None
        theirs, own = self._rounds(self.reference), self._rounds(result)
        # Where one of a pair of seeds did not reach the target, the other would make the comparison unfair.
        if _have_common_seeds(self.reference, result):
            both = theirs.keys() & own.keys()
            theirs = _of_seeds(theirs, both)
            own = _of_seeds(own, both)
        return _ratio(theirs.values(), own.values())

    def _rounds(self, result: Result) -> dict[int, int]:
        """Return the round in which each seed that reached the target did."""
        costs = known_items({run.seed: self.cost(run) for run in result.runs})
        return {seed: cost.round for seed, cost in costs.items()}

    def record(self, run: OneRun) -> dict[str, Any]:
        """Return a run's costs under names of their own: `to_0.75_round`, `to_0.75_bytes`."""
        record: dict[str, Any] = {"value": self.by_seed.get(run.seed, self.value)} | dict.fromkeys(COST_NAMES)
        cost = self.cost(run)
        if cost is not None:
            record |= asdict(cost)
        return {f"to_{self.target.text}_{name}": entry for name, entry in record.items()}

    @property
    def title(self) -> str:
        """What is to be reached, in words."""
        return f"cost to reach {self.metric.test} {self.metric.label} {self._goal}{self._source}{self._speed_up_over}"

    @property
    def _goal(self) -> str:
        """The value to reach, with its unit."""
        if self.value is None:
            return of_metric(self.metric, None)
        return f"{of_metric(self.metric, (self.value, None))} {self.metric.shown.unit}".rstrip()

    @property
    def _source(self) -> str:
        """Whose value the target is, where it is a method's."""
        if self.owner is None:
            return ""
        return f" ({self.target.text}: its {self._which(self.owner)}{self._whose(self.owner)})"

    def _whose(self, owner: Result) -> str:
        """Say that seeds have targets of their own, where there are several."""
        if not self.by_seed or len(owner.runs) == 1:
            return ""
        return ", each seed its own"

    def _which(self, owner: Result) -> str:
        """Return which of the owner's values is the target."""
        if self.target.which == "final":
            return last_mean([owner])
        return WORDS[self.target.which]

    @property
    def _speed_up_over(self) -> str:
        if self.reference is None:
            return ""
        return f"; speed-up over {self.reference.method}"


def _have_common_seeds(first: Result, second: Result) -> bool:
    return not first.seeds.isdisjoint(second.seeds)


def _ratio(theirs: Collection[int], own: Collection[int]) -> float | None:
    if not theirs or not own:
        return None
    return statistics.fmean(theirs) / statistics.fmean(own)


def _of_seeds(rounds: dict[int, int], seeds: set[int]) -> dict[int, int]:
    return {seed: rounds[seed] for seed in seeds}
