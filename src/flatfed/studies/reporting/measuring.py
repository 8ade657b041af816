"""Measuring the final models of a study's runs: what is kept beside a run is not measured again.

Several processes may do so at once, each a run of its own: they take leases, as they do to train.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flatfed.core.errors import FlatfedError
from flatfed.experiments.measuring.laboratory import laboratory
from flatfed.experiments.measuring.progress import OnCount
from flatfed.experiments.measuring.saved_runs import kept_result, open_saved
from flatfed.flatness.measurement import Measurement
from flatfed.runs.directory import RunDirectory
from flatfed.studies.cells import Cell
from flatfed.studies.reporting.study_runs import Say
from flatfed.studies.run_study import RunningStudy
from flatfed.studies.workers.leases import PATIENCE, RENEWALS, CellProgress, Lease, Leases

LOOK_SECONDS = 0.5
"""How often is looked whether others are done with what is left."""


def measure_study(
    running: RunningStudy, on_step: OnCount, say: Say, workers: int = 0, patience: float = PATIENCE
) -> None:
    """Measure every reported run that finished, and return when all are measured, here or elsewhere.

    What cannot be measured is said, and the others go on.
    """
    measurements = running.study.report.measured()
    if not measurements:
        return
    finished = [cell for cell in running.cells() if _is_reported(running, cell)]
    leases = Leases(running.folder.leases, patience)
    work = _Work(running, measurements, leases, on_step, say, workers, len(finished))
    left = finished
    while left:
        held = [cell for cell in left if not work.take(cell)]
        if len(held) == len(left):
            # Others measure all that is left.
            time.sleep(LOOK_SECONDS)
        left = held


def unmeasured(running: RunningStudy) -> list[Cell]:
    """Return the reported runs that finished, and of which not all is measured yet."""
    measurements = running.study.report.measured()
    finished = [cell for cell in running.cells() if measurements and _is_reported(running, cell)]
    samples = running.study.report.flatness_samples
    return [cell for cell in finished if _missing(running.folder.run_of(cell), measurements, samples)]


def _missing(path: Path, measurements: Sequence[Measurement], samples: int | None) -> list[Measurement]:
    """Return what is not measured yet of a run."""
    directory = RunDirectory.open(path)
    return [measurement for measurement in measurements if kept_result(directory, measurement, samples) is None]


def _is_reported(running: RunningStudy, cell: Cell) -> bool:
    return not cell.chooses and running.folder.standing(cell).state == "finished"


@dataclass
class _Work:
    """What is measured, and how far it is."""

    running: RunningStudy
    measurements: Sequence[Measurement]
    leases: Leases
    on_step: OnCount
    say: Say
    workers: int
    total: int
    done: int = 0
    lease: Lease | None = None
    renewed: float = field(default_factory=time.monotonic)

    @property
    def samples(self) -> int | None:
        """Over how many training examples is measured; None is all."""
        return self.running.study.report.flatness_samples

    def take(self, cell: Cell) -> bool:
        """Measure a run; say whether that is done, and not left to somebody else who is about it."""
        path = self.running.folder.run_of(cell)
        try:
            if not self._missing(path):
                return self._is_done()
            self.lease = self.leases.claim(f"flatness-{cell.key}")
            if self.lease is None:
                return False
            try:
                # Again: it may have been measured between the look and the claim.
                self._measure(cell, path, self._missing(path))
            finally:
                self.leases.release(self.lease)
        except FlatfedError as error:
            self.say(f"{cell.name}: its flatness could not be measured: {error}")
        return self._is_done()

    def _is_done(self) -> bool:
        self.done += 1
        return True

    def _missing(self, path: Path) -> list[Measurement]:
        return _missing(path, self.measurements, self.samples)

    def _measure(self, cell: Cell, path: Path, missing: Sequence[Measurement]) -> None:
        if not missing:
            return
        resolver = self.running.resolver
        data_dir = resolver.comparison(cell).recipe.data_dir
        saved = open_saved(path, trust=resolver.by.is_believed)

        def step(name: str, done: int, total: int | None) -> None:
            self._show_life()
            self.on_step(f"{cell.name}: {name}", self.done, self.total)

        how: dict[str, Any] = {"samples": self.samples, "workers": self.workers}
        with laboratory(saved, data_dir=data_dir, on_step=step, say=self.say, **how) as lab:
            for measurement in missing:
                step(measurement.id, 0, None)
                try:
                    lab.measure(measurement)
                except FlatfedError as error:
                    # The other measurements may mean something here.
                    self.say(f"{cell.name}: {measurement.id}: {error}")

    def _show_life(self) -> None:
        """Renew the lease now and then."""
        if self.lease is None or time.monotonic() - self.renewed < self.leases.patience / RENEWALS:
            return
        # Where it was taken over nevertheless, both measure, and one result is kept.
        self.lease = self.leases.renew(self.lease, CellProgress()) or self.lease
        self.renewed = time.monotonic()
