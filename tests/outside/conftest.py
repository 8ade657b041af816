"""The project that the tests share, and the process that starts their commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outside.project import EVERY_PART, Forks, succeed, write_project


@pytest.fixture(scope="session", autouse=True)
def _forks() -> Iterator[None]:
    yield
    Forks.end()


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, _forks: None) -> Path:
    """A project with a run of two rounds in `runs/r`, every part of which is the project's."""
    project = write_project(tmp_path_factory.mktemp("made"))
    succeed(*EVERY_PART, "--out", "runs/r", cwd=project)
    return project
