"""The cells of a study: one variant in one setting with one seed, a run directory each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.core.configuration.settings import without_later
from flatfed.core.errors import ConfigError
from flatfed.experiments.comparing.comparison import Comparison
from flatfed.experiments.comparing.comparison_from_options import comparison_of
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.spelling.declared import TRAINING
from flatfed.experiments.spelling.options import RunOptions
from flatfed.named_code import USER, NamedBy
from flatfed.studies.study import DATASET, METHODS, ONLY, Options, Point, Study, spelled_point

CELLS, CHOOSING, TUNING = "cells", "choosing", "tuning"
"""The folders of the runs that are reported, of those that choose parameters, and of those that tune them."""


@dataclass(frozen=True)
class Cell:
    """One run of a study."""

    setting: str
    variant: str
    seed: int
    point: Point = ()
    chooses: bool = False
    """Whether it is there to choose parameters, and not reported."""
    trial: int | None = None
    """The number of the trial that it belongs to, where parameters are tuned."""

    @property
    def path(self) -> Path:
        """Its run directory, within the study's folder."""
        if self.trial is not None:
            return tuning_folder(self.setting, self.variant) / f"trial-{self.trial}" / f"seed-{self.seed}"
        # With the point also where it is reported: another choice is another run.
        parts = [CHOOSING if self.chooses else CELLS, self.setting, self.variant, spelled_point(self.point)]
        return Path(*filter(None, parts), f"seed-{self.seed}")

    @property
    def key(self) -> str:
        """A name that is a file's: short, and different for each cell."""
        text = str(self.path)
        return f"{self.variant[:30]}-{self.seed}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @property
    def name(self) -> str:
        """What people call it."""
        trial = "" if self.trial is None else f"trial {self.trial}"
        point = spelled_point(self.point) if self.chooses else ""
        return ", ".join(filter(None, [self.variant, self.setting, trial, point, f"seed {self.seed}"]))


def tuning_folder(setting: str, variant: str) -> Path:
    """Return where a method's parameters are tuned in a setting, within the study's folder."""
    return Path(*filter(None, [TUNING, variant, setting]))


class Resolver:
    """Makes what a cell trains from what the study says."""

    def __init__(self, study: Study, by: NamedBy = USER) -> None:
        self.study, self.by = study, by
        self._common = RunOptions.read(_of_runs(study.options))
        self._rounds: dict[tuple[str, str, Point, bool], int] = {}

    def comparison(self, cell: Cell) -> Comparison:
        """Return a cell as a comparison of one method with one seed."""
        options = self._options(cell)
        spelling = self.study.methods[cell.variant]
        return comparison_of(
            self.dataset(cell.setting), [spelling], [cell.seed], options, by=self.by, data_by=self.by, workers=0
        )

    def _options(self, cell: Cell) -> RunOptions:
        """Return the options of a cell's run; what comes later goes before.

        What is common, the setting's, the variant's own, those that it has in the setting, the point's, and what
        choosing needs.
        """
        study = self.study
        options = self._common.merged(_of_runs(study.settings[cell.setting]))
        options = self._for_variant(options, cell.variant)
        for by_method in (study.method_options, study.options_by_method(cell.setting)):
            options = _outranked(options, RunOptions.read(by_method.get(cell.variant, {}), firm=True))
        values = {name: value for name, value in cell.point if name in TRAINING}
        settings = {name: value for name, value in cell.point if name not in TRAINING}
        options = options.merged(values)
        options = _outranked(options, RunOptions(settings=settings, firm=frozenset(settings)))
        if cell.chooses:
            options = options.merged(self._of_choosing())
        return options

    def rounds(self, cell: Cell) -> int:
        """Return how many rounds a cell is to have; its seed does not matter."""
        key = (cell.setting, cell.variant, cell.point, cell.chooses)
        if key not in self._rounds:
            self._rounds[key] = int(self._options(cell)["rounds"])
        return self._rounds[key]

    def plan(self, cell: Cell) -> Plan:
        """Return what is played for a cell."""
        comparison = self.comparison(cell)
        return comparison.plan_of(comparison.methods[0])

    def dataset(self, setting: str) -> str:
        """Return the data set of a setting."""
        name = self.study.settings[setting].get(DATASET, self.study.options.get(DATASET))
        if not isinstance(name, str):
            raise ConfigError(f"no data set is named for {setting or 'the study'}; add dataset: digits, say")
        return name

    def _of_choosing(self) -> RunOptions:
        """Return what differs in runs that choose parameters."""
        select = self.study.select
        values: dict[str, Any] = {}
        if select.rounds is not None:
            values["rounds"] = select.rounds
        if select.by == "validation":
            values["validation"] = select.share
        return RunOptions(values)

    def _for_variant(self, options: RunOptions, variant: str) -> RunOptions:
        """Return the options with what is set for a variant by its name, `no ADMM:beta`, without what is for others."""
        settings: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for name, value in options.settings.items():
            whose, _, bare = name.rpartition(":")
            if whose == variant:
                own[bare] = value
            elif whose not in self.study.methods or whose == self.study.methods[whose]:
                # For all, or for a method by its spelling.
                settings[name] = value
        # What is set for a variant by its name is meant for it, and is an error where its method has no such parameter.
        shared = RunOptions(options.values, settings, options.firm & settings.keys())
        return _outranked(shared, RunOptions(settings=own, firm=frozenset(own)))


def description(comparison: Comparison) -> dict[str, Any]:
    """Return what decides the results of a cell; two that agree in it have the same bits."""
    record = comparison.to_dict()
    del record["about"]
    # Where the data lie decides nothing.
    record["task"] = {name: value for name, value in record["task"].items() if name != "data_dir"}
    # Neither does where replies wait; records of earlier versions do not have it, nor settings that came later.
    settings = without_later(record["settings"])
    record["settings"] = {name: value for name, value in settings.items() if name != "cohort_memory"}
    record["methods"] = [{name: entry[name] for name in ("algorithm", "average")} for entry in record["methods"]]
    plain: dict[str, Any] = json.loads(json.dumps(record))
    return plain


def differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> dict[str, tuple[Any, Any]]:
    """Return in which entries two descriptions differ, by the way to them: `settings.rounds`."""
    found: dict[str, tuple[Any, Any]] = {}
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found |= differences(old, new, f"{prefix}{name}.")
        elif old != new:
            found[f"{prefix}{name}"] = (old, new)
    return found


def reported_cells(study: Study, chosen: Mapping[tuple[str, str], Point]) -> list[Cell]:
    """Return the cells that are reported, as far as their parameters are chosen: all with one seed, then the next."""
    cells = []
    for seed in study.seeds:
        for setting, variant in study.columns():
            point = chosen.get((setting, variant))
            if point is not None:
                cells.append(Cell(setting, variant, seed, point))
    return cells


def choosing_cells(study: Study) -> list[Cell]:
    """Return the cells that choose parameters."""
    cells = []
    for setting, variant in study.columns():
        if study.is_searched(variant):
            points = study.points(variant)
            cells += [Cell(setting, variant, seed, point, True) for point in points for seed in study.select.seeds]
    return cells


def _outranked(options: RunOptions, own: RunOptions) -> RunOptions:
    """Return options with those of one method alone: a parameter that these set is set in no other way.

    Otherwise `fedsam:rho`, which names the method more closely than `rho` does, would go before it.
    """
    kept = {name: value for name, value in options.settings.items() if name.rpartition(":")[2] not in own.settings}
    return RunOptions(options.values, kept, options.firm & kept.keys()).merged(own)


def _of_runs(options: Options) -> dict[str, Any]:
    """Return the options that every run takes: not the data, nor which methods there are and what single ones have."""
    return {name: value for name, value in options.items() if name not in (DATASET, METHODS, ONLY)}
