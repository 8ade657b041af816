"""Everything that reads a run or a comparison, and what such a reader may do with a damaged one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.command import Outcome, flatfed
from flatfed.core.errors import FlatfedError
from flatfed.experiments.comparing.comparison import load_comparison, runs_in
from flatfed.experiments.running.resume import prepare
from flatfed.experiments.running.run import load_run
from flatfed.reports.results.results import collect
from flatfed.runs.directory import RunDirectory
from flatfed.runs.results import KeptResults, Points
from fuzz.trained import KEY, LANDSCAPE


def good_or_refused(read: Callable[[], Any]) -> bool:
    """Read something; say whether it was read. What is not a refusal with words is passed on."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read()
    except FlatfedError as error:
        assert str(error).strip()
        return False
    return True


def answered(*arguments: object) -> Outcome:
    """Run a command and check that it ended in one of the ways in which a command ends."""
    outcome = flatfed(*arguments)
    assert outcome.code in (0, 1, 2), outcome
    assert "Traceback" not in outcome.err, outcome.err
    assert "a defect of flatfed" not in outcome.err, outcome.err
    if outcome.code == 2:
        assert "Error: " in outcome.err or outcome.err.startswith("Usage: ")  # without a command: the help
    return outcome


def read_run(path: Path) -> None:
    """Read all that a run directory holds."""
    for read in (_records, _results, _points, _checkpoints, _collected, load_run, prepare):
        good_or_refused(lambda read=read: read(path))  # type: ignore[misc]


def _records(path: Path) -> None:
    directory = RunDirectory.open(path)
    directory.status()
    directory.summary()


def _results(path: Path) -> None:
    KeptResults(path).of_round([3])


def _points(path: Path) -> None:
    Points(path, LANDSCAPE, KEY)


def _checkpoints(path: Path) -> None:
    directory = RunDirectory.open(path)
    for check in (directory.check_config_mark, directory.check_history_mark):
        good_or_refused(lambda check=check: directory.checkpoints.load_newest(check=check))  # type: ignore[misc]


def _collected(path: Path) -> None:
    """Read a run as a report does."""
    for result in collect([path]):
        assert result.status
        assert [run.versions for run in result.runs]


def read_comparison(path: Path) -> None:
    """Read what a comparison's directory holds."""
    good_or_refused(lambda: load_comparison(path))
    good_or_refused(lambda: collect(runs_in(path)))
