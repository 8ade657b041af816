"""One run as reports see it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from flatfed.runs.history import Row
from flatfed.runs.metrics import Metric, metrics_of


@dataclass(frozen=True)
class OneRun:
    """A run's configuration, figures and history."""

    path: Path
    config: dict[str, Any]
    summary: dict[str, Any]
    rows: list[Row]

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.config["settings"]["seed"])

    @cached_property
    def metrics(self) -> list[Metric]:
        """Every number of its test sets."""
        return metrics_of(self.rows, self.config)
