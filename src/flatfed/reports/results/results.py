"""Results from run directories: runs are read, and those that are seeds of one thing put together."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flatfed.flatness.measurements.curvature import LambdaRatio
from flatfed.flatness.measurements.rises import LowPass
from flatfed.reports.results.duplicates import once_each
from flatfed.reports.results.identity import identity
from flatfed.reports.results.labels import RunsOfMethod, labelled
from flatfed.reports.results.one_run import OneRun
from flatfed.reports.results.result import Result
from flatfed.runs.directory import RunDirectory
from flatfed.runs.results import KeptResults


def _written(measurement: Any) -> str:
    """Return a measurement's configuration as text, which can be looked up."""
    return json.dumps(measurement, sort_keys=True)


COMPARED = {
    _written(LambdaRatio().to_dict()): ("lambda_max", "lambda_ratio"),
    _written(LowPass().to_dict()): ("lpf",),
}
"""Which numbers come from which measurement: other ways of measuring do not stand beside these."""


def _ignore(text: str) -> None:
    """Say nothing."""


def collect(runs: Sequence[Path | RunDirectory], say: Callable[[str], None] = _ignore) -> list[Result]:
    """Read runs and group them by method, data set and options, in the order in which these first appear.

    A run that only repeats another one counts once; `say` is called with a word on it.
    """
    groups = _grouped([_read(run) for run in runs])
    for group in groups:
        group.runs = once_each(group.runs, say)
    return labelled(groups)


def _read(run: Path | RunDirectory) -> OneRun:
    directory = RunDirectory.open(run) if isinstance(run, Path) else run
    summary = directory.summary() | _flatness(directory)
    return OneRun(directory.path, directory.config, summary, directory.rows)


def _grouped(runs: Sequence[OneRun]) -> list[RunsOfMethod]:
    groups: list[RunsOfMethod] = []
    for run in runs:
        method, setting = run.config["method"], identity(run.config)
        # Not by a dictionary of settings: what is unknown in one agrees with anything, so groups are searched.
        group = _matching(groups, method, setting)
        if group is None:
            groups.append(RunsOfMethod(method, setting, [run]))
        else:
            group.add(run, setting)
    return groups


def _matching(groups: Sequence[RunsOfMethod], method: str, setting: dict[str, Any]) -> RunsOfMethod | None:
    """Return the first group that a run belongs to."""
    for group in groups:
        if group.is_of(method, setting):
            return group
    return None


def _flatness(directory: RunDirectory) -> dict[str, Any]:
    """Return what was measured of a run's model as it is now, in the one way in which tables compare it."""
    # A run that was trained on has measurements of earlier models too; those are not shown.
    latest = directory.checkpoints.rounds()[:1]
    numbers: dict[str, Any] = {}
    for key, result in KeptResults(directory.path).of_round(latest):
        names = _compared_numbers(key)
        if names:
            numbers |= {name: result["numbers"].get(name) for name in names}
            numbers["flatness_over"] = _sample_text(key["sample"].get("most"))
    return numbers


def _compared_numbers(key: dict[str, Any]) -> tuple[str, ...]:
    """Return the numbers of a measurement that tables show; none where it was taken in another way than usual."""
    if not _is_comparable(key):
        return ()
    return COMPARED.get(_written(key.get("measurement")), ())


def _is_comparable(key: dict[str, Any]) -> bool:
    """Say whether the evaluated model was measured, over training examples of the usual seed."""
    sample = key.get("sample", {})
    return key.get("weights") == "evaluated" and sample.get("of") == "train" and sample.get("seed") == 0


def _sample_text(most: int | None) -> str:
    if most is None:
        return "all training examples"
    return f"at most {most:,} training examples"
