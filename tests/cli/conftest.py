from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.command import COMPARED, SMALL, flatfed, without_pictures
from flatfed.cli.page.pages import comparison_page
from flatfed.reports.curves import draw_curves


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty directory, on a terminal that can be written to."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture(autouse=True, scope="module")
def _no_curves() -> Iterator[None]:
    """Leave the curves of reports empty and write no pages: drawing them takes most of the time of a small command.

    The runs of `run` and `comparison` below have theirs; `reports/` tests what is drawn.
    """

    def leave_empty(results: object, files: Sequence[Path], title: str) -> None:
        for file in files:
            file.touch()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flatfed.reports.write.draw_curves", leave_empty)
        patch.setattr("flatfed.cli.page.pages.comparison_page", lambda results, comparison, out: [])
        patch.setattr("flatfed.reports.figures.drawing.writing.DPI", 40)  # small pictures are drawn sooner
        yield


@pytest.fixture
def no_pictures() -> Iterator[None]:
    """Nobody looks at the pictures of this test."""
    with without_pictures():
        yield


@contextmanager
def with_curves() -> Iterator[None]:
    """Draw curves, whichever module is the first to ask for a shared run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flatfed.reports.write.draw_curves", draw_curves)
        patch.setattr("flatfed.cli.page.pages.comparison_page", comparison_page)
        yield


@pytest.fixture(scope="session")
def _run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "fedsam"
    with with_curves():
        outcome = flatfed("run", "digits", "fedsam", *SMALL, "--keep-checkpoints", "0", "--out", out)
    assert outcome.code == 0, outcome.err
    return out


@pytest.fixture(scope="session")
def _comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("comparison") / "three"
    with with_curves():
        outcome = flatfed(
            "compare", "digits", *COMPARED, "--seeds", "0,1,2", *SMALL, "--keep-checkpoints", "0", "--out", out
        )
    assert outcome.code == 0, outcome.err
    return out


@pytest.fixture
def run(_run: Path, tmp_path: Path) -> Path:
    """A finished run of fedsam over three rounds; a copy for each test."""
    return Path(shutil.copytree(_run, tmp_path / "run"))


@pytest.fixture
def comparison(_comparison: Path, tmp_path: Path) -> Path:
    """A finished comparison of three methods with three seeds; a copy for each test."""
    return Path(shutil.copytree(_comparison, tmp_path / "comparison"))
