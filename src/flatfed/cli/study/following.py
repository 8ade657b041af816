"""A study as people follow it: cells done, running, failed, and the time left; a bar, or a line now and then."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from flatfed.cli.output.progress import StepProgress, clock, is_line_due

if TYPE_CHECKING:
    from flatfed.studies.cells import Cell
    from flatfed.studies.folder import StudyFolder
    from flatfed.studies.workers.leases import CellProgress


class Followed(Protocol):
    """What is followed: a study, or the tuning of a method."""

    folder: StudyFolder

    @property
    def count(self) -> int:
        """How many cells there are to be."""


class StudyProgress(StepProgress):
    """Follows a study."""

    def __init__(self, running: Followed) -> None:
        super().__init__("cells")
        self.running = running
        self.begun = time.monotonic()
        self.done_here = 0
        self.started: set[Cell] = set()

    def began(self, cell: Cell) -> None:
        """Note that a cell has begun here."""
        self.started.add(cell)

    def ended(self, cell: Cell) -> None:
        """Tell how a cell ended, where it did not simply finish."""
        standing = self.running.folder.standing(cell)
        if cell in self.started:
            self.done_here += 1
        if standing.state != "finished":
            reason = f": {standing.reason}" if standing.reason else ""
            self.say(f"{cell.name}: {standing.state}{reason}")

    def shows(self, running: Sequence[tuple[Cell, CellProgress]], ended: int) -> None:
        """Show how far it is."""
        total = self.running.count
        names = [f"{cell.name} {progress.round}/{progress.rounds}" for cell, progress in running]
        text = "; ".join(names) or "waiting for others"
        if self._is_live:
            self.show(text, ended, total)
        elif is_line_due(self._spoken) and ended < total:
            self._spoken = time.monotonic()
            self.say(f"{ended} of {total} cells{self._left(total - ended)}: {text}")

    def _left(self, cells: int) -> str:
        if not self.done_here:
            return ""
        pace = (time.monotonic() - self.begun) / self.done_here
        return f", {clock(pace * cells)} left"
