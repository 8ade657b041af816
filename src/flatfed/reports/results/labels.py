"""Labels of results side by side: the method and, where several are equal, the options in which they differ."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from flatfed.reports.results.identity import INTERNAL, SIZE, UNKNOWN, agree
from flatfed.reports.results.result import OneRun, Result

INLINE = 40
"""At most this number of characters of differing options stand in a label; more are listed below a table."""
NAMES = ("task.dataset", "task.name")
OPTIONS = {"sampler.count": "per_round", "sampler.p": "bernoulli"}
HIDDEN = {INTERNAL, "task.kind"}
VAGUE = ("id", "path", "name", "kind")
OF_METHOD = ("algorithm.", "average.")
"""Options of the method itself: only results of one method are distinguished by them."""


@dataclass(eq=False)
class RunsOfMethod:
    """The runs of one method with one setting."""

    method: str
    setting: dict[str, Any]
    runs: list[OneRun]

    def is_of(self, method: str, setting: dict[str, Any]) -> bool:
        """Say whether a run of this method and setting is a seed of these."""
        return self.method == method and agree(self.setting, setting)

    def add(self, run: OneRun, setting: dict[str, Any]) -> None:
        """Take up another seed; what was not known of the setting may be known of it."""
        self.runs.append(run)
        self.setting |= {name: value for name, value in setting.items() if value != UNKNOWN}

    def has(self, name: str) -> bool:
        """Say whether an option means something here: tasks from Python and of the catalogue have different ones."""
        return name in self.setting or not self._is_foreign(name)

    def _is_foreign(self, name: str) -> bool:
        if self.setting.get("task.kind") == "catalogue":
            return name == SIZE
        return name.startswith("task.")

    @property
    def data(self) -> str:
        """What was trained on."""
        return str(self.setting.get("task.dataset") or self.setting.get("task.name") or "other data")

    def options(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the values of those options that mean something here."""
        return {name: self.setting.get(name) for name in names if self.has(name)}

    def options_text(self, names: Iterable[str]) -> str:
        """Return the same for people."""
        return ", ".join(f"{short(name)}={value}" for name, value in self.options(names).items())


def labelled(groups: Sequence[RunsOfMethod]) -> list[Result]:
    """Give each group a label of its own, and note in which options it differs from the others."""
    common = _common_options(groups)
    based = list(zip(_bases(groups), groups, strict=True))
    return [_result(base, group, _alike(base, based), common) for base, group in based]


def _alike(base: str, based: Sequence[tuple[str, RunsOfMethod]]) -> list[RunsOfMethod]:
    """Return the groups whose labels would be the same."""
    return [group for other, group in based if other == base]


def _bases(groups: Sequence[RunsOfMethod]) -> list[str]:
    """Return what labels begin with: the method, and the data where there are several data sets."""
    data = {group.data for group in groups}
    return [_base(group, len(data)) for group in groups]


def _base(group: RunsOfMethod, data_sets: int) -> str:
    if data_sets == 1:
        return group.method
    return f"{group.method} on {group.data}"


def _common_options(groups: Sequence[RunsOfMethod]) -> set[str]:
    """Return the options in which methods can be compared, and in which these groups differ."""
    return {name for name in _varying(groups) if not name.startswith(OF_METHOD)}


def _result(base: str, group: RunsOfMethod, alike: list[RunsOfMethod], common: set[str]) -> Result:
    own = _varying(alike)
    names = sorted({*own, *common} - HIDDEN)
    label, is_inline = _label(base, group, alike, sorted(own - HIDDEN))
    # A label tells only in what it differs from its like; what it shares with them but not with others is a note.
    label_says_all = is_inline and own.issuperset(names)
    return Result(label, group.runs, group.options(names), label_says_all)


def _label(base: str, group: RunsOfMethod, alike: list[RunsOfMethod], names: Sequence[str]) -> tuple[str, bool]:
    """Return a label and whether it says all: the options in which its like differ, where they are few, or a number."""
    texts = [other.options_text(names) for other in alike]
    place = alike.index(group)
    are_distinct = len(set(texts)) == len(texts)
    if are_distinct and max(map(len, texts)) <= INLINE:
        return f"{base} {texts[place]}".rstrip(), True
    return f"{base} #{place + 1}", False


def short(name: str) -> str:
    """Return an option as the command line calls it: the last part of its dotted name, or two where one says little."""
    if name in OPTIONS:
        return OPTIONS[name]
    before, _, last = name.rpartition(".")
    if last in VAGUE:
        return f"{before.rpartition('.')[2]}.{last}"
    return last


def _varying(groups: Sequence[RunsOfMethod]) -> set[str]:
    """Return the options in which groups differ, as far as they are known; the data set is not one of them."""
    names = {name for group in groups for name in group.setting}.difference(NAMES)
    return {name for name in names if _differ(groups, name)}


def _differ(groups: Sequence[RunsOfMethod], name: str) -> bool:
    known = {_text(group.setting.get(name)) for group in groups} - {_text(UNKNOWN)}
    return len(known) > 1


def _text(value: Any) -> str:
    """Return a value of any type as text, which can be put into a set."""
    return json.dumps(value, sort_keys=True, default=str)
