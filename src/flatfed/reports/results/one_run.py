"""One run as reports see it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from flatfed.runs.files import read_json
from flatfed.runs.history import Row
from flatfed.runs.metrics import Metric, metrics_of


@dataclass(frozen=True)
class OneRun:
    """A run's configuration, metrics and history."""

    path: Path
    config: dict[str, Any]
    summary: dict[str, Any]
    rows: list[Row]

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.config["settings"]["seed"])

    @cached_property
    def versions(self) -> dict[str, str]:
        """The versions of flatfed, torch and Python that it was made with."""
        path = self.path / "environment.json"
        if not path.is_file():
            return {}
        environment = read_json(path)
        packages = environment.get("packages", {})
        known = {
            "flatfed": packages.get("flatfed"),
            "torch": packages.get("torch"),
            "Python": environment.get("python"),
        }
        return {name: str(version) for name, version in known.items() if version}

    @cached_property
    def metrics(self) -> list[Metric]:
        """Every number of its test sets."""
        return metrics_of(self.rows, self.config)
