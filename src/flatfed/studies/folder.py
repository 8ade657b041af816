"""A study's folder: its record, its cells and how each stands, leases, failures, and the parameters that were chosen.

::

    study.json       what is studied
    begun/           what decides the results of each cell that has begun
    cells/           the run directories that are reported: SETTING/VARIANT/seed-0
    choosing/        those that choose parameters: SETTING/VARIANT/rho=0.05/seed-1000
    tuning/          those that tune them: VARIANT/SETTING/trial-0/seed-1000
    leases/          who works on which cell
    failures/        why cells have failed, and how often they took their process down
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from flatfed.core.errors import FlatfedError
from flatfed.runs.directory import is_run
from flatfed.runs.records.files import FORMAT, read_json, replace_file, write_json
from flatfed.studies.cells import Cell

FILE = "study.json"
State = Literal["waiting", "begun", "finished", "diverged", "stopped", "failed", "pruned"]
ENDED: tuple[State, ...] = ("finished", "diverged", "stopped", "failed", "pruned")
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

    def __init__(self, path: Path, rounds: Callable[[Cell], int] | None = None) -> None:
        self.path = path
        self._rounds = rounds
        """How many rounds a cell is to have."""
        self._retried: set[Cell] = set()
        """Cells that are tried again: that they have failed does not count."""
        self._ended: dict[Cell, Standing] = {}
        """What has ended stays so, and is not looked at again."""

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

    def retry(self, cell: Cell) -> None:
        """Let a cell that has failed be tried again."""
        self._ended.pop(cell, None)
        self._retried.add(cell)
        self._failure(cell).unlink(missing_ok=True)
        self._deaths(cell).unlink(missing_ok=True)

    def note_end(self, cell: Cell) -> None:
        """Note that a cell was tried: how it ended counts."""
        self._retried.discard(cell)

    def _look(self, cell: Cell) -> Standing:
        failure = self._failure(cell)
        if failure.exists():
            return Standing("failed", str(read_json(failure).get("reason", "")))
        run = self.run_of(cell)
        if not is_run(run):
            return Standing("waiting")
        if cell.trial is not None and self._pruned(cell).exists():
            return Standing("pruned", str(read_json(self._pruned(cell)).get("reason", "")))
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
        state = status["status"]
        if state not in ENDED or (state == "failed" and cell in self._retried):
            return Standing("begun")
        if state == "finished" and self._rounds is not None:
            planned = read_json(run / "config.json")["settings"]["rounds"]
            if planned < self._rounds(cell):
                return Standing("begun")
        return Standing(state, status.get("reason", ""))

    def fail(self, cell: Cell, reason: str, trace: str = "") -> None:
        """Note that a cell cannot be trained: a result like others."""
        file = self._failure(cell)
        file.parent.mkdir(exist_ok=True)
        write_json(file, {"format": FORMAT, "cell": cell.name, "reason": reason, "trace": trace})

    def prune(self, cell: Cell, reason: str) -> None:
        """Note that a run of a trial was ended early, as it promised less than others."""
        write_json(self._pruned(cell), {"format": FORMAT, "reason": reason})

    def _pruned(self, cell: Cell) -> Path:
        return self.run_of(cell).with_suffix(".pruned.json")

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

    # What has begun.

    def begun_as(self, cell: Cell) -> dict[str, Any] | None:
        """Return what decides the results of a cell that has begun; None where it has not."""
        file = self._begun(cell)
        if not file.exists():
            return None
        found: dict[str, Any] = read_json(file)["description"]
        return found

    def note_begun(self, cell: Cell, description: dict[str, Any]) -> None:
        """Note that a cell begins, by whoever has its lease."""
        file = self._begun(cell)
        file.parent.mkdir(exist_ok=True)
        write_json(file, {"format": FORMAT, "path": str(cell.path), "description": description})

    def begun_paths(self) -> list[str]:
        """Return the run directories, within the folder, of all cells that have ever begun and are still there."""
        records = [read_json(file) for file in sorted((self.path / "begun").glob("[!.]*.json"))]
        return [record["path"] for record in records if is_run(self.path / record["path"])]

    def _begun(self, cell: Cell) -> Path:
        return self.path / "begun" / f"{cell.key}.json"

    # The record.

    def record(self) -> dict[str, Any]:
        """Return what the folder says of its study; empty where there is none yet."""
        file = self.path / FILE
        return read_json(file) if file.exists() else {}

    def write_record(self, record: dict[str, Any]) -> None:
        """Write it."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / FILE, {"format": FORMAT, **record})
