"""Results of methods over seeds, collected from run directories."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flatfed.flatness.measurements.curvature import LambdaRatio
from flatfed.flatness.measurements.rises import LowPass
from flatfed.runs.directory import RunDirectory
from flatfed.runs.history import Row
from flatfed.runs.readings import Readings

INLINE = 40
"""So many characters of differing options stand in a label; more are listed below a table."""
NAMES = ("task.dataset", "task.name")
OPTIONS = {"sampler.count": "per_round", "sampler.p": "bernoulli"}
VAGUE = ("id", "path", "name", "kind")
ACCURACIES = ("accuracy_final", "accuracy_last_mean", "accuracy_best")


@dataclass(frozen=True)
class OneRun:
    """A run's configuration, figures and history."""

    path: Path
    config: dict[str, Any]
    summary: dict[str, Any]
    rows: list[Row]

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.config["settings"]["seed"])


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


def collect(paths: Sequence[Path]) -> list[Result]:
    """Read runs and group them by method, data set and options, in the order in which these first appear."""
    directories = [RunDirectory.open(path) for path in paths]
    runs = [OneRun(d.path, d.config, d.summary() | _flatness(d), d.history().rows) for d in directories]
    groups: list[_Group] = []
    for run in runs:
        setting = _flat(_without_seed(run.config))
        for group in groups:
            if (group.method, group.setting) == (run.config["method"], setting):
                group.runs.append(run)
                break
        else:
            groups.append(_Group(run.config["method"], setting, [run]))
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
        names = sorted({*own, *(name for name in common if name not in NAMES)})
        label, inline = _label(base, group, alike, own)
        differs = {name: group.setting.get(name) for name in names}
        results.append(Result(label, group.runs, differs, inline and set(names) <= set(own)))
    return results


def _label(base: str, group: _Group, alike: list[_Group], names: list[str]) -> tuple[str, bool]:
    """Return a label and whether it says all: options beside the first of its like, where they are few, or a number."""
    first, texts = alike[0], []
    for other in alike:
        changed = [name for name in names if other.setting.get(name) != first.setting.get(name)]
        texts.append(", ".join(f"{short(name)}={other.setting.get(name)}" for name in changed))
    place = alike.index(group)
    if len(set(texts)) == len(texts) and all(len(text) <= INLINE for text in texts):
        return f"{base} ({texts[place]})" if texts[place] else base, True
    return f"{base} #{place + 1}", False


def short(name: str) -> str:
    """Return an option as the command line calls it: the last part of its dotted name, or two where one says little."""
    if name in OPTIONS:
        return OPTIONS[name]
    before, _, last = name.rpartition(".")
    return f"{before.rpartition('.')[2]}.{last}" if last in VAGUE else last


def _varying(groups: Sequence[_Group]) -> list[str]:
    """Return the options in which groups differ."""
    names = {name for group in groups for name in group.setting}
    return sorted(n for n in names if any(g.setting.get(n) != groups[0].setting.get(n) for g in groups))


def _without_seed(config: dict[str, Any]) -> dict[str, Any]:
    settings = {k: v for k, v in config["settings"].items() if k != "seed"}
    identity = (
        "kind",
        "name",
        "dataset",
        "clients",
        "partition",
        "model",
        "augment",
        "local_parts",
        "data_options",
        "model_options",
    )
    task = {k: v for k, v in config["task"].items() if k in identity or (k == "partition_seed" and v is not None)}
    return {k: config[k] for k in ("algorithm", "average", "sampler")} | {"settings": settings, "task": task}


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Return nested dictionaries as one, with dotted names."""
    if not isinstance(value, dict):
        return {name: value}
    return {k: v for key, entry in value.items() for k, v in _flat(entry, f"{name}.{key}" if name else key).items()}
