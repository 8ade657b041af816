"""Trackers that tests need: one that hangs, one that is at fault until a file is there, one that writes lines."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from flatfed.tracking.subject import Point, TrackedRun
from flatfed.tracking.tracker import Remote, Tracker


class Lines(Tracker, id="lines"):
    """Writes a line for each call; with a file `broken` there all calls fail, with `hangs` none ends.

    With `leaves` it starts a process, and leaves it."""

    folder: str
    hangs: bool = False
    leaves: bool = False

    def begin(self, subject: TrackedRun, remote: str | None) -> Remote:
        if self.leaves:
            left = subprocess.Popen(["sleep", "1000"])
            Path(self.folder, "left").write_text(str(left.pid))
        while self.hangs:
            time.sleep(60)
        return LinesRun(Path(self.folder), remote or subject.name)


class LinesRun:
    def __init__(self, folder: Path, id: str) -> None:
        self.id, self._folder = id, folder
        self._write("begin", id)

    def reached(self) -> int:
        return 0

    def points(self, points: Sequence[Point]) -> None:
        self._write("points", [point.step for point in points])

    def measurement(self, point: Point) -> None:
        self._write("measurement", dict(point.values))

    def file(self, path: Path, name: str) -> None:
        self._write("file", name)

    def end(self, status: str, reason: str) -> None:
        self._write("end", status)

    def close(self) -> None: ...

    def _write(self, call: str, value: object) -> None:
        if (self._folder / "broken").exists():
            raise ConnectionError("https://me:secret@host does not answer")
        with (self._folder / "lines.jsonl").open("a") as file:
            file.write(json.dumps([call, value]) + "\n")
