"""What came of tuning: the best parameters, the method with them, lines for the study file, and all trials as CSV."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from flatfed.algorithms.spelling import parse_method, read_spelling, spelling_of
from flatfed.core.errors import ConfigError
from flatfed.experiments.spelling.declared import TRAINING
from flatfed.runs.directory import RunDirectory
from flatfed.runs.metrics import Metric
from flatfed.runs.records.files import replace_file
from flatfed.studies.selection import deciding_metric
from flatfed.studies.study import Point
from flatfed.studies.tuning.pruning import score_of
from flatfed.studies.tuning.trial_book import TuningTrial
from flatfed.studies.tuning.tuner import Tuner

FILE = "trials.csv"
SUFFIXES = ("client_opt", "average")


@dataclass(frozen=True)
class Tuned:
    """What came of tuning a method in a setting."""

    setting: str
    variant: str
    spelling: str
    """The method as the study writes it."""
    fixed: Point
    trials: list[TuningTrial]
    metric: Metric | None
    """What was compared; None where nothing was measured."""

    @property
    def best(self) -> TuningTrial | None:
        """The best trial that finished, the first of equals."""
        finished = [trial for trial in self.trials if trial.score is not None]
        return max(finished, key=lambda trial: trial.score or 0.0, default=None)

    @property
    def counts(self) -> str:
        """How many trials ended how, in words."""
        counts = Counter(trial.outcome for trial in self.trials)
        return ", ".join(f"{count} {outcome}" for outcome, count in counts.items())

    def value(self, trial: TuningTrial) -> float | None:
        """Return what a trial came to, as the metric has it."""
        if trial.score is None or self.metric is None:
            return None
        # Less of what is better when less is taken back the same way.
        return score_of(self.metric, trial.score)

    @property
    def method(self) -> str:
        """The method with the best parameters of its own."""
        assert self.best is not None
        return spelled_with(self.spelling, dict(self.best.point))

    @property
    def lines(self) -> str:
        """What sets the best parameters in a study file: a grid of one point, of which there is nothing to choose."""
        assert self.best is not None
        point = {name: [value] for name, value in (*self.fixed, *self.best.point)}
        text: str = yaml.safe_dump({"grid": {self.variant: point}}, default_flow_style=None, sort_keys=False, width=110)
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        best = self.best
        return {
            "setting": self.setting,
            "method": self.variant,
            "metric": self.metric and self.metric.column,
            "best": best and {"trial": best.number, "parameters": dict(best.point), "value": self.value(best)},
            "spelling": self.method if best else None,
            "trials": [self._row(trial) for trial in self.trials],
        }

    def _row(self, trial: TuningTrial) -> dict[str, Any]:
        row = {"trial": trial.number, "outcome": trial.outcome, "value": self.value(trial)}
        return row | dict(trial.point) | {"reason": trial.reason}

    def csv(self) -> str:
        """Return all trials, a line each."""
        names = [name for name, _ in self.trials[0].point] if self.trials else []
        text = io.StringIO()
        writer = csv.DictWriter(text, ["trial", "outcome", "value", *names, "reason"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._row(trial) for trial in self.trials)
        return text.getvalue()


def outcome_of(tuner: Tuner) -> Tuned:
    """Return what has come of tuning by now."""
    with tuner.book.locked():
        trials = tuner.book.trials()
    spelling = tuner.study.methods[tuner.variant]
    return Tuned(tuner.setting, tuner.variant, spelling, tuner.fixed, trials, _metric(tuner, trials))


def _metric(tuner: Tuner, trials: list[TuningTrial]) -> Metric | None:
    for trial in trials:
        if trial.score is not None:
            directory = RunDirectory.open(tuner.folder.run_of(tuner.cells_of(trial)[0]))
            return deciding_metric(tuner.study, list(directory.recorded.rows), directory.config)
    return None


def write_trials(tuned: Tuned, folder: Path) -> Path:
    """Write all trials into a folder, and return the file."""
    replace_file(folder / FILE, tuned.csv().encode())
    return folder / FILE


def spelled_with(spelling: str, point: Mapping[str, Any]) -> str:
    """Return a method's spelling with parameters in brackets; what is not the method's own, `lr` say, is left out."""
    try:
        read = read_spelling(spelling)
    except ConfigError:
        # A class of the user's own that this process has not imported.
        return spelling
    own = {name: value for name, value in point.items() if name not in TRAINING}
    method = parse_method(spelling)
    parts = spelling_of(method.algorithm, method.average).split("+")
    has_optimiser = len(parts) - (method.average is not None) == 2
    owners = ["", *(["client_opt"] if has_optimiser else []), *(["average"] if method.average is not None else [])]
    settings = {**read.settings, **own}
    words = []
    for part, owner in zip(parts, owners, strict=True):
        words.append(part + _in_brackets(settings, owner))
    text = "+".join(words)
    try:
        parse_method(text)
    except ConfigError:
        # A parameter that only the options of a run can name.
        return spelling
    return text


def _in_brackets(settings: Mapping[str, Any], owner: str) -> str:
    """Return the parameters of one part of a spelling."""
    own = []
    for name, value in settings.items():
        whose, _, bare = name.rpartition(".")
        belongs = whose == owner if whose in SUFFIXES else not owner
        if belongs:
            own.append(f"{bare if whose in SUFFIXES else name}={_word(value)}")
    return f"({', '.join(own)})" if own else ""


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
