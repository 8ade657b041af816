"""A run's line in the list: what it is, how it stands, how far it is and how long it will take."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from flatfed.core.configuration.checking import escaped
from flatfed.core.errors import FlatfedError
from flatfed.dashboard.sealed_reading import read_record
from flatfed.dashboard.tails import last_rows, number
from flatfed.dashboard.tree import COMPARISON, STUDY, FolderPlace
from flatfed.outside.origins import outside_text
from flatfed.runs.history import Row
from flatfed.runs.records.earlier_versions import config_of_today
from flatfed.runs.records.files import is_held
from flatfed.runs.records.structure import STATUS, check, check_config

Entry = dict[str, Any]
RECENT = 10
"""Rounds whose mean time says how long the rest will take."""
SEARCHED = 200
"""Rounds from the last one backwards in which the metric is looked for."""
LONGEST = 300
"""Letters of a text in a line; a run may come from anybody."""
ENDED_FROM_OUTSIDE = "its process was ended from outside"


@dataclass(frozen=True)
class PrimaryMetric:
    """The number that a run goes by, as its record declares it."""

    column: str = "test_accuracy"
    label: str = "accuracy"
    unit: str = "%"
    higher_is_better: bool | None = True

    @property
    def scale(self) -> float:
        """What a value is multiplied by for people."""
        return 100.0 if self.unit == "%" else 1.0


def primary_metric(config: Mapping[str, Any]) -> PrimaryMetric:
    """Return the first metric that a run declares on its first test set."""
    test = next(iter(config.get("test_sets") or ()), "test")
    for name, shown in (config.get("metrics") or {}).items():
        if shown is not None:
            label = shown.get("label") or name.replace("_", " ")
            return PrimaryMetric(f"{test}_{name}", label, shown.get("unit", ""), shown.get("higher_is_better"))
    return PrimaryMetric(f"{test}_accuracy")


def read_config(path: Path, root: Path) -> dict[str, Any]:
    """Read a run's configuration in today's words; one that is not as runs write it is an error."""
    file = path / "config.json"
    config = config_of_today(read_record(file, root))
    check_config(file, config)
    return config


def entry_of(
    place: FolderPlace, root: Path, config: dict[str, Any] | None = None
) -> tuple[Entry, dict[str, Any] | None]:
    """Return a run's line, and its configuration; of one that cannot be read, why."""
    try:
        config = config or read_config(place.path, root)
        return _entry(place, root, config), config
    except FlatfedError as error:
        return unreadable(place, str(error)), None
    except Exception as error:  # a run may come from anybody, and must not take the others with it
        return unreadable(place, f"{type(error).__name__}: {error}"), None


def unreadable(place: FolderPlace, reason: str) -> Entry:
    """Return the line of what cannot be read."""
    texts = ("method", "parameters", "outside", "data", "seed", "setting", "metric", "resume", "rerun")
    nothing = dict.fromkeys(texts, "")
    numbers = dict.fromkeys(("rounds", "of", "value", "seconds_left"))
    return {**_names(place), **nothing, **numbers, "status": "unreadable", "reason": _short(reason)}


def _names(place: FolderPlace) -> Entry:
    folder, _, _ = place.name.rpartition("/")
    return {"id": place.id, "name": _short(place.name), "folder": _short(folder or ".")}


def _entry(place: FolderPlace, root: Path, config: dict[str, Any]) -> Entry:
    metric = primary_metric(config)
    rows, value = _end_of_history(place.path / "history.jsonl", root, metric)
    status, reason = standing(place.path, root)
    settings, task = config["settings"], config["task"]
    done, of = (rows[0]["round"] + 1 if rows else 0), settings["rounds"]
    return {
        **_names(place),
        "method": _short(config["method"]),
        "parameters": _short(", ".join(filter(None, map(_configured, (config["algorithm"], config["average"]))))),
        "outside": _short(outside_text([config])),
        "data": _short(str(task.get("dataset") or task.get("name") or "")),
        "seed": str(settings["seed"]),
        "setting": _short(setting_text(config)),
        "metric": _short(f"{metric.label} in {metric.unit}" if metric.unit else metric.label),
        "rounds": done,
        "of": of,
        "value": value,
        "seconds_left": _seconds_left(rows, of - done) if status == "running" else None,
        "status": _short(status),
        "reason": _short(reason),
        "resume": _resume(place.path, config),
        "rerun": escaped(str((config.get("about") or {}).get("command") or "")),
    }


def _end_of_history(path: Path, root: Path, metric: PrimaryMetric) -> tuple[list[Row], float | None]:
    """Return the last rows, the last one first, and the last value of the metric, where it was measured lately."""
    rows: list[Row] = []
    value = None
    for row in islice(last_rows(path, root), SEARCHED):
        if len(rows) < RECENT:
            rows.append(row)
        if value is None:
            value = number(row.get(metric.column))
        if value is not None and len(rows) == RECENT:
            break
    return rows, None if value is None else float(f"{metric.scale * value:.6g}")


def _seconds_left(rows: list[Row], rounds: int) -> float | None:
    times = [time for row in rows if (time := number(row.get("seconds"))) is not None]
    return rounds * sum(times) / len(times) if times else None


def standing(path: Path, root: Path) -> tuple[str, str]:
    """Return how a run stands and why; one that says `running` but has no process is `interrupted`."""
    status, reason = _recorded_status(path, root)
    if status == "running" and not is_held(path):
        # Again, now that nobody writes: it may have ended between the two looks.
        status, reason = _recorded_status(path, root)
        if status == "running":
            return "interrupted", ENDED_FROM_OUTSIDE
    return status, reason


def _recorded_status(path: Path, root: Path) -> tuple[str, str]:
    file = path / "status.json"
    if not file.exists():
        return "running", ""
    record = read_record(file, root)
    check(file, record, STATUS)
    return record["status"], record.get("reason", "")


def command_of(path: Path, root: Path) -> str:
    """Return the command that made a comparison or a study; empty where that cannot be read."""
    try:
        if (path / STUDY).exists():
            return escaped(str(read_record(path / STUDY, root).get("command") or ""))
        about = read_record(path / COMPARISON, root).get("about") or {}
        return escaped(str(about.get("command") or ""))
    except (FlatfedError, OSError, AttributeError):
        return ""


def setting_text(config: Mapping[str, Any]) -> str:
    """Return what was trained besides data, method and seed: what runs that belong together have in common."""
    task, settings = config["task"], config["settings"]
    parts = [
        f"{task['clients']} clients" if task.get("clients") else "",
        _configured(task.get("partition")),
        str(task.get("model") or ""),
        _configured(config["sampler"]),
        *(f"{name.replace('_', ' ')} {settings[name]}" for name in ("lr", "batch_size", "local_epochs", "rounds")),
    ]
    return ", ".join(filter(None, parts))


def _configured(value: Any) -> str:
    if not isinstance(value, Mapping):
        return ""
    own = ", ".join(
        f"{name}={_configured(entry) or entry}" for name, entry in value.items() if name != "id" and entry is not None
    )
    return f"{value.get('id')}({own})" if own else str(value.get("id"))


def _resume(path: Path, config: Mapping[str, Any]) -> str:
    if config["task"]["kind"] == "memory":
        return escaped(f"ff.resume({str(path)!r}, task=task)")
    return escaped(f"flatfed resume {shlex.quote(str(path))}")


def _short(text: str) -> str:
    shown = escaped(text)
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…"
