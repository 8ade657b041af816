"""The runs of a study as reports see them: in each setting a result for each variant, under the variant's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from flatfed.core.errors import FlatfedError
from flatfed.reports.results.result import OneRun, Result
from flatfed.reports.results.results import read_run
from flatfed.studies.results import StudyTable

Say = Callable[[str], None]
StudyResults = Mapping[str, list[Result]]
"""By setting: the variants that have a run, in the order of the study."""


def nobody(text: str) -> None:
    """Hear nothing."""


def results_of(table: StudyTable, say: Say = nobody) -> StudyResults:
    """Read the runs that finished or diverged; one that cannot be read is left out, with a remark."""
    return {setting: _of_setting(table, setting, say) for setting in table.study.settings}


def _of_setting(table: StudyTable, setting: str, say: Say) -> list[Result]:
    results = []
    for variant in table.study.methods:
        paths = table.runs.get((setting, variant), {}).values()
        runs = [run for run in (_read(path, say) for path in paths) if run is not None]
        if runs:
            results.append(Result(variant, runs))
    return results


def _read(path: Path, say: Say) -> OneRun | None:
    try:
        return read_run(path)
    except FlatfedError as error:
        say(f"{path}: left out of the report: {error}")
        return None


def setting_name(setting: str) -> str:
    """Return the name of a setting for people; that of a study without settings is `all`."""
    return setting or "all"
