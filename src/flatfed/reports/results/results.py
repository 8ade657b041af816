"""Results of methods over seeds, collected from run directories."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flatfed.flatness.measurements.curvature import LambdaRatio
from flatfed.flatness.measurements.rises import LowPass
from flatfed.reports.results.duplicates import once_each
from flatfed.reports.results.identity import INTERNAL, SIZE, UNKNOWN, agree, identity
from flatfed.reports.results.one_run import OneRun
from flatfed.runs.directory import RunDirectory
from flatfed.runs.metrics import Metric, primary_of
from flatfed.runs.results import Readings

INLINE = 40
"""So many characters of differing options stand in a label; more are listed below a table."""
NAMES = ("task.dataset", "task.name")
OPTIONS = {"sampler.count": "per_round", "sampler.p": "bernoulli"}
HIDDEN = {INTERNAL, "task.kind"}
VAGUE = ("id", "path", "name", "kind")
ACCURACIES = ("accuracy_final", "accuracy_last_mean", "accuracy_best")


@dataclass(frozen=True)
class Result:
    """One method over its seeds; `differs` are the options in which the results side by side differ, with its values.

    `method` is a label of its own among these results, `told` whether the labels say all that differs.
    """

    method: str
    runs: list[OneRun]
    differs: dict[str, Any] = field(default_factory=dict)
    told: bool = True

    @property
    def metrics(self) -> list[Metric]:
        """Every number of the runs' test sets, the primary one first."""
        return list(dict.fromkeys(metric for run in self.runs for metric in run.metrics))

    @property
    def primary(self) -> Metric:
        """The metric that tables and curves go by."""
        return primary_of(self.metrics, self.runs[0].config)

    @property
    def good(self) -> list[OneRun]:
        """The runs whose figures count: the finished ones, or while there is none, those still under way."""
        finished = [run for run in self.runs if run.summary["status"] == "finished"]
        return finished or [run for run in self.runs if run.summary["status"] in ("running", "interrupted")]

    def spread(self, name: str) -> tuple[float, float | None] | None:
        """Return mean and sample standard deviation of a figure over the good runs."""
        values = [run.summary[name] for run in self.good if run.summary.get(name) is not None]
        if not values:
            return None
        return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None

    def mean(self, name: str) -> float:
        """Return the mean of a cost over all runs."""
        return statistics.fmean(run.summary[name] for run in self.runs)

    @property
    def status(self) -> str:
        """How the runs ended, in a few words: `finished`, or `1 of 2 diverged (round 17)`."""
        counts = Counter(run.summary["status"] for run in self.runs)
        if len(counts) == 1 and len(self.runs) == counts["finished"]:
            return "finished"
        parts = []
        for status, count in sorted(counts.items()):
            rounds = ", ".join(str(run.summary["rounds"]) for run in self.runs if run.summary["status"] == status)
            at = f" (round {rounds})" if status != "finished" else ""
            parts.append((f"{count} of {len(self.runs)} " if len(self.runs) > 1 else "") + status + at)
        return ", ".join(parts)


def collect(paths: Sequence[Path], say: Callable[[str], None] = lambda text: None) -> list[Result]:
    """Read runs and group them by method, data set and options, in the order in which these first appear.

    A run that only repeats another one counts once; `say` is called with a word on it.
    """
    directories = [RunDirectory.open(path) for path in paths]
    runs = [OneRun(d.path, d.config, d.summary() | _flatness(d), d.history().rows) for d in directories]
    groups: list[_Group] = []
    for run in runs:
        setting = identity(run.config)
        group = next((g for g in groups if g.method == run.config["method"] and agree(g.setting, setting)), None)
        if group is None:
            groups.append(_Group(run.config["method"], setting, [run]))
        else:
            group.add(run, setting)
    for group in groups:
        group.runs = once_each(group.runs, say)
    return _labelled(groups)


def _flatness(directory: RunDirectory) -> dict[str, Any]:
    """Return what was measured of a run's model as it is now, in the one way in which tables compare it."""
    found: dict[str, Any] = {}
    for key, reading in Readings(directory.path).of_round(directory.checkpoints.rounds()[:1]):
        sample, names = key.get("sample", {}), _COMPARED.get(json.dumps(key.get("measurement"), sort_keys=True))
        if key.get("weights") == "evaluated" and (sample.get("of"), sample.get("seed")) == ("train", 0) and names:
            most = sample.get("most")
            over = "all training examples" if most is None else f"at most {most:,} training examples"
            found |= {name: reading["numbers"].get(name) for name in names} | {"flatness_over": over}
    return found


_COMPARED = {
    json.dumps(LambdaRatio().to_dict(), sort_keys=True): ("lambda_max", "lambda_ratio"),
    json.dumps(LowPass().to_dict(), sort_keys=True): ("lpf",),
}
"""Which numbers come from which measurement: other ways of measuring do not stand beside these."""


@dataclass(eq=False)
class _Group:
    """The runs of one method with one setting."""

    method: str
    setting: dict[str, Any]
    runs: list[OneRun]

    def add(self, run: OneRun, setting: dict[str, Any]) -> None:
        """Take up another seed; what was not known of the setting may be known of it."""
        self.runs.append(run)
        self.setting |= {name: value for name, value in setting.items() if value != UNKNOWN}

    def has(self, name: str) -> bool:
        """Say whether an option means something here: tasks from Python and of the catalogue have different ones."""
        foreign = name == SIZE if self.setting.get("task.kind") == "catalogue" else name.startswith("task.")
        return not foreign or name in self.setting

    @property
    def data(self) -> str:
        """What was trained on."""
        return str(self.setting.get("task.dataset") or self.setting.get("task.name") or "other data")


def _labelled(groups: list[_Group]) -> list[Result]:
    """Give each group a label of its own, and note in which options it differs from the others."""
    several = len({group.data for group in groups}) > 1
    bases = [f"{group.method} on {group.data}" if several else group.method for group in groups]
    common = [name for name in _varying(groups) if not name.startswith(("algorithm.", "average."))]
    results: list[Result] = []
    for base, group in zip(bases, groups, strict=True):
        alike = [other for other, its in zip(groups, bases, strict=True) if its == base]
        own = [name for name in _varying(alike) if name not in NAMES]
        names = sorted({*own, *(name for name in common if name not in NAMES)} - HIDDEN)
        label, inline = _label(base, group, alike, [name for name in own if name not in HIDDEN])
        differs = {name: group.setting.get(name) for name in names if group.has(name)}
        results.append(Result(label, group.runs, differs, inline and set(names) <= set(own)))
    return results


def _label(base: str, group: _Group, alike: list[_Group], names: list[str]) -> tuple[str, bool]:
    """Return a label and whether it says all: the options in which its like differ, where they are few, or a number."""
    texts = [", ".join(f"{short(n)}={other.setting.get(n)}" for n in names if other.has(n)) for other in alike]
    place = alike.index(group)
    if len(set(texts)) == len(texts) and all(len(text) <= INLINE for text in texts):
        return f"{base} {texts[place]}".rstrip(), True
    return f"{base} #{place + 1}", False


def short(name: str) -> str:
    """Return an option as the command line calls it: the last part of its dotted name, or two where one says little."""
    if name in OPTIONS:
        return OPTIONS[name]
    before, _, last = name.rpartition(".")
    return f"{before.rpartition('.')[2]}.{last}" if last in VAGUE else last


def _varying(groups: Sequence[_Group]) -> list[str]:
    """Return the options in which groups differ, as far as they are known."""
    names = {name for group in groups for name in group.setting}
    return sorted(name for name in names if len({_text(g.setting.get(name)) for g in groups} - {_text(UNKNOWN)}) > 1)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
