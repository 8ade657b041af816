"""Tuning a method in a setting: trials are proposed, run as cells of the study, and closed with what they came to.

A trial's runs have the seeds that choose, by the same rule as those of a grid; none of them is reported. Whoever works
on the folder takes its cells by leases, so a trial whose process has died is taken up where it was.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from flatfed.core.errors import ConfigError, nearest
from flatfed.runs.directory import RunDirectory, is_run
from flatfed.runs.metrics import metrics_of
from flatfed.studies.cells import Cell, Resolver, description, differences, tuning_folder
from flatfed.studies.entering import filled
from flatfed.studies.folder import Standing, StudyFolder
from flatfed.studies.run_study import RunningStudy
from flatfed.studies.selection import deciding_metric, deciding_value, finished_run
from flatfed.studies.study import Point, Study
from flatfed.studies.tuning.pruning import MedianJudge, score_of
from flatfed.studies.tuning.ranges import Space, ends
from flatfed.studies.tuning.trial_book import RUNNING, TrialBook, TuningTrial
from flatfed.studies.workers.leases import PATIENCE, Leases
from flatfed.studies.workers.working import StudyWorker, Watcher

ENDINGS = ("failed", "diverged", "stopped", "pruned")
"""Of a trial with a run that ended like this there is no more to train; the first that is there counts."""


class Tuner:
    """The tuning of one method in one setting, in the folder of a study."""

    def __init__(self, running: RunningStudy, variant: str, setting: str | None, trials: int, seed: int = 0) -> None:
        self.study: Study = running.study
        self.resolver: Resolver = running.resolver
        self.folder: StudyFolder = running.folder
        self.variant = _named(variant, self.study)
        self.setting = _setting(setting, self.study)
        _refuse_left_out(self.variant, self.setting, self.study)
        self.wanted, self.seed = trials, seed
        self.space: Space = _space(self.study, variant)
        self.fixed = _fixed(self.study, variant, self.space)
        self.path: Path = self.folder.path / tuning_folder(self.setting, variant)
        self.book = TrialBook(self.path, self.space)
        self._leases: Leases | None = None
        self._jobs = 1

    @property
    def count(self) -> int:
        """How many runs there are to be."""
        return self.wanted * len(self.study.select.seeds)

    def check(self) -> None:
        """Refuse ranges that the method or the task does not take, and trials that began as something else."""
        seed = self.study.select.seeds[0]
        comparisons = [self.resolver.comparison(self._cell(0, seed, point)) for point in ends(self.space)]
        begun = {"run": description(comparisons[0]), "space": self.space, "select": asdict(self.study.select)}
        now: dict[str, Any] = json.loads(json.dumps(begun))
        with self.book.locked():
            before = self.book.basis(now)
        changed = differences({**before, "run": filled(before["run"], now["run"])}, now)
        if changed:
            words = ", ".join(f"{name} was {old!r} and is {new!r}" for name, (old, new) in changed.items())
            raise ConfigError(
                f"the trials in {self.path} began as something else: {words}; remove that folder to begin anew, or "
                "choose another --out"
            )

    def work(self, watcher: Watcher, jobs: int = 1, patience: float = PATIENCE) -> None:
        """Work on the trials until all have ended."""
        worker = StudyWorker(self.resolver, self.folder, self.cells, watcher, jobs, patience, self.judge)
        self._leases, self._jobs = worker.leases, jobs
        worker.work()

    def cells(self) -> list[Cell]:
        """Close the trials that have ended, propose new ones where there is room, and return the runs of all."""
        with self.book.locked():
            trials = [self._closed(trial) for trial in self.book.trials()]
            while len(trials) < self.wanted and self._room(trials) > 0:
                trials.append(self.book.propose(self.seed))
        return [cell for trial in trials for cell in self._to_play(trial)]

    def _cell(self, number: int, seed: int, point: Point) -> Cell:
        return Cell(self.setting, self.variant, seed, (*self.fixed, *point), True, number)

    def cells_of(self, trial: TuningTrial) -> list[Cell]:
        """Return the runs of a trial, one for each seed that chooses."""
        return [self._cell(trial.number, seed, trial.point) for seed in self.study.select.seeds]

    def _to_play(self, trial: TuningTrial) -> list[Cell]:
        """Return the runs of a trial that are left or have ended: where one decided, the others are left out."""
        cells = self.cells_of(trial)
        if trial.outcome == RUNNING:
            return cells
        return [cell for cell in cells if self.folder.standing(cell).has_ended]

    def _room(self, trials: list[TuningTrial]) -> int:
        """Return how many more runs this process could begin than there are for it."""
        assert self._leases is not None
        others = {lease.cell for lease in self._leases.held() if lease.owner != self._leases.owner}
        open_trials = [trial for trial in trials if trial.outcome == RUNNING]
        cells = [cell for trial in open_trials for cell in self.cells_of(trial)]
        mine = [cell for cell in cells if cell.key not in others and not self.folder.standing(cell).has_ended]
        return self._jobs - len(mine)

    def _closed(self, trial: TuningTrial) -> TuningTrial:
        """Close a trial that has ended, and return it as it is now."""
        if trial.outcome != RUNNING:
            return trial
        ended = self._ended(trial)
        if ended is None:
            return trial
        self.book.close(ended)
        return ended

    def _ended(self, trial: TuningTrial) -> TuningTrial | None:
        """Return a trial with what came of it; None while it runs."""
        standings = {cell: self.folder.standing(cell) for cell in self.cells_of(trial)}
        for state in ENDINGS:
            found = [standing for standing in standings.values() if standing.state == state]
            if found:
                return self._cut_short(trial, found[0])
        if not all(standing.has_ended for standing in standings.values()):
            return None
        return self._finished(trial)

    def _cut_short(self, trial: TuningTrial, standing: Standing) -> TuningTrial:
        ended = replace(trial, outcome=standing.state, reason=standing.reason)
        if standing.state != "pruned":
            return ended
        return replace(ended, scores=self._scores(trial))

    def _finished(self, trial: TuningTrial) -> TuningTrial:
        """Return a trial whose runs have all finished, with its score."""
        values = []
        for cell in self.cells_of(trial):
            directory = finished_run(self.folder, cell)
            if directory is None:
                return replace(trial, outcome="failed", reason=f"{cell.name}: its run cannot be read")
            metric = deciding_metric(self.study, list(directory.recorded.rows), directory.config)
            value = deciding_value(metric, directory)
            if value is None:
                return replace(trial, outcome="failed", reason=f"{cell.name}: {metric.column} was not measured")
            values.append(score_of(metric, value))
        score = math.fsum(values) / len(values)
        return replace(trial, outcome="finished", score=score, scores=self._scores(trial))

    def _scores(self, trial: TuningTrial) -> dict[int, float]:
        """Return what a trial came to after each evaluation, seed after seed."""
        scores: dict[int, float] = {}
        for number, cell in enumerate(self.cells_of(trial)):
            run = self.folder.run_of(cell)
            if not is_run(run):
                continue
            directory = RunDirectory.open(run)
            rows = list(directory.recorded.rows)
            if not metrics_of(rows, directory.config):
                # It has just begun, while a run with another seed decided.
                continue
            first = number * self.resolver.rounds(cell)
            metric = deciding_metric(self.study, rows, directory.config)
            scores |= {first + round: score_of(metric, value) for round, value in metric.values(rows)}
        return scores

    def judge(self, cell: Cell) -> MedianJudge:
        """Return who may end a run early; asked for in the process that plays it."""
        number = self.study.select.seeds.index(cell.seed)
        book = TrialBook(self.path, self.space)
        return MedianJudge(self.study, book, self.folder.run_of(cell), self.resolver.rounds(cell), number)


def _named(variant: str, study: Study) -> str:
    if variant not in study.methods:
        raise ConfigError(nearest(variant, study.methods, "method"))
    return variant


def _setting(setting: str | None, study: Study) -> str:
    names = list(study.settings)
    if setting is None:
        if len(names) > 1:
            raise ConfigError(f"name a setting with --setting: {', '.join(names)}")
        return names[0]
    if setting not in names:
        raise ConfigError(nearest(setting, names, "setting"))
    return setting


def _refuse_left_out(variant: str, setting: str, study: Study) -> None:
    """Refuse to tune a method where it is not trained."""
    own = study.methods_in(setting)
    if variant not in own:
        raise ConfigError(f"the setting {setting} has only {', '.join(own)}; name one of them, or another setting")


def _space(study: Study, variant: str) -> Space:
    space = study.space(variant)
    if not space:
        raise ConfigError(
            f"no ranges are given for {variant}; add some to the study file, such as "
            f"tune: {{{variant}: {{lr: {{log: [0.01, 1]}}}}}}"
        )
    return space


def _fixed(study: Study, variant: str, space: Space) -> Point:
    """Return what a grid sets for a method; where it has several values, they must be tuned too, or one chosen."""
    points = study.points(variant)
    searched = {name for point in points for name, value in point if dict(points[0])[name] != value}
    left = sorted(searched - space.keys())
    if left:
        raise ConfigError(f"{left[0]} of {variant} is searched by the grid; tune it too, or leave one value there")
    return tuple((name, value) for name, value in points[0] if name not in space)
