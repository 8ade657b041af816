"""The runs of a study as reports see them: in each setting a result for each variant, under the variant's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from flatfed.core.errors import FlatfedError
from flatfed.reports.results.result import OneRun, Result
from flatfed.reports.results.results import read_run
from flatfed.studies.results import StudyTable

Say = Callable[[str], None]


def nobody(text: str) -> None:
    """Hear nothing."""


class StudyResults(Mapping[str, list[Result]]):
    """By setting: the variants that have a run that finished or diverged, in the order of the study.

    A setting is read when it is asked for, and not kept: the histories of all may be larger than the memory. A run that
    cannot be read is left out, with a remark.
    """

    def __init__(self, table: StudyTable, say: Say = nobody) -> None:
        self.table, self.say = table, say
        self._left_out: set[Path] = set()
        """What was said."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.table.study.settings)

    def __len__(self) -> int:
        return len(self.table.study.settings)

    def __getitem__(self, setting: str) -> list[Result]:
        results = []
        for variant in self.table.study.methods:
            paths = self.table.runs.get((setting, variant), {}).values()
            runs = [run for run in map(self._read, paths) if run is not None]
            if runs:
                results.append(Result(variant, runs))
        return results

    def _read(self, path: Path) -> OneRun | None:
        try:
            return read_run(path)
        except FlatfedError as error:
            if path not in self._left_out:
                self._left_out.add(path)
                self.say(f"{path}: left out of the report: {error}")
            return None


def setting_name(setting: str) -> str:
    """Return the name of a setting for people; that of a study without settings is `all`."""
    return setting or "all"
