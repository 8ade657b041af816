"""Records of runs as a test changes them: written as flatfed would have written them, so that no seal is broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flatfed.runs.history import History, Row
from flatfed.runs.records.files import digest, opened_in_chain, read_json, write_json


def rewrite(path: Path, content: dict[str, Any]) -> None:
    """Write a sealed record; the checkpoints of a run then know nothing of the one before."""
    write_json(path, {name: value for name, value in content.items() if name != "seal"})
    if path.name == "config.json":
        unmark(path.parent)


def rewrite_rows(run: Path, rows: list[Row]) -> None:
    """Write a history with other rows."""
    history = History(run / "history.jsonl")
    history.begin(rows)
    history.close()


def unseal_rows(run: Path) -> None:
    """Let the lines of a history have no seals, as those of earlier versions."""
    history = run / "history.jsonl"
    if history.exists():
        lines = [opened_in_chain(line)[0] for line in history.read_bytes().splitlines()]
        history.write_bytes(b"".join(line + b"\n" for line in lines))


def unmark(run: Path) -> None:
    """Let checkpoints and status note nothing of the other files, and rows have no seals, as in earlier versions."""
    unseal_rows(run)
    for file in run.glob("checkpoints/round-*/checkpoint.json"):
        manifest = json.loads(file.read_text())["manifest"]
        manifest.pop("marks", None)
        file.write_text(json.dumps({"manifest": manifest, "sha256": digest(json.dumps(manifest).encode())}))
    status = run / "status.json"
    if status.exists():
        record = read_json(status)
        record.pop("history", None)
        write_json(status, record)
