"""Measurements that were taken of a run, kept beside it: what is there is not measured again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flatfed.core.errors import CheckpointError
from flatfed.runs.earlier_versions import point_of_today, result_of_today
from flatfed.runs.files import read_json, replace_file, write_json
from flatfed.runs.structure import POINT, RESULT, RESULT_KEY, fault_of

FOLDER, FORMAT = "flatness", 1


class KeptResults:
    """What was measured of a run and how: a result for each measurement, sample, model and round."""

    def __init__(self, run: Path) -> None:
        self._path = run / FOLDER / "results.json"
        self._old_path = run / FOLDER / "readings.json"
        self._kept = self._read()

    def _read(self) -> list[dict[str, Any]]:
        """Return what is kept; a run that an earlier version measured has it in another file."""
        if self._path.exists():
            return _entries(self._path, "results", "result")
        if self._old_path.exists():
            return _entries(self._old_path, "readings", "reading")
        return []

    def find(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result that was taken in just this way."""
        return next((entry["result"] for entry in self._kept if entry["key"] == key), None)

    def of_round(self, rounds: Sequence[int]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the keys and results of some rounds, the latest last."""
        return [(entry["key"], entry["result"]) for entry in self._kept if entry["key"].get("round") in rounds]

    def keep(self, key: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Keep a result; it is on the disk when this returns."""
        others = self._read()  # what another command measured in the meantime
        self._kept = [entry for entry in others if entry["key"] != key]
        self._kept.append({"key": dict(key), "result": finite(dict(result))})
        self._path.parent.mkdir(exist_ok=True)
        write_json(self._path, {"format": FORMAT, "results": self._kept})


def _entries(path: Path, list_name: str, name: str) -> list[dict[str, Any]]:
    """Return the keys and results that a file holds; anything else in it is an error."""
    content = read_json(path)
    entries = content.get(list_name)
    if content.get("format") != FORMAT or not isinstance(entries, list):
        raise CheckpointError(f"{path} does not hold results of format {FORMAT}; remove it to measure again")
    return [_entry(path, entry, name) for entry in entries]


def _entry(path: Path, entry: Any, name: str) -> dict[str, Any]:
    is_entry = isinstance(entry, dict) and isinstance(entry.get("key"), dict) and isinstance(entry.get(name), dict)
    result = result_of_today(entry[name]) if is_entry else {}
    if not is_entry or fault_of(entry["key"], RESULT_KEY) or fault_of(result, RESULT):
        raise CheckpointError(f"{path} holds something that is no result; remove it to measure again")
    return {"key": entry["key"], "result": result}


def finite(value: Any) -> Any:
    """Return what JSON can hold: null for a number that is not finite."""
    if isinstance(value, Mapping):
        return {name: finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _point(line: str) -> dict[str, Any] | None:
    """Return a point that a line holds; None where it is no whole one."""
    try:
        point = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(point, dict):
        return None
    point = point_of_today(point)
    return None if fault_of(point, POINT) else point


class Points:
    """Losses at points of a landscape, one JSON line each: an evaluation that was stopped goes on where it was."""

    def __init__(self, run: Path, name: str, key: Mapping[str, Any]) -> None:
        self._path = run / FOLDER / f"{name}.jsonl"
        # As the file will give it back, tuples as lists, so that the two can be compared.
        self._key = json.loads(json.dumps(key))
        self._points: dict[tuple[float, ...], dict[str, Any]] = {}
        self._read()

    def _read(self) -> None:
        if not self._path.exists():
            return
        first, *lines = self._path.read_text(encoding="utf-8", errors="replace").split("\n")
        try:
            key = json.loads(first)
        except (ValueError, RecursionError):  # torn off before it held anything
            self._path.unlink()
            return
        if key != self._key:
            raise CheckpointError(f"{self._path} holds another landscape; remove it to evaluate this one")
        for line in lines:
            point = _point(line)
            if point is not None:  # one that was torn off by a crash is evaluated again
                self._points[tuple(point["at"])] = point["metrics"]
        if lines and lines[-1]:  # the next one must begin a line of its own
            self._write_anew()

    def _write_anew(self) -> None:
        whole = [json.dumps({"at": list(at), "metrics": metrics}) for at, metrics in self._points.items()]
        replace_file(self._path, "".join(f"{line}\n" for line in [json.dumps(self._key), *whole]).encode())

    def get(self, at: tuple[float, ...]) -> dict[str, Any] | None:
        """Return the metrics at a point, if they are known."""
        return self._points.get(at)

    def add(self, at: tuple[float, ...], metrics: Mapping[str, Any]) -> None:
        """Keep the metrics at a point."""
        if not self._path.exists():
            self._path.parent.mkdir(exist_ok=True)
            self._write_anew()
        self._points[at] = dict(metrics)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"at": list(at), "metrics": dict(metrics)}) + "\n")
