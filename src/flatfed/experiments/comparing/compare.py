"""Running a comparison: each method and seed in a run directory of its own, resumable as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from flatfed.algorithms.spelling import Method
from flatfed.core.errors import FlatfedError
from flatfed.core.method.engine import listening
from flatfed.core.round.step_count import hearing_steps
from flatfed.experiments.comparing.comparison import Comparison, claim
from flatfed.experiments.comparing.opened import OpenedRuns
from flatfed.experiments.comparing.send_whole import tracked
from flatfed.experiments.comparing.side_by_side import RunFollower, RunsSideBySide, Unfollowed, runs_at_once
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.planning.setting import describe as describe_setting
from flatfed.experiments.planning.setting import work_per_step
from flatfed.experiments.running.children import Tell
from flatfed.experiments.running.play import continue_play, play
from flatfed.experiments.running.resume import prepare
from flatfed.experiments.running.run import Run
from flatfed.reports.results.result import OneRun
from flatfed.runs.directory import RunDirectory, is_run
from flatfed.runs.environment import describe as describe_environment
from flatfed.runs.history import Row
from flatfed.runs.metrics import summarise
from flatfed.runs.records.files import refuse_link
from flatfed.runs.results import check_results

ENDED = ("finished", "diverged")
"""How a run stands that has nothing left to train."""

Say = Callable[[str], None]
UNFOLLOWED = Unfollowed()


@dataclass
class ComparisonOutcome:
    """What came of a comparison: the run directories that can be read, and the runs of which there is none."""

    directories: list[RunDirectory] = field(default_factory=list)
    unpublished: list[OneRun] = field(default_factory=list)
    unfinished: dict[Path, str] = field(default_factory=dict)
    """Runs that could not be gone on with, and why."""

    @property
    def runs(self) -> list[RunDirectory | OneRun]:
        """All runs, for a report."""
        return [*self.directories, *self.unpublished]

    @property
    def failed(self) -> bool:
        """Whether a run ended with an error; one that diverged is a result."""
        return bool(self.unpublished) or bool(self.unfinished) or any(map(_has_failed, self.directories))


def _has_failed(directory: RunDirectory) -> bool:
    return directory.status()["status"] == "failed"


def compare(
    comparison: Comparison,
    out: Path,
    follower: RunFollower = UNFOLLOWED,
    on_begin: Callable[[OpenedRuns], None] = lambda opened: None,
    jobs: int | None = None,
) -> ComparisonOutcome:
    """Run what is not finished yet and return what there is of all runs.

    A run that diverges, stops or fails, however it does, is recorded as such and the others go on. `on_begin` is called
    before the first one, when nothing was refused, with what opens the runs that have begun. `jobs` is how many runs
    are trained at once (`runs_at_once`).
    """
    comparison = tracked(comparison, out)
    reasons = _check(comparison, out)
    claim(comparison, out)
    opened = OpenedRuns(comparison.by.is_believed)
    on_begin(opened)
    comparing = _Comparing(comparison, out, opened, follower, reasons)
    comparing.work(jobs)
    return _outcome(comparison, out, opened, reasons)


class _Comparing:
    """Trains what is left of a comparison, and notes why runs fail."""

    def __init__(
        self, comparison: Comparison, out: Path, opened: OpenedRuns, follower: RunFollower, reasons: dict[Path, str]
    ) -> None:
        self.comparison, self.opened, self.follower, self.reasons = comparison, opened, follower, reasons
        self.runs = {run.path: run for run in _runs(comparison, out)}

    def work(self, jobs: int | None) -> None:
        """Train them, side by side or one after another."""
        left = [path for path in self.runs if not self._is_over(path)]
        at_once = self._at_once(left, jobs)
        if at_once == 1:
            for path in left:
                self._train_here(path)
            return
        self.follower.say(f"{at_once} runs at a time, each in a process of its own (--jobs)")
        side_by_side = RunsSideBySide(at_once, self._train_in_child, self.follower)
        self.reasons |= side_by_side.work(self._longest_first(left))

    def _longest_first(self, left: list[Path]) -> list[Path]:
        """Return runs with the most work first, so that no process begins a long one when the others are done."""
        return sorted(left, key=lambda path: work_per_step(self.runs[path].method.algorithm), reverse=True)

    def _at_once(self, left: list[Path], jobs: int | None) -> int:
        if len(left) < 2:
            return 1
        try:
            plan = self.runs[left[0]].plan()
            at_once = runs_at_once(plan, len(left), jobs)
            if at_once > 1:
                _find_out_once(plan)
        except Exception:  # it will be said of that run
            return 1
        return at_once

    def _is_over(self, path: Path) -> bool:
        """Say whether nothing is to be done about a run: it cannot be made, or it came to its end before."""
        if path in self.reasons:
            self.follower.say(f"{path}: failed: {self.reasons[path]}")
            return True
        try:
            is_over = is_run(path) and _has_ended(self.opened.at(path), self.comparison.settings.rounds)
            if is_over:
                self.follower.started(path, _rounds_done(path, self.opened))
        except FlatfedError:  # what is wrong with it is said when it is gone on with
            return False
        if is_over:
            self.follower.ended(path)
        return is_over

    def _train_here(self, path: Path) -> None:
        try:
            # Within the `try`: to read how far a run is may fail already.
            self.follower.started(path, _rounds_done(path, self.opened))
            with hearing_steps(partial(self.follower.stepped, path)):
                self._train(path, partial(self.follower.played, path), self.follower.say)
        except Exception as error:  # a method may be anybody's code, and the others' hours must not be lost with it
            self.reasons[path] = _words(error)
            self.follower.say(f"{path}: {self.reasons[path]}")
        self.follower.ended(path)

    def _train_in_child(self, path: Path, tell: Tell) -> None:
        def say(text: str) -> None:
            tell({"say": text})

        with listening(say), hearing_steps(lambda done, total: tell({"steps": [done, total]})):
            tell({"done": _rounds_done(path, self.opened)})
            self._train(path, lambda row: tell({"row": row}), say)

    def _train(self, path: Path, on_round: Callable[[Row], None], say: Say) -> None:
        run = _train(self.comparison, self.runs[path], self.opened, on_round, say)
        if run is not None and run.reason:
            say(f"{path}: {run.status}: {run.reason}")


def _find_out_once(plan: Plan) -> None:
    """Find out what the records of all runs have in common, here and not again in each process that is forked."""
    if plan.task.origin is not None:
        plan.task.origin.fingerprint()
    describe_setting(plan)
    describe_environment()


@dataclass(frozen=True)
class _PlannedRun:
    """One method with one seed: where it goes, and what makes its plan."""

    method: Method
    seed: int
    path: Path
    plan: Callable[[], Plan]


def _runs(comparison: Comparison, out: Path) -> Iterator[_PlannedRun]:
    places = list(comparison.runs(out))
    whose = [(method, seed) for method in comparison.methods for seed in comparison.seeds]
    for (method, seed), (path, plan) in zip(whose, places, strict=True):
        yield _PlannedRun(method, seed, path, plan)


def _check(comparison: Comparison, out: Path) -> dict[Path, str]:
    """Check all plans before the first round, and return why some cannot be made.

    What is refused is a mistake in what was asked for: it must not cost the hours of the methods before it. Any other
    error is that method's alone.
    """
    reasons: dict[Path, str] = {}
    for path, plan in comparison.runs(out):
        if is_run(path):
            check_results(path)
            continue
        # What is written there must stay within the comparison.
        refuse_link(path.parent)
        refuse_link(path)
        try:
            plan().check()
        except FlatfedError:
            raise
        except Exception as error:
            reasons[path] = _words(error)
    return reasons


def _words(error: Exception) -> str:
    """Return what an error says; one that flatfed did not raise itself says little without its name."""
    if isinstance(error, FlatfedError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _rounds_done(path: Path, opened: OpenedRuns) -> int:
    if not is_run(path):
        return 0
    return len(opened.at(path).recorded.rows)


def _train(
    comparison: Comparison,
    run: _PlannedRun,
    opened: OpenedRuns,
    on_round: Callable[[Row], None],
    say: Say,
) -> Run | None:
    """Begin a run or go on with it; None where it came to its end before."""
    if not is_run(run.path):
        return play(run.plan(), run.path, on_round)
    directory = opened.at(run.path)
    rounds = comparison.settings.rounds
    if _has_ended(directory, rounds):
        return None
    plan, directory = prepare(
        run.path,
        rounds,
        opened=directory,
        data_dir=comparison.recipe.data_dir,
        workers=comparison.workers,
        cohort_memory=comparison.settings.cohort_memory,
        track=comparison.track,
        past_end=False,  # with more rounds it would have ended early just so
    )
    continued = continue_play(plan, directory, on_round, say)
    opened.keep(directory)
    return continued


def _has_ended(directory: RunDirectory, rounds: int) -> bool:
    """Say whether nothing is left to train; a run that was finished may be asked for more rounds."""
    status = directory.status()["status"]
    is_longer = rounds > directory.config["settings"]["rounds"]
    return status in ENDED and not (status == "finished" and is_longer)


def _outcome(comparison: Comparison, out: Path, opened: OpenedRuns, reasons: dict[Path, str]) -> ComparisonOutcome:
    """Return the runs that can be read, and of the others what is known of them."""
    outcome = ComparisonOutcome(unfinished=reasons)
    for run in _runs(comparison, out):
        directory = _readable(run.path, opened)
        if directory is not None:
            outcome.directories.append(directory)
        else:
            reason = reasons.get(run.path, "its run directory cannot be read")
            outcome.unpublished.append(_unpublished(comparison, run, reason))
    return outcome


def _readable(path: Path, opened: OpenedRuns) -> RunDirectory | None:
    """Return a run whose records can be read, or None."""
    try:
        directory = opened.at(path)
        directory.summary()
    except FlatfedError:
        return None
    return directory


def _unpublished(comparison: Comparison, run: _PlannedRun, reason: str) -> OneRun:
    """Return a run that failed before it had a record of its own, as a report shows it."""
    config = _config_of(comparison, run)
    settings = comparison.settings
    summary = summarise([], settings.rounds, settings.evaluate_last, config)
    return OneRun(run.path, config, summary | {"status": "failed", "reason": reason}, [])


def _config_of(comparison: Comparison, run: _PlannedRun) -> dict[str, Any]:
    """Return the record that a run would have: of its plan, or where that cannot be made, of what was asked for."""
    try:
        plan = run.plan()
        return {"run": "", **plan.to_config(), "task": plan.task_recipe}
    except Exception:  # its plan is perhaps what failed
        return comparison.config_of(run.method, run.seed)
