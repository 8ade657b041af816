"""Pruning: a run of a trial ends early when all it has come to is below the median of the trials that finished."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flatfed.runs.directory import RunDirectory
from flatfed.runs.history import Row
from flatfed.runs.metrics import Metric
from flatfed.studies.selection import deciding_metric
from flatfed.studies.study import Study
from flatfed.studies.tuning.trial_book import TrialBook

if TYPE_CHECKING:
    from optuna import Study as OptunaStudy

STARTUP = 5
"""Trials that must have finished before any is pruned."""
WARMUP = 0.2
"""The share of the rounds in which nothing is pruned: what comes first says little."""


def score_of(metric: Metric, value: float) -> float:
    """Return what is maximised, of a value."""
    return value if metric.shown.higher_is_better else -value


class MedianJudge:
    """Judges one run of a trial by those of finished trials with the same seed: Optuna's median pruner.

    Args:
        study: what is studied: it says which metric decides.
        book: the trials.
        run: the run directory.
        rounds: how many rounds it is to have.
        number: which of the seeds that choose it has: step `number * rounds + round` of a trial is its.
    """

    def __init__(self, study: Study, book: TrialBook, run: Path, rounds: int, number: int) -> None:
        from optuna.pruners import MedianPruner

        self.study, self.book, self.run, self.rounds, self.number = study, book, run, rounds, number
        self._pruner = MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=int(WARMUP * rounds))
        self._metric: Metric | None = None
        self._scores: dict[int, float] = {}
        self._others: OptunaStudy | None = None
        self._known: set[int] = set()

    def objection(self, row: Row) -> str:
        """Return why the run should end after a round; nothing where it should not."""
        import optuna

        round = row["round"]
        score = self._score(row)
        # The last round is its end anyway; one that is played again was judged before.
        if score is None or round + 1 >= self.rounds or round in self._scores:
            return ""
        self._scores[round] = score
        running = optuna.trial.TrialState.RUNNING
        trial = optuna.trial.create_trial(state=running, intermediate_values=self._scores)
        if not self._pruner.prune(self._finished(), trial):
            return ""
        return f"after round {round + 1} below the median of the trials that finished"

    def _score(self, row: Row) -> float | None:
        if self._metric is None:
            config = RunDirectory.open(self.run).config
            measured = [name for name in row if name.startswith(("test_", "validation_"))]
            if not measured:
                return None
            self._metric = deciding_metric(self.study, [row], config)
        values = self._metric.values([row])
        return score_of(self._metric, values[0][1]) if values else None

    def _finished(self) -> OptunaStudy:
        """Return the trials that have finished by now, each with what it came to with this seed."""
        import optuna

        if self._others is None:
            self._others = optuna.create_study(direction="maximize")
        first = self.number * self.rounds
        for trial in self.book.trials():
            if trial.outcome != "finished" or trial.number in self._known:
                continue
            self._known.add(trial.number)
            own = {step - first: score for step, score in trial.scores.items() if 0 <= step - first < self.rounds}
            ended = optuna.trial.create_trial(value=trial.score, intermediate_values=own)
            self._others.add_trial(ended)
        return self._others
