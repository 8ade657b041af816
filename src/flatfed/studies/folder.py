"""A study's folder: its record, its cells and how each stands, leases, failures, and the parameters that were chosen.

::

    study.json       what is studied, and what decides the results of each cell that has begun
    cells/           the run directories that are reported: SETTING/VARIANT/seed-0
    choosing/        those that choose parameters: SETTING/VARIANT/rho=0.05/seed-1000
    leases/          who works on which cell
    failures/        why cells have no run directory, or cannot go on
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from flatfed.core.errors import FlatfedError
from flatfed.runs.directory import is_run
from flatfed.runs.records.files import FORMAT, read_json, replace_file, write_json
from flatfed.studies.cells import Cell

FILE = "study.json"
State = Literal["waiting", "begun", "finished", "diverged", "stopped", "failed"]
ENDED: tuple[State, ...] = ("finished", "diverged", "stopped", "failed")
"""How a cell stands of which nothing is left to train: all of these are results."""


@dataclass(frozen=True)
class Standing:
    """How a cell stands."""

    state: State
    reason: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether nothing is left to train."""
        return self.state in ENDED


class StudyFolder:
    """The folder of a study on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ended: dict[Cell, Standing] = {}
        """What has ended stays so, and is not looked at again."""
        self.rounds: dict[Cell, int] = {}
        """How many rounds cells are to have."""

    @property
    def leases(self) -> Path:
        """Where leases lie."""
        return self.path / "leases"

    def run_of(self, cell: Cell) -> Path:
        """Return a cell's run directory."""
        return self.path / cell.path

    def standing(self, cell: Cell) -> Standing:
        """Say how a cell stands."""
        known = self._ended.get(cell)
        if known is not None:
            return known
        standing = self._look(cell)
        if standing.has_ended:
            self._ended[cell] = standing
        return standing

    def forget(self, cell: Cell) -> None:
        """Look at a cell again, which is to go on."""
        self._ended.pop(cell, None)
        self._failure(cell).unlink(missing_ok=True)

    def _look(self, cell: Cell) -> Standing:
        failure = self._failure(cell)
        if failure.exists():
            return Standing("failed", str(read_json(failure).get("reason", "")))
        run = self.run_of(cell)
        if not is_run(run):
            return Standing("waiting")
        try:
            return self._status(cell, run)
        except FlatfedError as error:
            return Standing("failed", str(error))

    def _status(self, cell: Cell, run: Path) -> Standing:
        """Say how a run stands; one that is to have more rounds than it was planned with is to go on."""
        file = run / "status.json"
        if not file.exists():
            return Standing("begun")
        status = read_json(file)
        if status["status"] not in ENDED:
            return Standing("begun")
        wanted = self.rounds.get(cell)
        if status["status"] == "finished" and wanted is not None:
            planned = read_json(run / "config.json")["settings"]["rounds"]
            if planned < wanted:
                return Standing("begun")
        return Standing(status["status"], status.get("reason", ""))

    def fail(self, cell: Cell, reason: str) -> None:
        """Note that a cell cannot be trained: a result like others."""
        file = self._failure(cell)
        file.parent.mkdir(exist_ok=True)
        write_json(file, {"format": FORMAT, "cell": cell.name, "reason": reason})

    def _failure(self, cell: Cell) -> Path:
        return self.path / "failures" / f"{cell.key}.json"

    def deaths(self, cell: Cell) -> int:
        """Return how often a cell has taken its process down."""
        try:
            return int(self._deaths(cell).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return 0

    def note_death(self, cell: Cell) -> int:
        """Note that a cell has taken its process down, and return how often it has."""
        count = self.deaths(cell) + 1
        self._deaths(cell).parent.mkdir(exist_ok=True)
        replace_file(self._deaths(cell), str(count).encode())
        return count

    def _deaths(self, cell: Cell) -> Path:
        return self.path / "failures" / f"{cell.key}.deaths"

    # The record.

    def record(self) -> dict[str, Any]:
        """Return what the folder says of its study; empty where there is none yet."""
        file = self.path / FILE
        return read_json(file) if file.exists() else {}

    def write_record(self, record: dict[str, Any]) -> None:
        """Write it."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / FILE, {"format": FORMAT, **record})
