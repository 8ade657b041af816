"""The project that the tests share, and the process that starts their commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outside.project import EVERY_PART, QUICK, STUDY, Forks, succeed, write_project


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


@pytest.fixture(scope="session")
def studied(made: Path) -> Path:
    """The folder of a study of two methods, one of which is the project's."""
    (made / "first.yaml").write_text(STUDY)
    succeed("study", "run", "first.yaml", "--out", "studied", "--jobs", "1", cwd=made)
    return made / "studied"


@pytest.fixture(scope="session")
def compared(made: Path) -> Path:
    """A comparison of one of the project's methods with one of flatfed's."""
    methods = ("mine.parts:Louder", "fedavg")
    succeed("compare", "mine.parts:load", *methods, *QUICK, "--seeds", "0", "--workers", "0", "--out", "c", cwd=made)
    return made / "c"
