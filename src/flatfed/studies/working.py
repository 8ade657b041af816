"""Working on a study: cells are claimed, each is played by a process of its own; what others hold is left."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from flatfed.core.errors import ConfigError, FlatfedError
from flatfed.experiments.planning.setting import describe
from flatfed.experiments.running.play import continue_play, play
from flatfed.experiments.running.resume import prepare
from flatfed.runs.directory import is_run
from flatfed.runs.history import Row
from flatfed.studies.cells import Cell, Resolver
from flatfed.studies.children import DONE, INTERRUPTED, Child, Tell, begin
from flatfed.studies.folder import StudyFolder
from flatfed.studies.leases import RENEWALS, Lease, Leases, Progress

POLL_SECONDS = 0.05
LONGEST_PAUSE = 2.0
MOST_DEATHS = 3
"""A cell that takes its process down so often is given up."""


class Watcher(Protocol):
    """Who follows the work."""

    def began(self, cell: Cell) -> None:
        """Note that a cell has begun here."""

    def ended(self, cell: Cell) -> None:
        """Note that a cell has ended, here or elsewhere."""

    def shows(self, running: Sequence[tuple[Cell, Progress]], ended: int) -> None:
        """Show how far the cells are that run here, and how many cells have ended, here or elsewhere."""


@dataclass(eq=False)
class Hold:
    """A cell that this process has, and the child that plays it."""

    cell: Cell
    lease: Lease
    child: Child
    renewed: float
    lost: bool = False
    """Whether somebody else has taken it over."""


class Worker:
    """Works on the cells of a study until all have ended, or until it is told to stop."""

    def __init__(
        self,
        resolver: Resolver,
        folder: StudyFolder,
        cells: Callable[[], list[Cell]],
        watcher: Watcher,
        jobs: int = 1,
        patience: float = 60.0,
    ) -> None:
        self.resolver, self.folder, self.watcher, self.jobs = resolver, folder, watcher, jobs
        self.cells = cells
        """Returns the cells that are known by now: more come as parameters are chosen."""
        self.leases = Leases(folder.leases, patience)
        self.holds: list[Hold] = []
        self.told: set[Cell] = set()
        self.stopping = False

    def work(self) -> None:
        """Work until every cell has ended; whatever happens, no child is left behind."""
        pause = POLL_SECONDS
        self._load(self._open())
        try:
            while True:
                moved = self._reap()
                self._renew()
                left = self._open()
                moved = self._claim(left) or moved
                self.watcher.shows([(hold.cell, hold.child.progress) for hold in self.holds], len(self.told))
                if not left and not self.holds:
                    return
                # Others hold what is left: look less and less often.
                pause = POLL_SECONDS if moved or self.holds else min(2 * pause, LONGEST_PAUSE)
                time.sleep(pause)
        finally:
            self._stop()

    def _load(self, left: Sequence[Cell]) -> None:
        """Load the data of what comes first, and the code that every child needs: they share it with this process."""
        if not left:
            return
        try:
            plan = self.resolver.plan(left[0])
            describe(plan)
        except FlatfedError:
            # The child will say it, as the reason why its cell fails.
            return

    def _open(self) -> list[Cell]:
        """Return the cells that have not ended, and tell of those that have."""
        left = []
        for cell in self.cells():
            if not self.folder.standing(cell).has_ended:
                left.append(cell)
            elif cell not in self.told:
                self.told.add(cell)
                self.watcher.ended(cell)
        return left

    def _claim(self, left: Sequence[Cell]) -> bool:
        """Take cells and begin with them, as many as there is room for; say whether one was begun."""
        mine = {hold.cell for hold in self.holds}
        begun = False
        for cell in left:
            if len(self.holds) >= self.jobs:
                break
            if cell in mine:
                continue
            lease = self.leases.claim(cell.key)
            if lease is None:
                continue
            # Again: it may have ended between the look and the claim.
            if self.folder.standing(cell).has_ended:
                self.leases.release(lease)
                continue
            child = begin(lambda tell, cell=cell: play_cell(self.resolver, self.folder, cell, tell))  # type: ignore[misc]
            self.holds.append(Hold(cell, lease, child, time.monotonic()))
            self.watcher.began(cell)
            begun = True
        return begun

    def _renew(self) -> None:
        """Show signs of life; a child whose cell was taken over is stopped."""
        for hold in self.holds:
            hold.child.listen()
            if hold.lost or time.monotonic() - hold.renewed < self.leases.patience / RENEWALS:
                continue
            lease = self.leases.renew(hold.lease, hold.child.progress)
            hold.renewed = time.monotonic()
            if lease is None:
                hold.lost = True
                hold.child.stop()
            else:
                hold.lease = lease

    def _reap(self) -> bool:
        """Take note of children that have ended; say whether one has."""
        ended = False
        for hold in list(self.holds):
            code = hold.child.ended()
            if code is None:
                continue
            self.holds.remove(hold)
            self._judge(hold, code)
            self.leases.release(hold.lease)
            ended = True
        return ended

    def _judge(self, hold: Hold, code: int) -> None:
        """Note what came of a cell; its run directory says it where there is one."""
        if code in (DONE, INTERRUPTED) or self.folder.standing(hold.cell).has_ended:
            return
        if code > 0:
            self.folder.fail(hold.cell, hold.child.error or f"its process ended with code {code}")
            return
        # Killed: by a lack of memory, say. It is tried again, as it may have been somebody else's fault.
        if self.folder.note_death(hold.cell) >= MOST_DEATHS:
            self.folder.fail(hold.cell, f"its process was killed {MOST_DEATHS} times (signal {-code})")

    def _stop(self) -> None:
        """Let children save, and give back what they had."""
        for hold in self.holds:
            hold.child.stop()
        for hold in self.holds:
            os.waitpid(hold.child.pid, 0)
            self.leases.release(hold.lease)
        self.holds.clear()


def play_cell(resolver: Resolver, folder: StudyFolder, cell: Cell, tell: Tell) -> None:
    """Train a cell, or go on with it; of a run that fails the directory says so."""
    path = folder.run_of(cell)
    comparison = resolver.comparison(cell)
    pace = _Pace(comparison.settings.rounds, tell)
    try:
        if is_run(path):
            data_dir = comparison.recipe.data_dir
            plan, directory = prepare(path, comparison.settings.rounds, data_dir=data_dir, workers=0)
            continue_play(plan, directory, pace.note)
        else:
            plan = resolver.plan(cell)
            plan.check()
            play(plan, path, pace.note)
    except ConfigError:
        raise
    except FlatfedError:
        if not is_run(path):
            raise


class _Pace:
    """Tells how far a run is, and how long it will take."""

    def __init__(self, rounds: int, tell: Tell) -> None:
        self.rounds, self.tell = rounds, tell
        self.begun = time.monotonic()
        self.played = 0

    def note(self, row: Row) -> None:
        """Note a round."""
        self.played += 1
        done = row["round"] + 1
        seconds = (time.monotonic() - self.begun) / self.played
        self.tell(Progress(done, self.rounds, seconds * (self.rounds - done)))
