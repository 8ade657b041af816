"""Unpacking a study: a folder on which all that reads studies works, made from compact results.

Its runs have no checkpoints: they can be shown, judged and reported, not gone on with. The study can: what is not there
is trained in the folder, and packed with the rest.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from flatfed.core.errors import PARAMETER, CheckpointError, ConfigError
from flatfed.runs.directory import RunDirectory
from flatfed.runs.environment import FILE as ENVIRONMENT
from flatfed.runs.history import History
from flatfed.runs.packed import FILE as PACKED
from flatfed.runs.records.files import FORMAT, read_json, sealed
from flatfed.runs.results import FOLDER as FLATNESS
from flatfed.studies.cells import CELLS, CHOOSING
from flatfed.studies.folder import FILE
from flatfed.studies.packing.blocks import rows_of

UNPACKED = "unpacked"
"""What the record of such a folder says of itself."""
REMARK = "unpacked from compact results: rows of histories are those of evaluated rounds, and there are no checkpoints"


def unpack_study(source: Path, folder: Path) -> int:
    """Make a study's folder from compact results, and return how many cells it has."""
    record = _record(source)
    if folder.exists():
        raise ConfigError(f"{folder} exists; choose another {PARAMETER}", parameter="folder")
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        files = packed_files(source)
        for file in files:
            _unpack(file, source, temporary)
        _write(temporary / FILE, {**record, "command": "", "file": "", UNPACKED: True})
        # Whole, or not there.
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return len(files)


def _record(source: Path) -> dict[str, Any]:
    if not (source / FILE).is_file():
        raise ConfigError(f"{source} holds no packed study; make one with: flatfed study pack FOLDER DEST")
    record = read_json(source / FILE)
    if "study" not in record or "command" in record:
        raise ConfigError(f"{source} is the folder of a study, not a packed one; it can be shown as it is")
    return record


def refuse_packed(folder: Path, record: Mapping[str, Any]) -> None:
    """Refuse compact results where the folder of a study is meant, and say how to make one of them."""
    if "study" not in record or "command" in record or not packed_files(folder):
        return
    source = shlex.quote(str(folder))
    raise ConfigError(f"{folder} holds a packed study; make a folder of it first: flatfed study unpack {source} FOLDER")


def packed_files(source: Path) -> list[Path]:
    """Return the files of the cells of a packed study, in one order everywhere."""
    return sorted(file for part in (CELLS, CHOOSING) for file in (source / part).rglob("seed-*.json"))


def _unpack(file: Path, source: Path, folder: Path) -> None:
    record = read_json(file)
    path = file.relative_to(source).with_suffix("").as_posix()
    if record.get("path") != path or ".." in PurePosixPath(path).parts:
        raise CheckpointError(f"{file} is the result of {record.get('path')}; put it back in its place")
    key = PurePosixPath(str(record["key"])).name
    if record["description"] is not None:
        _write(folder / "begun" / f"{key}.json", {"path": path, "description": record["description"]})
    if record["state"] == "failed":
        reason = {"cell": record["name"], "reason": record["reason"], "trace": ""}
        _write(folder / "failures" / f"{key}.json", reason)
    if "config" in record:
        _unpack_run(record, folder / path)


def _unpack_run(record: Mapping[str, Any], run: Path) -> None:
    run.mkdir(parents=True)
    _write(run / ENVIRONMENT, record["environment"])
    _write(run / PACKED, {"round": record["newest"], "rounds": record["rounds"]})
    if record["measured"]:
        _write(run / FLATNESS / "results.json", {"results": record["measured"]})
    history = History(run / "history.jsonl")
    history.begin(rows_of(record["history"]))
    _write(run / "config.json", record["config"])
    status = {"status": record["state"], "reason": record["reason"], "history": history.mark}
    _write(run / "status.json", status)
    # What was written is read as every run is: what is no run is an error now, and not in a report.
    RunDirectory.open(run)


def _write(file: Path, record: Mapping[str, Any]) -> None:
    """Write a sealed record; not synced, as it can be made again."""
    file.parent.mkdir(parents=True, exist_ok=True)
    content = sealed({"format": FORMAT, **record})
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
