"""What is sent: a run or a comparison in plain words and numbers, read from its directory without torch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flatfed.runs.records.files import read_json

COMPARED, STUDIED = "comparison.json", "study.json"
"""The files of what holds several runs."""
PARTS = ("algorithm", "average", "sampler", "settings", "task")
"""The parts of a run's record that are its parameters."""
CONFIG, ENVIRONMENT = "config.json", "environment.json"
ROUND = "round"
"""The name under which the number of rounds itself is sent: how far a tracker has come."""


@dataclass(frozen=True)
class Point:
    """Numbers of one moment.

    Args:
        step: the number of rounds played by then.
        milliseconds: when it was, since 1970.
        values: numbers by name; some may not be finite.
    """

    step: int
    milliseconds: int
    values: Mapping[str, float]


@dataclass(frozen=True)
class TrackedRun:
    """A run, or a comparison or study, as a tracker gets to know it.

    Args:
        path: its directory.
        name: what it is called: a run within a comparison by its way from there, `fedavg/seed-0`.
        parameters: all settings, by flat names.
        tags: what runs are found by.
        began: when it began, in milliseconds since 1970.
        group: the directory of the comparison or study that it belongs to.
        group_id: how the tracker calls that.
    """

    path: Path
    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    began: int = 0
    group: Path | None = None
    group_id: str | None = None

    @property
    def is_group(self) -> bool:
        """Whether it is a comparison or a study."""
        return not (self.path / CONFIG).is_file()


def subject_of(path: Path) -> TrackedRun:
    """Read what a directory holds: a run, or a comparison or study."""
    path = path.absolute()
    if not (path / CONFIG).is_file():
        return TrackedRun(path, path.name, tags={"flatfed_kind": "comparison"}, began=_began(path))
    config = read_json(path / CONFIG)
    group = group_of(path)
    name = path.name if group is None else path.relative_to(group).as_posix()
    environment = read_json(path / ENVIRONMENT) if (path / ENVIRONMENT).is_file() else {}
    return TrackedRun(path, name, _parameters(config, environment), _tags(config), _began(path), group)


def group_of(run: Path) -> Path | None:
    """Return the directory of the comparison or study that a run belongs to."""
    return next(filter(is_whole, run.absolute().parents), None)


def is_whole(folder: Path) -> bool:
    """Say whether a directory is that of a comparison or a study."""
    return any((folder / name).is_file() for name in (COMPARED, STUDIED))


def _began(path: Path) -> int:
    """Return when a run began; its first record is written then."""
    first = path / ENVIRONMENT
    found = first if first.is_file() else path
    return int(found.stat().st_mtime * 1000)


def _parameters(config: Mapping[str, Any], environment: Mapping[str, Any]) -> dict[str, Any]:
    parts = {name: config.get(name) for name in PARTS}
    versions = {"environment": {name: value for name, value in environment.items() if name != "format"}}
    return {"method": config["method"], **dict(_flat(parts | versions))}


def _flat(entries: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield entries by the way to them: `algorithm.client_opt.rho`."""
    for name, value in entries.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _tags(config: Mapping[str, Any]) -> dict[str, str]:
    """Return what runs are found by."""
    tags = {
        "flatfed_kind": "run",
        "flatfed_version": config.get("flatfed"),
        "flatfed_run": config["run"],
        "method": config["method"],
        "dataset": config["task"].get("dataset"),
        "seed": config["settings"].get("seed"),
    }
    return {name: str(value) for name, value in tags.items() if value is not None}


def point_of(row: Mapping[str, Any], began: int, elapsed: float) -> Point:
    """Return the numbers of a history row; `elapsed` is how many seconds were trained by its end."""
    values = dict(_numbers(row))
    step = row["round"] + 1
    return Point(step, began + int(elapsed * 1000), values | {ROUND: float(step)})


def _numbers(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a row; lists, such as who took part, are left out."""
    for name, value in row.items():
        if name == ROUND:
            continue
        if isinstance(value, Mapping):
            yield from ((f"{name}/{inner}", entry) for inner, entry in _flat_numbers(value))
        elif _is_number(value):
            yield name, float(value)
    yield "rejected", float(len(row.get("rejected", ())))


def _flat_numbers(entries: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    yield from ((name.replace(".", "/"), float(value)) for name, value in _flat(entries) if _is_number(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def measured_points(results: list[Mapping[str, Any]], at: int) -> Iterator[tuple[str, Point]]:
    """Yield what was measured of a run, each with a name of its own, at the time `at`."""
    for entry in results:
        key, numbers = entry["key"], entry["result"].get("numbers", {})
        of = key.get("sample", {}).get("of", "train")
        where = "flatness" if of == "train" else f"flatness/{of}"
        if key.get("weights", "evaluated") != "evaluated":
            where += f"/{key['weights']}"
        if "space" in key:
            where += f"/{key['space']}-space"
        values = {f"{where}/{name}": float(value) for name, value in numbers.items() if _is_number(value)}
        if values:
            yield repr(sorted(key.items(), key=str)), Point(int(key.get("round", 0)), at, values)


SECRET = re.compile(r"(?<=://)[^/@\s]+@")


def without_secrets(text: str) -> str:
    """Return a text without names and passwords in addresses."""
    return SECRET.sub("***@", text)
