"""A run with all the files that a run may have, and ways to damage them one at a time."""

from __future__ import annotations

import shutil
from pathlib import Path

from cli.command import flatfed
from flatfed.runs.results import Points
from runs.bench import small_run

LANDSCAPE, KEY = "line", {"format": 1, "part": "line", "models": [{"run": "a", "round": 3}]}
PLACES = [(0.0,), (0.5,), (1.0,)]


def measured_run(path: Path) -> Path:
    """Train three rounds with state on server and clients, measure the model, and keep points of a landscape."""
    small_run(path, rounds=3, watch="lambda_max:1")
    assert flatfed("flatness", path, "--measure", "loss,lambda_max").code == 0
    points = Points(path, LANDSCAPE, KEY)
    for number, place in enumerate(PLACES):
        points.add(place, {"loss": 1.1 + number / 7, "accuracy": 0.25})
    return path


class Copy:
    """A copy of a directory in which one file at a time is another."""

    def __init__(self, source: Path, path: Path) -> None:
        self.source, self.path = source, path
        self._changed: set[Path] = set()
        shutil.copytree(source, path)

    def files(self, pattern: str) -> list[str]:
        """Return the files of the source that fit a pattern, in order."""
        return sorted(str(file.relative_to(self.source)) for file in self.source.glob(pattern))

    def whole(self, name: str) -> bytes:
        """Return a file as it should be."""
        return (self.source / name).read_bytes()

    def put(self, name: str, data: bytes) -> None:
        """Let one file hold other bytes, and all others what they should."""
        self.mend()
        self._changed.add(Path(name))
        (self.path / name).write_bytes(data)

    def mend(self) -> None:
        """Put back what was changed."""
        for name in self._changed:
            shutil.copyfile(self.source / name, self.path / name)
        self._changed.clear()
