"""Where a task's examples come from: what lets another machine take them from a copy of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from flatfed.core.task.examples import Examples


class Origin(Protocol):
    """A data set that any machine can read which has it. It can be sent: the examples stay behind."""

    def examples(self) -> Mapping[str, Examples]:
        """Return its sets of examples by name, the very ones that a task holds; they are read once."""
        ...

    def fingerprint(self) -> str:
        """Return a hash of the examples; it is taken when it is first asked for."""
        ...

    def within(self, data_dir: str) -> Origin:
        """Return the same data set as it lies in another directory, perhaps of another machine."""
        ...
