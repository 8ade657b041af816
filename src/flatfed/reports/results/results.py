"""Results from run directories: seeds of one thing are put together; the same run twice counts once.

Each has a label of its own: the method and, where several are equal, the options in which they differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.core.errors import ConfigError
from flatfed.core.round.federation import TIMES
from flatfed.flatness.measurements.curvature import LambdaRatio
from flatfed.flatness.measurements.rises import LowPass
from flatfed.reports.results.result import INTERNAL, SIZE, UNKNOWN, OneRun, Result, agree, identity
from flatfed.runs.directory import RunDirectory
from flatfed.runs.history import Row
from flatfed.runs.packed import newest_round
from flatfed.runs.results import KeptResults

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


MEASURED = (*TIMES, "clients_watch")
"""What a row holds besides results: times, and measurements that one may have asked for and another not."""


def once_each(runs: Sequence[OneRun], say: Callable[[str], None]) -> list[OneRun]:
    """Return one run of each seed.

    Of two that agree, bit for bit, as far as both have come, the one with more rounds stays, so that one which is
    still under way does not hide one that is finished. Two that differ cannot both be this seed's: an error.
    """
    kept: dict[int, OneRun] = {}
    for run in runs:
        if run.seed not in kept:
            kept[run.seed] = run
            continue
        other = kept[run.seed]
        _check_agreement(other, run)
        kept[run.seed], dropped = _longer_first(other, run)
        say(_repeats(dropped, kept[run.seed]))
    return list(kept.values())


def _longer_first(earlier: OneRun, later: OneRun) -> tuple[OneRun, OneRun]:
    """Return two runs, the one with more rounds first; of equal ones the earlier."""
    if len(later.rows) > len(earlier.rows):
        return later, earlier
    return earlier, later


def _repeats(dropped: OneRun, kept: OneRun) -> str:
    """Say which run is left out, and how far it repeats the one that is kept."""
    so_far = ""
    if len(dropped.rows) < len(kept.rows):
        so_far = f" as far as it has come ({len(dropped.rows)} rounds)"
    return f"{dropped.path} repeats {kept.path} (seed {kept.seed}){so_far}; it is counted once"


def _check_agreement(first: OneRun, second: OneRun) -> None:
    """Raise a `ConfigError` where two runs of a seed differ in a round that both have."""
    # One of the two may still be under way.
    for row, other in zip(first.rows, second.rows, strict=False):
        if not _same(row, other):
            raise ConfigError(
                f"{first.path} and {second.path} are both seed {first.seed} of {first.config['method']} in one "
                f"setting, but differ from round {row['round'] + 1} on; name one of them"
            )


def _same(row: Row, other: Row) -> bool:
    """Say whether two rows hold the same results; columns that only one of them has are not compared."""
    return _equal_in((row.keys() & other.keys()).difference(MEASURED), row, other)


def _equal(value: Any, other: Any) -> bool:
    if isinstance(value, dict) and isinstance(other, dict):
        return _equal_in(value.keys() & other.keys(), value, other)
    return bool(value == other) or _both_nan(value, other)


def _equal_in(names: Iterable[str], first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    return all(_equal(first[name], second[name]) for name in names)


def _both_nan(value: Any, other: Any) -> bool:
    # Only NaN differs from itself; a history may hold values of any type.
    return bool(value != value and other != other)


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


def collect(runs: Sequence[Path | RunDirectory | OneRun], say: Callable[[str], None] = _ignore) -> list[Result]:
    """Read runs and group them by method, data set and options, in the order in which these first appear.

    A run that only repeats another one counts once; `say` is called with a word on it. One that is given as it is was
    read before, or has no directory that could be read.
    """
    groups = _grouped([read_run(run) for run in runs])
    for group in groups:
        group.runs = once_each(group.runs, say)
    return labelled(groups)


def read_run(run: Path | RunDirectory | OneRun) -> OneRun:
    """Read one run."""
    if isinstance(run, OneRun):
        return run
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
    latest = newest_round(directory.path, directory.checkpoints.rounds())
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
    if "space" in key:  # of all weights, and not of those that are trained
        return False
    return key.get("weights") == "evaluated" and sample.get("of") == "train" and sample.get("seed") == 0


def _sample_text(most: int | None) -> str:
    if most is None:
        return "all training examples"
    return f"at most {most:,} training examples"
