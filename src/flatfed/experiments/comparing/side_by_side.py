"""Runs of a comparison side by side: one process for each, as many at once as there are cores and memory for.

Inside a run clients can be trained in parallel too, but each round then waits for its last client. Where there are at
least as many runs as cores, a core for each run leaves none of them idle. Results are the same bits either way.
"""

from __future__ import annotations

import select
import sys
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.running.children import DONE, INTERRUPTED, WAIT_SECONDS, Child, Tell, begin, signals_held
from flatfed.machine import available_memory, take_cores, usable_cores
from flatfed.runs.history import Row

PROCESS_BYTES = 2**29
"""About what a process takes besides vectors as long as the model: the libraries' own, batches, activations."""
VECTORS = 12
"""Vectors as long as the model that a process has at a time, besides those that clients send and keep."""


class RunFollower(Protocol):
    """Who follows a comparison."""

    def started(self, run: Path, done: int) -> None:
        """Note that a run begins, or goes on after some rounds."""

    def stepped(self, run: Path, done: int, total: int) -> None:
        """Note how many of the local steps of its round are done."""

    def played(self, run: Path, row: Row) -> None:
        """Note a round of it."""

    def ended(self, run: Path) -> None:
        """Note that a run has ended, however it did."""

    def say(self, text: str) -> None:
        """Hear something that people should know."""


class Unfollowed:
    """Follows a comparison, and says nothing."""

    def started(self, run: Path, done: int) -> None:
        """Leave it."""

    def stepped(self, run: Path, done: int, total: int) -> None:
        """Leave it."""

    def played(self, run: Path, row: Row) -> None:
        """Leave it."""

    def ended(self, run: Path) -> None:
        """Leave it."""

    def say(self, text: str) -> None:
        """Leave it."""


def runs_at_once(plan: Plan, runs: int, jobs: int | None = None) -> int:
    """Return how many of the runs that are left are trained at once; 1: one after another, each with its workers.

    `jobs` decides where it is given. Otherwise they are side by side where nothing was said about workers, there are at
    least as many runs as cores, and memory for them.
    """
    if jobs is not None:
        return max(1, min(jobs, runs))
    cores = usable_cores()
    if plan.workers != "auto" or runs < cores or not _can_fork(plan):
        return 1
    memory = available_memory()
    if memory is None:
        return cores
    return max(1, min(cores, memory // bytes_of_run(plan)))


def _can_fork(plan: Plan) -> bool:
    """Say whether a process may be forked: elsewhere than on Linux, and with an accelerator, libraries break by it."""
    return sys.platform == "linux" and plan.settings.device == "cpu"


def bytes_of_run(plan: Plan) -> int:
    """Return about how much memory a run takes in a process of its own; the data are shared."""
    model = plan.task.layout().shared * plan.settings.torch_dtype.itemsize
    cohort = plan.sampler.expected(plan.task.population)
    replies = model * int(cohort * max(1, len(plan.algorithm.uploads())))
    states = min(plan.state_bytes, model * plan.task.population)
    bound = plan.settings.cohort_bytes
    kept = replies + states if bound is None else min(replies + states, bound)
    return PROCESS_BYTES + model * VECTORS + kept


@dataclass(eq=False)
class _Playing:
    """A run, and the process that plays it."""

    run: Path
    child: Child


class RunsSideBySide:
    """Plays runs in processes of their own, `at_once` at a time."""

    def __init__(self, at_once: int, play: Callable[[Path, Tell], None], follower: RunFollower) -> None:
        self.at_once, self.play, self.follower = at_once, play, follower
        self.reasons: dict[Path, str] = {}
        """Why runs have failed."""
        self._playing: list[_Playing] = []

    def work(self, runs: Iterable[Path]) -> dict[Path, str]:
        """Play all of them, and return why some have failed; whatever happens, no process is left behind."""
        waiting = deque(runs)
        try:
            while waiting or self._playing:
                while waiting and len(self._playing) < self.at_once:
                    self._begin(waiting.popleft())
                self._listen()
        finally:
            self._stop()
        return self.reasons

    def _begin(self, run: Path) -> None:
        # Together: an interrupt between the two would leave a child that nobody knows.
        with signals_held():
            self._playing.append(_Playing(run, begin(lambda tell: self._live(run, tell))))

    def _live(self, run: Path, tell: Tell) -> None:
        """Play a run, in the child."""
        take_cores(1)
        self.play(run, tell)

    def _listen(self) -> None:
        """Wait until somebody says something, and take it in."""
        select.select([one.child.incoming for one in self._playing], [], [], WAIT_SECONDS)
        for one in list(self._playing):
            # Asked first: what it said last is there when it has ended.
            code = one.child.ended()
            self._hear(one)
            if code is not None:
                self._end(one, code)

    def _hear(self, one: _Playing) -> None:
        for news in one.child.listen():
            if "row" in news:
                self.follower.played(one.run, news["row"])
            elif "steps" in news:
                self.follower.stepped(one.run, *news["steps"])
            elif "done" in news:
                self.follower.started(one.run, news["done"])
            else:
                self.follower.say(news["say"])

    def _end(self, one: _Playing, code: int) -> None:
        one.child.close()
        self._playing.remove(one)
        if code != DONE:
            self.reasons[one.run] = one.child.error or _how_it_ended(code)
            self.follower.say(f"{one.run}: {self.reasons[one.run]}")
        self.follower.ended(one.run)

    def _stop(self) -> None:
        """Let those that play save and end."""
        for one in self._playing:
            one.child.stop()
        for one in self._playing:
            one.child.wait()
        self._playing.clear()


def _how_it_ended(code: int) -> str:
    if code == INTERRUPTED:
        return "its process was interrupted; the same command again goes on with it"
    if code < 0:
        return f"its process was killed (signal {-code}); the same command again goes on with it"
    return f"its process ended with code {code}"
