"""Working on a study: cells are claimed, each is played by a process of its own; what others hold is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from flatfed.core.errors import ConfigError, FlatfedError, Interrupted
from flatfed.experiments.running.children import DONE, INTERRUPTED, Child, Tell, begin, signals_held
from flatfed.experiments.running.interruption import RunInterrupted
from flatfed.experiments.running.play import continue_play, play
from flatfed.experiments.running.resume import prepare
from flatfed.runs.directory import RunDirectory, is_run
from flatfed.runs.history import Row
from flatfed.runs.records.files import BusyError
from flatfed.studies.cells import Cell, Resolver, description
from flatfed.studies.entering import changes, is_extended, mismatch_message
from flatfed.studies.folder import StudyFolder
from flatfed.studies.workers.leases import RENEWALS, CellProgress, Lease, Leases

POLL_SECONDS = 0.05
LOOK_SECONDS = 1.0
"""How often all cells are looked at while nothing happens here: there may be thousands."""
LONGEST_PAUSE = 2.0
MOST_DEATHS = 3
"""A cell that takes its process down so often is given up."""


class Judge(Protocol):
    """Who ends runs early that promise less than others."""

    def objection(self, row: Row) -> str:
        """Return why a run should end after a round; nothing where it should not."""


Judges = Callable[[Cell], Judge | None]


class Watcher(Protocol):
    """Who follows the work."""

    def began(self, cell: Cell) -> None:
        """Note that a cell has begun here."""

    def ended(self, cell: Cell) -> None:
        """Note that a cell has ended, here or elsewhere."""

    def shows(self, running: Sequence[tuple[Cell, CellProgress]], ended: int) -> None:
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

    @property
    def progress(self) -> CellProgress:
        """How far it is."""
        return CellProgress(**self.child.latest)


class StudyWorker:
    """Works on the cells of a study until all have ended, or until it is asked to stop."""

    def __init__(
        self,
        resolver: Resolver,
        folder: StudyFolder,
        cells: Callable[[], list[Cell]],
        watcher: Watcher,
        jobs: int = 1,
        patience: float = 60.0,
        judges: Judges = lambda cell: None,
    ) -> None:
        self.judges = judges
        """Gives each cell, in the process that plays it, somebody who may end it early."""
        self.resolver, self.folder, self.watcher, self.jobs = resolver, folder, watcher, jobs
        self.cells = cells
        """Returns the cells that are known by now: more come as parameters are chosen."""
        self.leases = Leases(folder.leases, patience)
        self.holds: list[Hold] = []
        self.announced: set[Cell] = set()
        self.stopping = False

    def work(self) -> None:
        """Work until every cell has ended; whatever happens, no child is left behind."""
        pause = POLL_SECONDS
        left = self._open()
        looked = time.monotonic()
        self._load(left)
        try:
            while left or self.holds:
                moved = self._reap()
                self._renew()
                if moved or not self.holds or time.monotonic() - looked > LOOK_SECONDS:
                    left = self._open()
                    moved = self._claim(left) or moved
                    looked = time.monotonic()
                self.watcher.shows([(hold.cell, hold.progress) for hold in self.holds], len(self.announced))
                # Others hold what is left: look less and less often.
                pause = POLL_SECONDS if moved or self.holds else min(2 * pause, LONGEST_PAUSE)
                if left or self.holds:
                    time.sleep(pause)
        finally:
            self._stop()

    def _load(self, left: Sequence[Cell]) -> None:
        """Load the data of what comes first: children share them with this process. The model is for children alone."""
        if not left:
            return
        try:
            self.resolver.comparison(left[0]).recipe.pool()
        except Exception:
            # Data may be the user's own code. The child will say it, as the reason why its cell fails.
            return

    def _open(self) -> list[Cell]:
        """Return the cells that have not ended, and tell of those that have."""
        left = []
        for cell in self.cells():
            if not self.folder.standing(cell).has_ended:
                left.append(cell)
            elif cell not in self.announced:
                self.announced.add(cell)
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
            self._note_begun(cell)
            self._begin(cell, lease)
            self.watcher.began(cell)
            begun = True
        return begun

    def _begin(self, cell: Cell, lease: Lease) -> None:
        """Start the process of a cell."""
        # Together: an interrupt between the two would leave a child that nobody knows.
        with signals_held():
            child = begin(lambda tell: play_cell(self.resolver, self.folder, cell, tell, self.judges(cell)))
            self.holds.append(Hold(cell, lease, child, time.monotonic()))

    def _note_begun(self, cell: Cell) -> None:
        """Note what a cell begins as; one that another process began as something else is an error."""
        changed = changes(self.folder, self.resolver, cell)
        if changed and is_run(self.folder.run_of(cell)) and not is_extended(changed, self.resolver, cell):
            raise ConfigError(mismatch_message({cell: changed}, self.folder), parameter="out")
        if not changed and self.folder.begun_as(cell) is not None:
            return
        try:
            now = description(self.resolver.comparison(cell))
        except FlatfedError:
            # The child will say it.
            return
        self.folder.note_begun(cell, now)

    def _renew(self) -> None:
        """Show signs of life; a child whose cell was taken over is stopped."""
        for hold in self.holds:
            hold.child.listen()
            if hold.lost or time.monotonic() - hold.renewed < self.leases.patience / RENEWALS:
                continue
            lease = self.leases.renew(hold.lease, hold.progress)
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
            hold.child.listen()
            hold.child.close()
            self.holds.remove(hold)
            self._judge(hold, code)
            self.leases.release(hold.lease)
            ended = True
        return ended

    def _judge(self, hold: Hold, code: int) -> None:
        """Note what came of a cell; its run directory says it where there is one."""
        if hold.lost or code == INTERRUPTED:
            return
        self.folder.note_end(hold.cell)
        if code == DONE and self.folder.standing(hold.cell).has_ended:
            return
        if code >= 0:
            reason = hold.child.error or f"its process ended with code {code}, and no result"
            self.folder.fail(hold.cell, reason, hold.child.trace)
            return
        if self.folder.standing(hold.cell).has_ended:
            return
        # Killed: by a lack of memory, say. It is tried again, as it may have been somebody else's fault.
        if self.folder.note_death(hold.cell) >= MOST_DEATHS:
            self.folder.fail(hold.cell, f"its process was killed {MOST_DEATHS} times (signal {-code})")

    def _stop(self) -> None:
        """Let children save, and give back what they had."""
        for hold in self.holds:
            hold.child.stop()
        for hold in self.holds:
            hold.child.wait()
            self.leases.release(hold.lease)
        self.holds.clear()


def play_cell(resolver: Resolver, folder: StudyFolder, cell: Cell, tell: Tell, judge: Judge | None = None) -> None:
    """Train a cell, or go on with it, to its end or to where its judge objects."""
    path = folder.run_of(cell)
    objecting = _Objecting(judge)
    # Whoever had it before may have ended it on its way out.
    while folder.standing(cell).state != "pruned":
        try:
            _play(resolver, path, cell, tell, objecting)
        except (RunInterrupted, Interrupted):
            if not objecting.reason:
                raise
            folder.prune(cell, objecting.reason)
            return
        except BusyError:
            # The process of an owner that was killed is about to save.
            time.sleep(POLL_SECONDS)
        else:
            return


class _Objecting:
    """Ends a run, saved, when its judge objects to a round."""

    def __init__(self, judge: Judge | None) -> None:
        self.judge = judge
        self.reason = ""

    def look_back(self, run: Path) -> None:
        """Let the rounds be judged that a run has already: whoever played them may have ended before that."""
        if self.judge is not None:
            for row in RunDirectory.open(run).recorded.rows:
                self.note(row)

    def note(self, row: Row) -> None:
        """Let a round be judged."""
        if self.judge is None or self.reason:
            return
        self.reason = self.judge.objection(row)
        if self.reason:
            raise Interrupted(self.reason)


def _play(resolver: Resolver, path: Path, cell: Cell, tell: Tell, objecting: _Objecting) -> None:
    comparison = resolver.comparison(cell)
    rounds = comparison.settings.rounds
    pace = _Pace(rounds, tell)

    def note(row: Row) -> None:
        pace.note(row)
        objecting.note(row)

    if is_run(path):
        objecting.look_back(path)
        plan, directory = prepare(
            path,
            rounds,
            trust=resolver.by.is_believed,
            data_dir=comparison.recipe.data_dir,
            workers=0,
            cohort_memory=comparison.settings.cohort_memory,
            track=comparison.track,
            past_end=False,
        )
        continue_play(plan, directory, note)
    else:
        plan = resolver.plan(cell)
        plan.check()
        play(plan, path, note)


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
        self.tell(CellProgress(done, self.rounds, seconds * (self.rounds - done)).__dict__)
