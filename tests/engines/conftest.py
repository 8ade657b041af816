"""Fixtures of the tests of engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from engines.table import ray_of_this_process
from flatfed.core.round.vectorised import VectorisedClients


@pytest.fixture(scope="session", autouse=True)
def ray_left() -> Iterator[None]:
    """Leave the Ray of this process, where a test has started one."""
    yield
    if ray_of_this_process.cache_info().currsize:
        ray_of_this_process().leave()


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the groups that have gone in lockstep in this process."""
    seen: list[int] = []
    original = VectorisedClients.run

    def watched(self: VectorisedClients, works: Any) -> Any:
        seen.append(len(works))
        return original(self, works)

    monkeypatch.setattr(VectorisedClients, "run", watched)
    return seen
