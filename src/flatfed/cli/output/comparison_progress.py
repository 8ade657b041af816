"""A comparison as people follow it: the runs that train, one or several at a time, and the time left for all."""

from __future__ import annotations

import math
import time
from pathlib import Path

from flatfed.cli.output.progress import STARTING, Live, Row, clipped, clock, is_line_due, measured, rounds_bar

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
        self.shares: dict[Path, float] = {}
        """How much of the round that is being played is done, by its local steps."""
        self.notes: dict[Path, str] = {}
        self.training: list[Path] = []
        self.played_here = 0
        self.begun_at: float | None = None
        # The first line comes at once.
        self.spoken = -math.inf

    def started(self, run: Path, done: int) -> None:
        """Note that a run begins, or goes on after some rounds."""
        self.order.append(run)
        self.training.append(run)
        self.done[run] = done
        self.notes[run] = STARTING
        if self.begun_at is None:
            self.begun_at = time.monotonic()
        self._show(run)

    def stepped(self, run: Path, done: int, total: int) -> None:
        """Note how many of the local steps of the round that is played are done."""
        # A round of several exchanges has the steps of each: it is not further than it was.
        self.shares[run] = max(self.shares.get(run, 0.0), done / max(total, 1))
        if self.notes[run] == STARTING:
            self.notes[run] = ""
        self._show(run)

    def played(self, run: Path, row: Row) -> None:
        """Note a round of it."""
        self.played_here += 1
        self.done[run] = row["round"] + 1
        self.shares.pop(run, None)
        # Rounds that are not evaluated leave the last value in sight.
        self.notes[run] = measured(row) or self.notes[run].replace(STARTING, "")
        self._show(run)

    def ended(self, run: Path) -> None:
        """Note that a run has ended; it counts as whole, also where it diverged early."""
        if run in self.training:
            self.training.remove(run)
        self.shares.pop(run, None)
        self.done[run] = self.rounds

    def _show(self, run: Path) -> None:
        complete = sum(self.done.values()) + sum(self.shares.values())
        left = self._left(complete)
        if self._is_live:
            total = self.rounds * self.runs
            self._begin(rounds_bar, total, left="", note="")
            name = clipped(self._names(), len(f"{total}" * 2 + f"/ rounds  {left}"))
            # At once: it may be over before the bar is drawn again.
            is_new = self.notes.get(run) == STARTING
            self._bar.update(self._task, completed=complete, description=name, note="", left=left, refresh=is_new)
        elif self._is_due(self.done[run]):
            self.spoken = time.monotonic()
            note = self.notes.get(run, "").replace(STARTING, "")
            self.say(", ".join(filter(None, (self._place(run), note, left))))

    def _names(self) -> str:
        """Return what trains, and how it stands: `fedavg/seed-0 accuracy 81.3 %; fedsam/seed-0`."""
        shown = [f"{_name(run)} {self.notes.get(run, '')}".rstrip() for run in self.training[:SHOWN]]
        more = len(self.training) - SHOWN
        return "; ".join([*shown, f"{more} more"] if more > 0 else shown)

    def _is_due(self, round: int) -> bool:
        """Say whether a line comes: in a log one per round would be too many, but how each run ended must be there."""
        return is_line_due(self.spoken) or round == self.rounds

    def _place(self, run: Path) -> str:
        """Return where a run stands: `fedavg/seed-0 [1/4]: round 10/100`."""
        number = self.order.index(run) + 1
        return f"{_name(run)} [{number}/{self.runs}]: round {self.done[run]}/{self.rounds}"

    def _left(self, complete: float) -> str:
        """Return the time left, by the pace of the rounds played here: those of before took their time elsewhere.

        Rounds that are being played count by their share of steps: an estimate need not wait for their end.
        """
        played = self.played_here + sum(self.shares.values())
        if not played or self.begun_at is None:
            return ""
        pace = (time.monotonic() - self.begun_at) / played
        return f"{clock(pace * (self.rounds * self.runs - complete))} left"


def _name(run: Path) -> str:
    """Return a run's name; the last part of its path is the seed alone."""
    return "/".join(run.parts[-2:])
