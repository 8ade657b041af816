"""A comparison as people follow it: the runs that train, one or several at a time, and the time left for all."""

from __future__ import annotations

import math
import time
from pathlib import Path

from flatfed.cli.output.progress import LINE_SECONDS, Live, Row, clock, measured, rounds_bar

SHOWN = 3
"""Runs whose names stand in the bar, at most."""


class ComparisonProgress(Live):
    """Follows the runs of a comparison; a `RunFollower` of `experiments.comparing`."""

    def __init__(self, rounds: int, runs: int) -> None:
        super().__init__()
        self.rounds, self.runs = rounds, runs
        self.order: list[Path] = []
        """The runs in the order in which they began."""
        self.done: dict[Path, int] = {}
        self.notes: dict[Path, str] = {}
        self.training: list[Path] = []
        self.played_here = 0
        self.begun_at = time.monotonic()
        # The first line comes at once.
        self.spoken = -math.inf

    def started(self, run: Path, done: int) -> None:
        """Note that a run begins, or goes on after some rounds."""
        self.order.append(run)
        self.training.append(run)
        self.done[run] = done
        self._show(run)

    def played(self, run: Path, row: Row) -> None:
        """Note a round of it."""
        self.played_here += 1
        self.done[run] = row["round"] + 1
        # Rounds that are not evaluated leave the last value in sight.
        self.notes[run] = measured(row) or self.notes.get(run, "")
        self._show(run)

    def ended(self, run: Path) -> None:
        """Note that a run has ended; it counts as whole, also where it diverged early."""
        if run in self.training:
            self.training.remove(run)
        self.done[run] = self.rounds

    def _show(self, run: Path) -> None:
        complete = sum(self.done.values())
        left = self._left(complete)
        if self._is_live:
            self._begin(rounds_bar, self.rounds * self.runs, left="", note="")
            self._bar.update(self._task, completed=complete, description=self._names(), note="", left=left)
        elif self._is_due(self.done[run]):
            self.spoken = time.monotonic()
            self.say(", ".join(filter(None, (self._place(run), self.notes.get(run, ""), left))))

    def _names(self) -> str:
        """Return what trains, and how it stands: `fedavg/seed-0 accuracy 81.3 %; fedsam/seed-0`."""
        shown = [f"{_name(run)} {self.notes.get(run, '')}".rstrip() for run in self.training[:SHOWN]]
        more = len(self.training) - SHOWN
        return "; ".join([*shown, f"{more} more"] if more > 0 else shown)

    def _is_due(self, round: int) -> bool:
        """Say whether a line comes: in a log one per round would be too many, but how each run ended must be there."""
        return time.monotonic() - self.spoken >= LINE_SECONDS or round == self.rounds

    def _place(self, run: Path) -> str:
        """Return where a run stands: `fedavg/seed-0 [1/4]: round 10/100`."""
        number = self.order.index(run) + 1
        return f"{_name(run)} [{number}/{self.runs}]: round {self.done[run]}/{self.rounds}"

    def _left(self, complete: int) -> str:
        """Return the time left, by the pace of the rounds played here: those of before took their time elsewhere."""
        if not self.played_here:
            return ""
        pace = (time.monotonic() - self.begun_at) / self.played_here
        return f"{clock(pace * (self.rounds * self.runs - complete))} left"


def _name(run: Path) -> str:
    """Return a run's name; the last part of its path is the seed alone."""
    return "/".join(run.parts[-2:])
