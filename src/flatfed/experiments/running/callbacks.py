"""What is called while a run goes on: after a round, an evaluation and a checkpoint, and at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from flatfed.experiments.running.run import Run
from flatfed.runs.history import Row

OnRow = Callable[[Row], None]


@dataclass(frozen=True)
class Callbacks:
    """Functions that see a run and decide nothing of it; an error in one ends the run, which can be resumed.

    Args:
        on_round: called with each new history row.
        on_evaluation: called with each new row that has the metrics of a test.
        on_checkpoint: called with the number of rounds that a new checkpoint holds, and the run directory.
        on_end: called with the run when its directory says how it ended: also interrupted, stopped or diverged.
    """

    on_round: OnRow | None = None
    on_evaluation: OnRow | None = None
    on_checkpoint: Callable[[int, Path], None] | None = None
    on_end: Callable[[Run], None] | None = None

    @classmethod
    def of(cls, given: Callbacks | OnRow | None) -> Callbacks:
        """Return callbacks; a single function is called with each row."""
        return given if isinstance(given, Callbacks) else cls(on_round=given)

    def rows(self, rows: Iterable[Row], tests: Iterable[str]) -> None:
        """Tell of new rows; `tests` are the names of the test sets."""
        prefixes = tuple(f"{test}_" for test in tests)
        for row in rows:
            if self.on_round is not None:
                self.on_round(row)
            if self.on_evaluation is not None and any(name.startswith(prefixes) for name in row):
                self.on_evaluation(row)

    def checkpoint(self, round: int, path: Path) -> None:
        """Tell of a checkpoint."""
        if self.on_checkpoint is not None:
            self.on_checkpoint(round, path)

    def end(self, run: Run) -> None:
        """Tell of the end."""
        if self.on_end is not None:
            self.on_end(run)
