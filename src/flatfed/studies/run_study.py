"""Running a study: what has ended is skipped, the rest is worked on beside whoever else works on it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from flatfed.machine import usable_cores
from flatfed.named_code import USER, NamedBy
from flatfed.studies.cells import Cell, Resolver, choosing_cells, reported_cells
from flatfed.studies.checking.check_study import Checked, check_study
from flatfed.studies.entering import enter
from flatfed.studies.folder import StudyFolder
from flatfed.studies.results import StudyTable, table_of
from flatfed.studies.selection import Choice, choices
from flatfed.studies.study import Study
from flatfed.studies.workers.leases import PATIENCE, CellProgress, Lease, Leases
from flatfed.studies.workers.working import StudyWorker, Watcher
from flatfed.tracking.tracker import Tracker, chosen


class RunningStudy:
    """A study in its folder: its cells as far as they are known, and what has become of them."""

    def __init__(self, study: Study, path: Path, by: NamedBy = USER) -> None:
        self.study = study
        self.resolver = Resolver(study, by)
        self.folder = StudyFolder(path, self.resolver.rounds)
        self._choosing = choosing_cells(study)
        self._chosen: dict[tuple[str, str], Choice] = {}
        """What is chosen by now, and stays so."""
        self._known: list[Cell] = []

    def cells(self) -> list[Cell]:
        """Return the cells that are known by now; those that are reported follow when their parameters are chosen."""
        more = choices(self.study, self.folder, self._choosing, self._chosen)
        if more:
            self._chosen |= more
            points = {column: choice.point for column, choice in self._chosen.items()}
            self._known = self._choosing + reported_cells(self.study, points)
        return self._known or self._choosing

    @property
    def count(self) -> int:
        """How many cells there are in all, those included whose parameters are not chosen yet."""
        reported = len(list(self.study.columns())) * len(self.study.seeds)
        return len(self._choosing) + reported

    @property
    def trackers(self) -> tuple[Tracker, ...]:
        """Where its runs are sent."""
        return chosen(self.study.options.get("track"))

    def enter(self, command: str = "", file: str = "") -> list[str]:
        """Write what is studied into the folder, and the command and the file it comes from; return remarks."""
        return enter(self.study, self.folder, self.resolver, self.cells(), command, file)

    def retry(self) -> int:
        """Let cells that have failed be tried again, and return how many these are."""
        failed = [cell for cell in self.cells() if self.folder.standing(cell).state == "failed"]
        for cell in failed:
            self.folder.retry(cell)
        # With other results something else may be chosen.
        self._chosen.clear()
        self._known.clear()
        return len(failed)

    def table(self) -> StudyTable:
        """Return variants x settings, as far as they are."""
        return table_of(self.study, self.folder, self.cells(), self._chosen)

    def held(self) -> list[tuple[Cell, Lease]]:
        """Return the cells that somebody works on, with their leases."""
        by_key = {cell.key: cell for cell in self.cells()}
        leases = Leases(self.folder.leases).held()
        return [(by_key[lease.cell], lease) for lease in leases if lease.cell in by_key]

    def work(self, watcher: Watcher, jobs: int = 1, patience: float = PATIENCE) -> None:
        """Work on it until every cell has ended."""
        StudyWorker(self.resolver, self.folder, self.cells, watcher, jobs, patience).work()


class Unwatched:
    """Follows a study, and says nothing."""

    def began(self, cell: Cell) -> None:
        """Leave it."""

    def ended(self, cell: Cell) -> None:
        """Leave it."""

    def shows(self, running: Sequence[tuple[Cell, CellProgress]], ended: int) -> None:
        """Leave it."""


def checked_study(study: Study, jobs: int | None = None, trust: bool = False) -> Checked:
    """Return what a study would take, and what is wrong with it."""
    return check_study(Resolver(study, NamedBy(study.file, trust)), jobs or usable_cores())


def run_study(
    study: Study, folder: Path, jobs: int | None = None, retry_failed: bool = False, trust: bool = False
) -> StudyTable:
    """Train what is not finished yet of a study, write its report into the folder, and return the table."""
    # It needs this module.
    from flatfed.studies.finishing import finish_study

    running = RunningStudy(study, folder, NamedBy(study.file, trust))
    running.enter()
    if retry_failed:
        running.retry()
    running.work(Unwatched(), jobs or usable_cores())
    return finish_study(running, warnings.warn)
