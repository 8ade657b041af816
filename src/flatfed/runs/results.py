"""Measurements that were taken of a run, kept beside it: what is there is not measured again."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flatfed.core.errors import CheckpointError
from flatfed.runs.files import read_json, replace_file, write_json

FOLDER, FORMAT = "flatness", 1
PARTS = ("numbers", "clients", "series", "verdict")


class Readings:
    """What was measured of a run and how: a reading for each measurement, sample, model and round."""

    def __init__(self, run: Path) -> None:
        self._path = run / FOLDER / "readings.json"
        self._kept: list[dict[str, Any]] = self._read() if self._path.exists() else []

    def _read(self) -> list[dict[str, Any]]:
        found = read_json(self._path)
        entries = found.get("readings")
        if found.get("format") != FORMAT or not isinstance(entries, list):
            raise CheckpointError(f"{self._path} does not hold readings of format {FORMAT}; remove it to measure again")
        for entry in entries:
            whole = isinstance(entry, dict) and isinstance(entry.get("key"), dict)
            if not whole or not isinstance(entry.get("reading"), dict) or set(PARTS) - set(entry["reading"]):
                raise CheckpointError(f"{self._path} holds something that is no reading; remove it to measure again")
        return entries

    def find(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the reading that was taken in just this way."""
        return next((entry["reading"] for entry in self._kept if entry["key"] == key), None)

    def of_round(self, rounds: Sequence[int]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the keys and readings of some rounds, the latest last."""
        return [(entry["key"], entry["reading"]) for entry in self._kept if entry["key"].get("round") in rounds]

    def keep(self, key: Mapping[str, Any], reading: Mapping[str, Any]) -> None:
        """Keep a reading; it is on the disk when this returns."""
        others = self._read() if self._path.exists() else []  # what another command found in the meantime
        self._kept = [entry for entry in others if entry["key"] != key]
        self._kept.append({"key": dict(key), "reading": finite(dict(reading))})
        self._path.parent.mkdir(exist_ok=True)
        write_json(self._path, {"format": FORMAT, "readings": self._kept})


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
        self._key = json.loads(json.dumps(key))
        self._found: dict[tuple[float, ...], dict[str, Any]] = {}
        self._read()

    def _read(self) -> None:
        if not self._path.exists():
            return
        first, *lines = self._path.read_text(encoding="utf-8", errors="replace").split("\n")
        try:
            found = json.loads(first)
        except ValueError:  # torn off before it held anything
            self._path.unlink()
            return
        if found != self._key:
            raise CheckpointError(f"{self._path} holds another landscape; remove it to evaluate this one")
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError):  # one that was torn off by a crash
                entry = json.loads(line)
                self._found[tuple(entry["at"])] = entry["figures"]
        if lines and lines[-1]:  # the next one must begin a line of its own
            self._write_anew()

    def _write_anew(self) -> None:
        whole = [json.dumps({"at": list(at), "figures": figures}) for at, figures in self._found.items()]
        replace_file(self._path, "".join(f"{line}\n" for line in [json.dumps(self._key), *whole]).encode())

    def get(self, at: tuple[float, ...]) -> dict[str, Any] | None:
        """Return the figures at a point, if they are known."""
        return self._found.get(at)

    def add(self, at: tuple[float, ...], figures: Mapping[str, Any]) -> None:
        """Keep the figures at a point."""
        if not self._path.exists():
            self._path.parent.mkdir(exist_ok=True)
            self._write_anew()
        self._found[at] = dict(figures)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"at": list(at), "figures": dict(figures)}) + "\n")
