"""Which settings of a study stand for those of a claim.

A setting stands for one of the claims' by its name, because it was said so, or because it is divided among clients in
the same way. Rules that compare settings with each other need more: the same data, model, clients and epochs, as far as
the claim states them. What differs is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flatfed.core.errors import ConfigError, nearest
from flatfed.published.claims.claim import Claim, Setting
from flatfed.published.claims.claim_file import settings as known_settings
from flatfed.published.setting_names import CLASSES, DATASETS, PER_CLASS, TOTAL_BY_CLASS
from flatfed.studies.run_study import RunningStudy

ALL = "all"
"""What the only setting of a study without settings is called."""

PARAMETERS = {"dirichlet": "alpha", "dirichlet-per-class": "beta", "pam": "alpha", "pathological": "classes_per_client"}
"""Partitions that a number decides, with its name."""

FREE = ("any",)
"""Settings of claims on what is the same everywhere: every setting of a study is one."""

Described = Mapping[str, Any]


class StudySettings:
    """The settings of a study, and what they stand for.

    Args:
        running: the study in its folder.
        given: the study's setting for some of the claims': `{"cifar10-0": "one class"}`.
    """

    def __init__(self, running: RunningStudy, given: Mapping[str, str]) -> None:
        self.names = {name or ALL: name for name in running.study.settings}
        self.given = given
        self._described = {name: _described(running, own) for name, own in self.names.items()}
        for theirs, ours in given.items():
            _refuse_unknown(theirs, known_settings(), "setting of claims")
            _refuse_unknown(ours, self.names, "setting of the study")

    def named(self, claim: Claim) -> dict[str, str]:
        """Return what stands for each setting of a claim by itself, for rules that name settings."""
        found = {}
        for theirs in claim.every_setting:
            ours = self._meant(theirs) or self._same(known_settings()[theirs], claim.paper)
            if ours is not None:
                found[theirs] = ours
        return found

    def alike(self, claim: Claim) -> dict[str, str]:
        """Return where rules are judged that name no setting, by the name under which the numbers are looked up.

        What was said to stand for the claim's settings, and else each setting that is divided as one of them is.
        """
        meant = {theirs: self._meant(theirs) for theirs in claim.settings}
        found = {theirs: ours for theirs, ours in meant.items() if ours is not None}
        if found:
            return found
        return {ours: ours for ours in self.names if self._is_divided_as_one_of(ours, claim)}

    def remark(self, claim: Claim, ours: Iterable[str]) -> str:
        """Say in what the data of some settings differ from those of a claim; empty where they do not."""
        theirs = {data for name in claim.every_setting if (data := _dataset(known_settings()[name]))}
        # Nothing is known of a setting in which no run has begun.
        begun = [self._described[name] for name in ours if self._described[name]]
        other = sorted({str(described["task"].get("dataset")) for described in begun} - theirs)
        if not theirs or not other:
            return ""
        return f"judged on {', '.join(other)} instead of {', '.join(sorted(theirs))}"

    def _meant(self, theirs: str) -> str | None:
        if theirs in self.given:
            return self.given[theirs]
        return theirs if theirs in self.names else None

    def _is_divided_as_one_of(self, ours: str, claim: Claim) -> bool:
        described = self._described[ours]
        for name in claim.settings:
            if name in FREE or is_divided_as(described, known_settings()[name], claim.paper):
                return True
        return False

    def _same(self, setting: Setting, paper: str) -> str | None:
        """Return the only setting of the study that is one of the claims'; None for several, or none."""
        found = [name for name, described in self._described.items() if _is_same(described, setting, paper)]
        return found[0] if len(found) == 1 else None


def _described(running: RunningStudy, own: str) -> Described:
    """Return what is recorded of some run in a setting; nothing where none has begun."""
    for cell in running.cells():
        described = running.folder.begun_as(cell) if cell.setting == own else None
        if described is not None:
            return described
    return {}


def _is_same(described: Described, setting: Setting, paper: str) -> bool:
    """Say whether a setting of the study is one of the claims', in all that this states."""
    if not described or setting.extras or setting.target or setting.partition is None:
        return False
    return is_divided_as(described, setting, paper) and all(
        stated is None or stated == own for stated, own in _stated(described, setting)
    )


def _stated(described: Described, setting: Setting) -> Iterator[tuple[Any, Any]]:
    task, training = described["task"], described["settings"]
    yield _dataset(setting), task.get("dataset")
    yield setting.model, task.get("model")
    yield setting.clients_total, task.get("clients")
    yield setting.clients_per_round, described["sampler"].get("count")
    yield setting.rounds, training.get("rounds")
    yield setting.local_epochs, training.get("local_epochs")


def is_divided_as(described: Described, setting: Setting, paper: str) -> bool:
    """Say whether the examples are divided among clients by the same rule with the same number."""
    partition = described.get("task", {}).get("partition") or {}
    rule = setting.partition
    if rule == "dirichlet" and paper in PER_CLASS:
        rule = "dirichlet-per-class"
    if rule not in PARAMETERS or partition.get("id") != rule:
        return False
    try:
        number = float(setting.partition_value or "nan")
    except ValueError:  # a word: `severe`
        return False
    if rule == "dirichlet" and paper in TOTAL_BY_CLASS:
        # Printed for each class, and in total here.
        number *= CLASSES.get(setting.dataset or "", math.nan)
    return bool(partition.get(PARAMETERS[rule]) == number)


def _dataset(setting: Setting) -> str | None:
    """Return the data set by its id here."""
    if setting.dataset is None:
        return None
    return DATASETS.get(setting.dataset, (setting.dataset, {}))[0]


def _refuse_unknown(name: str, known: Iterable[str], kind: str) -> None:
    known = list(known)
    if name not in known:
        raise ConfigError(nearest(name, known, kind))
