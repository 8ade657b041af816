"""Fixtures of the tests of landscapes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flatness.federations import (
    trained,
)
from flatness.landscapes import (
    METHODS,
    Counted,
    problem,
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of three methods, with and without BatchNorm, shared or the clients' own."""
    root = tmp_path_factory.mktemp("landscapes")
    for kind in ("plain", "norms", "own norms"):
        for number, method in enumerate(METHODS):
            scale = 1.0 if kind == "plain" else 1.0 + number  # so that statistics lie far apart
            trained(method, root / kind / method, problem(kind, scale), seed=number)
    return root


@pytest.fixture
def runs(home: Path, tmp_path: Path) -> Callable[..., list[Path]]:
    """Return copies of some of the runs."""

    def copies(kind: str, count: int, name: str = "runs") -> list[Path]:
        return [Path(shutil.copytree(home / kind / m, tmp_path / name / m)) for m in METHODS[:count]]

    return copies


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)
