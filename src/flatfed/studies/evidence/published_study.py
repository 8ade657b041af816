"""The studies of a repository: file, what is said of it, and the compact results as far as they are there.

::

    studies/NAME/study.yaml    what is trained
    studies/NAME/about.yaml    what people say of it
    studies/NAME/results/      what `flatfed study pack` wrote
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.core.errors import ConfigError, nearest
from flatfed.reports.results.result import Result
from flatfed.runs.directory import RunDirectory
from flatfed.studies.claimed.run_numbers import StudyValues
from flatfed.studies.entering import recorded_study
from flatfed.studies.evidence.about import FILE as ABOUT
from flatfed.studies.evidence.about import StudyWords, read_about
from flatfed.studies.folder import StudyFolder
from flatfed.studies.packing.packed_lines import LinesOfSeed, read_lines
from flatfed.studies.packing.unpack import unpack_study
from flatfed.studies.reading import read_study
from flatfed.studies.reporting.study_flatness import FlatnessBlock, flatness_blocks
from flatfed.studies.reporting.study_runs import StudyResults
from flatfed.studies.reporting.study_statistics import StudyStatistics, statistics_of
from flatfed.studies.reporting.study_targets import TargetLine, target_lines
from flatfed.studies.results import StudyTable
from flatfed.studies.run_study import RunningStudy
from flatfed.studies.study import Study

RESULTS = "results"


@dataclass(frozen=True)
class PublishedStudy:
    """One study.

    Attributes:
        name: of its folder.
        about: what people say of it.
        study: what is trained, as the results have it, or the file where there are none.
        running: its results; an empty folder where there are none.
        lines: the loss between its models, where a figure of it shows that.
    """

    name: str
    about: StudyWords
    study: Study
    running: RunningStudy
    lines: Sequence[LinesOfSeed] = ()

    @functools.cached_property
    def table(self) -> StudyTable:
        """Methods x settings, as far as they are."""
        return self.running.table()

    @functools.cached_property
    def statistics(self) -> StudyStatistics:
        """Each method against the reference."""
        return statistics_of(self.table)

    @functools.cached_property
    def targets(self) -> list[TargetLine]:
        """What it took to reach the targets."""
        return target_lines(self.table, StudyResults(self.table))

    @functools.cached_property
    def flatness(self) -> list[FlatnessBlock]:
        """What was measured of the final models."""
        return flatness_blocks(self.table)

    @functools.cached_property
    def numbers(self) -> StudyValues:
        """What was counted and measured of its runs, metric by metric."""
        return StudyValues(self.running)

    def described(self, setting: str) -> dict[str, Any]:
        """Return what a run of a setting recorded of data and clients; nothing where none has ended."""
        for (of, _), runs in self.table.runs.items():
            if of == setting:
                described: dict[str, Any] = RunDirectory.open(next(iter(runs.values()))).config.get("setting") or {}
                return described
        return {}

    def results_in(self, setting: str) -> Sequence[Result]:
        """Return the runs of a setting that ended, method by method."""
        return StudyResults(self.table)[setting]

    @functools.cached_property
    def ended(self) -> tuple[int, int]:
        """How many of the runs that are reported have ended, and how many are to be."""
        cells = [cell for cell in self.running.cells() if not cell.chooses]
        ended = sum(self.running.folder.standing(cell).has_ended for cell in cells)
        return ended, len(list(self.study.columns())) * len(self.study.seeds)

    @functools.cached_property
    def chosen(self) -> tuple[int, int]:
        """How many of the runs that choose parameters have ended, and how many are to be."""
        cells = [cell for cell in self.running.cells() if cell.chooses]
        return sum(self.running.folder.standing(cell).has_ended for cell in cells), len(cells)


def open_studies(root: Path, workplace: Path) -> list[PublishedStudy]:
    """Return the studies below a folder; their results are unpacked into the workplace."""
    return [_open(file.parent, workplace) for file in sorted(root.glob(f"*/{ABOUT}"))]


def _open(folder: Path, workplace: Path) -> PublishedStudy:
    about = read_about(folder / ABOUT)
    study = read_study(folder / "study.yaml")
    place = workplace / folder.name
    if (folder / RESULTS).is_dir():
        unpack_study(folder / RESULTS, place)
        study = recorded_study(StudyFolder(place))
    _check(about, study, folder / ABOUT)
    return PublishedStudy(folder.name, about, study, RunningStudy(study, place), read_lines(folder / RESULTS))


def _check(about: StudyWords, study: Study, file: Path) -> None:
    """Refuse words about what the study does not have."""
    for ours in about.stands_for.values():
        if ours not in study.settings:
            raise ConfigError(f"{file}: {nearest(ours, list(study.settings), 'setting of the study')}")
    for pair in about.pairs:
        for variant in (pair.paper, pair.code):
            if variant not in study.methods:
                raise ConfigError(f"{file}: {nearest(variant, list(study.methods), 'method of the study')}")
    for one in about.finds:
        for variant in (one.of, one.against):
            if variant not in study.methods:
                raise ConfigError(f"{file}: {nearest(variant, list(study.methods), 'method of the study')}")
