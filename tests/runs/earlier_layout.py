"""A run directory in the layout of earlier versions: a safetensors file for each client's state."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from flatfed.core.method.messages import pack
from flatfed.runs.checkpoints import Checkpoints


def in_earlier_layout(run: Path) -> list[Path]:
    """Write a run's checkpoints anew as earlier versions had them; return the files of client states."""
    folder, identity = run / "checkpoints/states", json.loads((run / "config.json").read_text())["run"]
    today = list(folder.iterdir())
    for round in Checkpoints(run / "checkpoints", identity).rounds():
        loaded = Checkpoints(run / "checkpoints", identity).load(round)
        file = run / f"checkpoints/round-{round:06d}/checkpoint.json"
        manifest: dict[str, Any] = json.loads(file.read_text())["manifest"]
        manifest |= {"format": 1, "states": {"clients": {}, "records": {}}}
        for name, states in loaded.states.items():
            for client, tensors in states.items():
                manifest["states"][name][str(client)] = _written(folder, f"{name}-{client:06d}", pack(tensors))
        digest = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
        file.write_text(json.dumps({"manifest": manifest, "sha256": digest}))
    for old in today:
        old.unlink()
    return sorted(folder.iterdir())


def _written(folder: Path, stem: str, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    # By content: what two checkpoints share is one file.
    name = f"{stem}-{int(digest[:5], 16):06d}.safetensors"
    (folder / name).write_bytes(data)
    return f"{name}:{digest}"
