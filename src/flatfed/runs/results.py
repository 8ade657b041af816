"""Measurements that were taken of a run, kept beside it: what is there is not measured again."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flatfed.core.errors import CheckpointError, ConfigError
from flatfed.runs.records.earlier_versions import point_of_today, result_of_today
from flatfed.runs.records.files import (
    FORMAT,
    KEY,
    is_writable,
    line_seal,
    make_folder,
    open_to_append,
    read_json,
    read_whole,
    refuse_link,
    replace_file,
    sealed_line,
    write_json,
)
from flatfed.runs.records.structure import POINT, RESULT, RESULT_KEY, fault_of

FOLDER = "flatness"


def refuse_unwritable(folder: Path) -> None:
    """Refuse to measure where the results cannot be kept: now, because measuring takes long."""
    if not is_writable(folder):
        raise ConfigError(f"{folder} cannot be written, and results are kept there; measure a copy of the run")


def check_results(run: Path) -> None:
    """Refuse kept results that no report could show: now, because what the report is of takes long."""
    KeptResults(run)


class KeptResults:
    """What was measured of a run and how: a result for each measurement, sample, model and round."""

    def __init__(self, run: Path) -> None:
        self._path = run / FOLDER / "results.json"
        self._old_path = run / FOLDER / "readings.json"
        # Now, because measuring takes long.
        refuse_link(self._path.parent)
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

    def refuse_unwritable(self) -> None:
        """Refuse to measure what could not be kept."""
        refuse_unwritable(self._path.parent)

    def keep(self, key: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Keep a result; it is on the disk when this returns."""
        others = self._read()  # what another command measured in the meantime
        self._kept = [entry for entry in others if entry["key"] != key]
        self._kept.append({"key": dict(key), "result": finite(dict(result))})
        make_folder(self._path.parent)
        write_json(self._path, {"format": FORMAT, "results": self._kept})


def _entries(path: Path, list_name: str, name: str) -> list[dict[str, Any]]:
    """Return the keys and results that a file holds; anything else in it is an error."""
    content = read_json(path)
    entries = content.get(list_name)
    if content.get("format") not in (1, FORMAT) or not isinstance(entries, list):
        raise CheckpointError(f"{path} does not hold results of format 1 or {FORMAT}; remove it to measure again")
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


class Points:
    """Losses at points of a landscape, one JSON line each: an evaluation that was stopped goes on where it was."""

    def __init__(self, run: Path, name: str, key: Mapping[str, Any]) -> None:
        self._path = run / FOLDER / f"{name}.jsonl"
        # Now, because evaluating takes long.
        refuse_link(self._path.parent)
        refuse_link(self._path)
        # As the file will give it back, tuples as lists, so that the two can be compared.
        self._key = json.loads(json.dumps(key))
        self._points: dict[tuple[float, ...], dict[str, Any]] = {}
        # Of a run that cannot be written, points are used but not added: the picture may be drawn elsewhere.
        self._keeps = is_writable(self._path.parent)
        self._read()

    def _read(self) -> None:
        if not self._path.exists():
            return
        # What comes after the last line break was torn off by a crash.
        *lines, torn = read_whole(self._path).split(b"\n")
        if not lines:  # torn off before it held anything
            if self._keeps:
                self._path.unlink()
            return
        written = self._first(lines[0])
        key = {name: value for name, value in written.items() if name != KEY}
        if key != self._key:
            raise CheckpointError(f"{self._path} holds another landscape; remove it to evaluate this one")
        # Earlier versions wrote no seals.
        is_sealed = KEY in written
        for number, line in enumerate(lines[1:], start=2):
            self._take(number, line, is_sealed)
        if torn:
            # It may be whole but for the line break; the next point must begin a line of its own.
            with contextlib.suppress(CheckpointError):
                self._take(len(lines) + 1, torn, is_sealed)
            if self._keeps:
                self._write_anew()

    def _first(self, line: bytes) -> dict[str, Any]:
        try:
            written = json.loads(line)
        except (ValueError, RecursionError):
            raise self._damaged(1) from None
        return written if isinstance(written, dict) else {}

    def _take(self, number: int, line: bytes, is_sealed: bool) -> None:
        """Take up a point; one that was changed since it was written is an error."""
        try:
            written = json.loads(line)
            seal = written.pop(KEY, None)
            if (is_sealed or seal is not None) and seal != line_seal(written, self._seal):
                raise self._damaged(number)
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise self._damaged(number) from None
        entry = point_of_today(written)
        if fault_of(entry, POINT):
            raise self._damaged(number)
        self._points[tuple(entry["at"])] = entry["metrics"]

    def _damaged(self, number: int) -> CheckpointError:
        return CheckpointError(f"{self._path}, line {number} is damaged; remove the file to evaluate again")

    @property
    def _seal(self) -> str:
        """The seal of the first line, on which those of all points build; two commands may add points in turns."""
        return line_seal(self._key, "")

    def _line(self, at: tuple[float, ...], metrics: Mapping[str, Any]) -> bytes:
        return sealed_line({"at": list(at), "metrics": dict(metrics)}, self._seal)

    def _write_anew(self) -> None:
        points = [self._line(at, metrics) for at, metrics in self._points.items()]
        replace_file(self._path, b"".join([sealed_line(self._key, ""), *points]))

    def get(self, at: tuple[float, ...]) -> dict[str, Any] | None:
        """Return the metrics at a point, if they are known."""
        return self._points.get(at)

    def add(self, at: tuple[float, ...], metrics: Mapping[str, Any]) -> None:
        """Keep the metrics at a point."""
        self._points[at] = dict(metrics)
        if self._keeps:
            self._append(at, metrics)

    def _append(self, at: tuple[float, ...], metrics: Mapping[str, Any]) -> None:
        if not self._path.exists():
            make_folder(self._path.parent)
            self._write_anew()
            return
        with open_to_append(self._path) as file:
            file.write(self._line(at, metrics))
