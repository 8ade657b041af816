"""Checking a study: every variant is tried in every setting, and what their cells take is added up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from flatfed.core.errors import ConfigError, FlatfedError, nearest
from flatfed.core.task.metrics import declared
from flatfed.experiments.comparing.comparison import Comparison
from flatfed.experiments.measuring.protocols import asked_for
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.spelling.kinds import at_most
from flatfed.flatness.sums import Sample
from flatfed.studies.cells import Cell, Resolver, choosing_cells
from flatfed.studies.checking.measuring_time import AskedMeasurement
from flatfed.studies.checking.timed_cells import TimedCells
from flatfed.studies.checking.timing import timed
from flatfed.studies.drawing.figure import CLASSES, Figure
from flatfed.studies.mistakes import CellMistake, placed
from flatfed.studies.study import Study

Show = Callable[[str, int, int], object]
"""Shows how far something is: a text, and how many of how many are done."""

FLATNESS = "flatness"
"""The drawing that is measured like what is reported."""


@dataclass
class Checked:
    """What was found; times are those of the processor."""

    title: str
    variants: int
    settings: int
    seeds: int
    cells: int
    choosing: int
    jobs: int
    seconds: float = 0.0
    """Of everything that is timed, with `jobs` cells at once."""
    measuring: float = 0.0
    """How much of it is spent on measurements: those of `report`, and those watched."""
    disk: int = 0
    exchanged: int = 0
    not_included: list[str] = field(default_factory=list)
    """What the seconds do not hold."""
    mistakes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return dict(self.__dict__)


def check_study(
    resolver: Resolver, jobs: int, show: Show = lambda text, done, total: None, known: TimedCells | None = None
) -> Checked:
    """Try every variant in every setting, and add up what their cells take; `known` holds what was timed before."""
    study = resolver.study
    columns = list(study.columns())
    choosing = len(choosing_cells(study))
    cells = choosing + len(columns) * len(study.seeds)
    checked = Checked(study.title, len(study.methods), len(study.settings), len(study.seeds), cells, choosing, jobs)
    total = _Sum(resolver, checked, known or TimedCells())
    mistakes: list[CellMistake] = []
    for number, (setting, variant) in enumerate(columns):
        show(f"{variant}, {setting}" if setting else variant, number, len(columns))
        try:
            total.add(setting, variant)
        except FlatfedError as error:
            mistakes.append(CellMistake(setting, variant, str(error)))
    total.finish()
    checked.mistakes += placed(study, mistakes)
    checked.mistakes += [] if mistakes else total.unknown_metrics()
    return checked


class _Sum:
    """Adds up what cells take."""

    def __init__(self, resolver: Resolver, checked: Checked, known: TimedCells) -> None:
        self.resolver, self.study, self.checked, self.known = resolver, resolver.study, checked, known
        self.total = self.longest = self.measuring = 0.0
        self.metrics: dict[str, None] = {}
        """What some setting's runs measure, as it may be named."""

    def add(self, setting: str, variant: str) -> None:
        """Try a variant in a setting, and add all of its cells."""
        study = self.study
        points = study.points(variant)
        cell = Cell(setting, variant, study.seeds[0], points[0])
        for point in points:
            self.resolver.comparison(Cell(setting, variant, study.seeds[0], point))
        comparison = self.resolver.comparison(cell)
        # Loaded once for all cells, and so no part of the time that each takes to begin.
        comparison.recipe.pool()
        plan, begin = timed(lambda: self._checked_plan(cell))
        _check_metric(study.select.metric, plan)
        self.metrics.update(_columns(plan))
        one = self.known.estimate(comparison, plan)
        watching, unknown = self.known.watching(comparison, plan)
        self._leave_out(f"{name}, which is watched" for name in unknown)
        runs = len(study.seeds) + _choosing_runs(study, variant, plan.settings.rounds)
        reported = self._reported(comparison, plan) + self._drawn(comparison, plan, cell)
        seconds = one.seconds + watching + begin
        self.longest = max(self.longest, seconds)
        self.total += runs * seconds + reported
        self.measuring += runs * watching + reported
        self.checked.disk += int(runs * one.disk)
        self.checked.exchanged += int(runs * one.exchanged)

    def _checked_plan(self, cell: Cell) -> Plan:
        plan = self.resolver.plan(cell)
        plan.check()
        return plan

    def finish(self) -> None:
        """Say what all takes: at least as long as the longest cell, which is trained by one process."""
        checked = self.checked
        checked.seconds = max(self.total / checked.jobs, self.longest)
        checked.measuring = self.measuring / checked.jobs
        for name, figure in self.study.report.figures.items():
            if figure.draw not in (FLATNESS, CLASSES):
                self._leave_out([f"the figure {name}"])

    def unknown_metrics(self) -> list[str]:
        """Return metrics that are to be reported, and that no run measures."""
        unknown = [name for name in self.study.report.metrics if name not in self.metrics]
        place = self.study.place(("report", "metrics"))
        return [f"{place}: {nearest(name, self.metrics, 'metric')}" for name in unknown]

    def _reported(self, comparison: Comparison, plan: Plan) -> float:
        """Return the seconds of what is measured of the final models of all seeds."""
        report = self.study.report
        asked = [
            AskedMeasurement(measurement, Sample(most=report.flatness_samples)) for measurement in report.measured()
        ]
        return len(self.study.seeds) * self._measured(comparison, plan, asked)

    def _drawn(self, comparison: Comparison, plan: Plan, cell: Cell) -> float:
        """Return the seconds of what is measured to be drawn, of the first seed."""
        asked = [
            one for figure in self.study.report.figures.values() if _shows(figure, cell) for one in _asked_of(figure)
        ]
        return self._measured(comparison, plan, asked)

    def _measured(self, comparison: Comparison, plan: Plan, asked: list[AskedMeasurement]) -> float:
        times = self.known.measuring(comparison, plan, asked)
        self._leave_out(one.measurement.id for one, seconds in times.items() if seconds is None)
        return sum(seconds or 0.0 for seconds in times.values())

    def _leave_out(self, names: Iterator[str] | list[str]) -> None:
        for name in names:
            if name not in self.checked.not_included:
                self.checked.not_included.append(name)


def _shows(figure: Figure, cell: Cell) -> bool:
    """Say whether a figure is made of measurements of a cell's model."""
    if figure.draw != FLATNESS:
        return False
    return cell.variant in (figure.methods or [cell.variant]) and cell.setting in (figure.settings or [cell.setting])


def _asked_of(figure: Figure) -> Iterator[AskedMeasurement]:
    options = figure.values
    asked = asked_for(options)
    for measurement in asked.measurements:
        yield AskedMeasurement(measurement, Sample(asked.data, at_most(options["samples"]), options["seed"]))


def _choosing_runs(study: Study, variant: str, rounds: int) -> float:
    """Return how many runs choose a variant's parameters in a setting; those with fewer rounds count for less."""
    if not study.is_searched(variant):
        return 0.0
    share = (study.select.rounds or rounds) / rounds
    return share * len(study.points(variant)) * len(study.select.seeds)


def _columns(plan: Plan) -> dict[str, None]:
    """Return the metrics of a plan's runs by their columns; those of the first test set also by their names."""
    names = [*declared(plan.task.metrics), "loss"]
    columns = [f"{test}_{name}" for test in plan.task.test_sets for name in names]
    return dict.fromkeys([*names, *columns])


def _check_metric(name: str, plan: Plan) -> None:
    """Refuse to choose by a metric that a task does not have."""
    known = ["loss", *declared(plan.task.metrics)]
    if name and name not in known:
        raise ConfigError(f"select.metric: {nearest(name, known, 'metric')}")
