"""What a run directory has to send, as it grows: rows of the history, measurements, files, how it ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flatfed.core.errors import CheckpointError
from flatfed.runs.records.earlier_versions import row_of_today
from flatfed.runs.records.files import KEY, digest, is_held, open_to_read, read_json, read_whole
from flatfed.runs.results import FOLDER as MEASURED
from flatfed.tracking.subject import Point, TrackedRun, measured_points, point_of

MODEL = "model.safetensors"
"""The final model, under PyTorch's names."""
REPORTS = ("report.md", "report.html", "results.csv", "results.json")
FIGURES = ("*.png", "figures/*.png")


class Feed:
    """Reads a run directory while it is written; every row is given once."""

    def __init__(self, subject: TrackedRun) -> None:
        self._subject = subject
        self._offset, self._elapsed = 0, 0.0

    def points(self) -> Iterator[Point]:
        """Yield the rows that have come since the last time."""
        file = self._subject.path / "history.jsonl"
        if not file.is_file():
            return
        with open_to_read(file) as opened:
            opened.seek(self._offset)
            for line in opened:
                if not line.endswith(b"\n"):
                    return  # the rest of it is about to be written
                self._offset += len(line)
                row = row_of_today(_parsed(file, line))
                self._elapsed += float(row.get("seconds") or 0.0)
                yield point_of(row, self._subject.began, self._elapsed)

    def measured(self) -> Iterator[tuple[str, Point]]:
        """Yield what was measured of the final model, each with a digest."""
        file = self._subject.path / MEASURED / "results.json"
        if not file.is_file():
            return
        at = self._subject.began + int(self._elapsed * 1000)
        for name, point in measured_points(read_json(file)["results"], at):
            yield digest(name.encode()), point

    def files(self) -> Iterator[tuple[Path, str, str]]:
        """Yield the files to send: where each lies, its name, and a digest of its content."""
        for file in self._paths():
            if file.is_file() and not file.is_symlink():
                yield file, file.relative_to(self._subject.path).as_posix(), digest(read_whole(file))

    def _paths(self) -> Iterator[Path]:
        path = self._subject.path
        yield path / MODEL
        for name in REPORTS:
            yield path / name
        for pattern in FIGURES:
            yield from sorted(path.glob(pattern))

    def status(self, is_followed: bool) -> tuple[str, str]:
        """Return how the run ended, and why; one that says it runs, and has no process, was interrupted."""
        if self._subject.is_group:
            return "finished", ""
        file = self._subject.path / "status.json"
        record = read_json(file) if file.is_file() else {"status": "running"}
        if record["status"] == "running" and (is_followed or not is_held(self._subject.path)):
            return "interrupted", "its process was ended from outside"
        return str(record["status"]), str(record.get("reason", ""))


def _parsed(file: Path, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        raise CheckpointError(f"{file} has a damaged line; flatfed resume mends it") from None
    row.pop(KEY, None)
    return dict(row)
