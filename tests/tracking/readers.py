"""What lies at a tracker, read back without flatfed: rounds with their numbers, parameters, files, how it ended."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Rounds = list[tuple[int, dict[str, float]]]


@dataclass
class Found:
    """One run as a tracker has it."""

    rounds: Rounds = field(default_factory=list)
    """Each step as it was sent, in order, with its numbers: what was sent twice is there twice."""
    parameters: dict[str, str] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    status: str = ""
    group: str | None = None
    measured: dict[str, float] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)


def from_tensorboard(folder: Path) -> Found:
    """Read the events of a folder."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    found = Found(group=str(folder.parent))
    for file in sorted(folder.glob("events.*")):
        for event in EventFileLoader(str(file)).Load():
            numbers = {value.tag: value.tensor.float_val[0] for value in event.summary.value if value.tensor.float_val}
            if "round" in numbers:
                found.rounds.append((event.step, numbers))
                found.seconds.append(event.wall_time)
            elif numbers:
                found.measured |= numbers
            for value in event.summary.value:
                name = value.metadata.plugin_data.plugin_name
                if name == "text" and value.tag == "status/text_summary":
                    found.status = value.tensor.string_val[0].decode()
                elif name == "images":
                    found.files.add(value.tag)
                elif name == "hparams":
                    data = HParamsPluginData.FromString(value.metadata.plugin_data.content)
                    entries = data.session_start_info.hparams.items()
                    found.parameters |= {key: str(entry).split(": ", 1)[1].strip() for key, entry in entries}
    return found


def from_mlflow(store: str, id: str) -> Found:
    """Read a run from the database of MLflow itself; the server need not run."""
    file = Path(store.removeprefix("sqlite:///"))
    with contextlib.closing(sqlite3.connect(file)) as database:

        def rows(columns: str, table: str) -> list[Any]:
            return database.execute(f"select {columns} from {table} where run_uuid = ?", (id,)).fetchall()

        tags = dict(rows("key, value", "tags"))
        [(experiment, status)] = rows("experiment_id, status", "runs")
        found = Found(parameters=dict(rows("key, value", "params")), status=tags.get("flatfed_status", status))
        found.group = tags.get("mlflow.parentRunId")
        steps: dict[int, dict[str, float]] = {}
        for name, value, step, milliseconds in rows("key, value, step, timestamp", "metrics"):
            numbers = found.measured if name.startswith("flatness/") else steps.setdefault(step, {})
            assert name not in numbers, f"{name} was sent twice for step {step}"
            numbers[name] = value
            if name == "round":
                found.seconds.append(milliseconds / 1000)
    found.rounds = sorted(steps.items())
    folder = file.parent / "artifacts" / str(experiment) / id / "artifacts"
    found.files = {entry.relative_to(folder).as_posix() for entry in folder.rglob("*") if entry.is_file()}
    return found


def from_wandb(folder: Path, id: str) -> Found:
    """Read the files of a run that W&B writes offline, those of all its stretches."""
    found = Found()
    for file in sorted(folder.glob(f"wandb/offline-run-*-{id}/run-{id}.wandb")):
        for record in _records(file):
            match record.WhichOneof("record_type"):
                case "history":
                    numbers = _items(record.history.item)
                    found.rounds.append((record.history.step.num, numbers))
                    found.seconds.append(numbers["_timestamp"])
                case "run":
                    found.parameters |= {item.key: item.value_json for item in record.run.config.update}
                    found.group = record.run.run_group or None
                case "summary":
                    summary = _items(record.summary.update)
                    found.status = str(summary.get("status", found.status))
                    found.measured |= {name: n for name, n in summary.items() if name.startswith("flatness/")}
                case "artifact":
                    found.files |= {entry.path for entry in record.artifact.manifest.contents}
    return found


def _items(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


BLOCK, HEADER = 32768, 7


def _records(file: Path) -> Iterator[Any]:
    """Yield the records of a file in the log format of LevelDB, behind a header."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, piece = file.read_bytes(), HEADER, b""
    while at + HEADER <= len(data):
        if BLOCK - at % BLOCK < HEADER:
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + HEADER])
        piece += data[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if kind in (1, 4):  # whole, or the last part
            yield Record.FromString(piece)
            piece = b""
