"""The book of trials: Optuna's study in a journal file, which any number of processes may read and write.

A trial belongs to no process: it is a line in the journal, and its runs are cells with leases. Every change is made
under one lock, which ends with the process that has it. A trial is entered with all of its parameters at once, so a
process that dies leaves no half of one. What is proposed depends on the seed, the trial's number and the trials before
it, and on nothing that a process would have to remember.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatfed.core.errors import ConfigError
from flatfed.experiments.running.children import signals_held
from flatfed.studies.study import Point
from flatfed.studies.tuning.ranges import Range, Space, tidy

if TYPE_CHECKING:
    from optuna import Study as OptunaStudy
    from optuna.distributions import BaseDistribution
    from optuna.storages import JournalStorage
    from optuna.trial import FrozenTrial

JOURNAL = "journal.log"
NAME = "tuning"
OUTCOME, REASON, BASIS = "outcome", "reason", "basis"
RUNNING = "running"
STATES = {"finished": "COMPLETE", "pruned": "PRUNED", "diverged": "PRUNED", "stopped": "PRUNED", "failed": "FAIL"}
"""What Optuna calls the outcomes. A diverged trial has no values, and counts for less than any other."""


def require_optuna() -> None:
    """Refuse to tune without Optuna."""
    try:
        import optuna
    except ImportError:
        raise ConfigError("tuning needs the package optuna; install it with: pip install 'flatfed[tune]'") from None
    # What it has to say of each trial is said by us.
    optuna.logging.set_verbosity(optuna.logging.ERROR)


@dataclass(frozen=True)
class TuningTrial:
    """One trial, as the book has it."""

    number: int
    point: Point
    outcome: str = RUNNING
    reason: str = ""
    score: float | None = None
    """What is maximised: the metric, or less of it where less is better."""
    scores: Mapping[int, float] = field(default_factory=dict)
    """The same after each evaluation, by step."""


class TrialBook:
    """The trials of one method in one setting."""

    def __init__(self, folder: Path, space: Space) -> None:
        require_optuna()
        self.folder, self.space = folder, space
        self._opened: tuple[JournalStorage, OptunaStudy] | None = None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let nobody else change the book meanwhile; a signal that asks to stop waits until this is done."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("ab") as file:
            # A record lock: children do not inherit it, and it ends with this process.
            fcntl.lockf(file, fcntl.LOCK_EX)
            with signals_held():
                self._mend()
                yield

    def _mend(self) -> None:
        """Remove the half of a line that a machine which broke down may have left at the end."""
        file = self.folder / JOURNAL
        if not file.exists():
            return
        with file.open("rb") as journal:
            if journal.seek(0, os.SEEK_END) == 0:
                return
            journal.seek(-1, os.SEEK_END)
            if journal.read() == b"\n":
                return
        os.truncate(file, file.read_bytes().rfind(b"\n") + 1)

    @property
    def _study(self) -> OptunaStudy:
        return self._open()[1]

    def _open(self) -> tuple[JournalStorage, OptunaStudy]:
        if self._opened is None:
            import optuna
            from optuna.storages.journal import JournalFileBackend

            file = self.folder / JOURNAL
            lock: Any = _Unlocked()
            storage = _storage(JournalFileBackend(str(file), lock_obj=lock), file)
            try:
                # First: to create it writes a line, also where it is there, and whoever only reads has no lock.
                study = optuna.load_study(study_name=NAME, storage=storage)
            except KeyError:
                study = optuna.create_study(storage=storage, study_name=NAME, direction="maximize")
            self._opened = storage, study
        return self._opened

    def basis(self, now: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the trials were begun with; `now`, which is then noted, where there is none yet."""
        study = self._study
        before: Mapping[str, Any] | None = study.user_attrs.get(BASIS)
        if before is None:
            study.set_user_attr(BASIS, dict(now))
            return now
        return before

    def trials(self) -> list[TuningTrial]:
        """Return all trials, in the order of their numbers."""
        return [self._trial(frozen) for frozen in self._study.get_trials(deepcopy=False)]

    def _trial(self, frozen: FrozenTrial) -> TuningTrial:
        point = tuple((name, frozen.params[name]) for name in self.space)
        outcome = RUNNING
        if frozen.state.is_finished():
            outcome = frozen.user_attrs.get(OUTCOME, "failed")
        score = frozen.value if outcome == "finished" else None
        reason = frozen.user_attrs.get(REASON, "")
        return TuningTrial(frozen.number, point, outcome, reason, score, frozen.intermediate_values)

    def propose(self, seed: int) -> TuningTrial:
        """Enter a new trial, and return it."""
        import numpy
        import optuna

        trials = self._study.get_trials(deepcopy=False)
        entropy = numpy.random.SeedSequence((seed, len(trials))).generate_state(1)[0]
        # In memory, so that nothing is written before all parameters are known.
        sampler = optuna.samplers.TPESampler(seed=int(entropy))
        trying = optuna.create_study(direction="maximize", sampler=sampler)
        trying.add_trials(trials)
        kinds = {name: _distribution(range) for name, range in self.space.items()}
        proposed = trying.ask(kinds).params
        params = {name: tidy(range, proposed[name]) for name, range in self.space.items()}
        running = optuna.trial.TrialState.RUNNING
        self._study.add_trial(optuna.trial.create_trial(state=running, params=params, distributions=kinds))
        return self.trials()[-1]

    def close(self, ended: TuningTrial) -> None:
        """Note how a trial has ended; one that is closed already stays as it is."""
        import optuna

        storage, study = self._open()
        if study.get_trials(deepcopy=False)[ended.number].state.is_finished():
            return
        study_id = storage.get_study_id_from_name(NAME)
        trial_id = storage.get_trial_id_from_study_id_trial_number(study_id, ended.number)
        for step, score in ended.scores.items():
            storage.set_trial_intermediate_value(trial_id, step, score)
        storage.set_trial_user_attr(trial_id, OUTCOME, ended.outcome)
        storage.set_trial_user_attr(trial_id, REASON, ended.reason)
        # Last: until then the trial runs, and whoever comes next writes all of it again.
        state = optuna.trial.TrialState[STATES[ended.outcome]]
        storage.set_trial_state_values(trial_id, state, None if ended.score is None else [ended.score])


def _storage(backend: Any, file: Path) -> JournalStorage:
    from optuna.storages import JournalStorage

    try:
        return JournalStorage(backend)
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file} is damaged ({error}); remove the folder that it is in, and tune again") from None


class _Unlocked:
    """A lock for the journal that does nothing: the book has one, and it does not outlive its process."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        return


def _distribution(range: Range) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    kind, values = next(iter(range.items()))
    if kind == "choice":
        return CategoricalDistribution(values)
    if kind == "whole":
        return IntDistribution(*values)
    low, high = values
    return FloatDistribution(low, high, log=kind == "log")
