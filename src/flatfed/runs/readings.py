"""Measurements that were taken of a run, kept beside it: what is there is not measured again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flatfed.core.errors import CheckpointError
from flatfed.runs.files import read_json, replace_file, write_json

FOLDER = "flatness"


class Readings:
    """What was measured of a run and how: a reading for each measurement, sample, model and round."""

    def __init__(self, run: Path) -> None:
        self._path = run / FOLDER / "readings.json"
        self._kept: list[dict[str, Any]] = read_json(self._path)["readings"] if self._path.exists() else []

    def find(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the reading that was taken in just this way."""
        return next((entry["reading"] for entry in self._kept if entry["key"] == key), None)

    def of_round(self, rounds: Sequence[int]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the keys and readings of some rounds, the latest last."""
        return [(entry["key"], entry["reading"]) for entry in self._kept if entry["key"].get("round") in rounds]

    def keep(self, key: Mapping[str, Any], reading: Mapping[str, Any]) -> None:
        """Keep a reading; it is on the disk when this returns."""
        self._kept = [entry for entry in self._kept if entry["key"] != key]
        self._kept.append({"key": dict(key), "reading": dict(reading)})
        self._path.parent.mkdir(exist_ok=True)
        write_json(self._path, {"format": 1, "readings": self._kept})


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
        lines = self._path.read_text(encoding="utf-8").split("\n")
        with contextlib.suppress(ValueError):
            if json.loads(lines[0]) != self._key:
                raise CheckpointError(f"{self._path} holds another landscape; remove it")
        for line in lines[1:]:
            with contextlib.suppress(ValueError, KeyError, TypeError):  # one that was torn off by a crash
                entry = json.loads(line)
                self._found[tuple(entry["at"])] = entry["figures"]

    def get(self, at: tuple[float, ...]) -> dict[str, Any] | None:
        """Return the figures at a point, if they are known."""
        return self._found.get(at)

    def add(self, at: tuple[float, ...], figures: Mapping[str, Any]) -> None:
        """Keep the figures at a point."""
        if not self._path.exists() or not self._found:
            self._path.parent.mkdir(exist_ok=True)
            replace_file(self._path, json.dumps(self._key).encode() + b"\n")
        self._found[at] = dict(figures)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"at": list(at), "figures": dict(figures)}) + "\n")
