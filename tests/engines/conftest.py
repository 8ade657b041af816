"""Fixtures of the tests of engines."""

from __future__ import annotations

from typing import Any

import pytest

from flatfed.core.round.vectorised import VectorisedClients


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
