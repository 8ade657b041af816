"""Where a command writes when nothing is said."""

from __future__ import annotations

from pathlib import Path

from flatfed.core.errors import ConfigError

RUNS = Path("runs")
MANY = 1_000_000


def free_directory(name: str) -> Path:
    """Return a directory in `runs/` that is not there yet."""
    # The colon of an import path has a meaning of its own in some places where paths are written.
    plain = name.replace(":", ".")
    for number in range(1, MANY):
        path = RUNS / f"{plain}-{number:03d}"
        if not path.exists():
            return path
    raise ConfigError("runs/ is full; give --out")
