"""What a folder holds, without opening it."""

from __future__ import annotations

from pathlib import Path


def is_run(path: Path) -> bool:
    """Say whether a directory holds a run, and not a model of Hugging Face, whose configuration has the same name."""
    if not (path / "config.json").is_file():
        return False
    is_published = any((path / name).exists() for name in ("history.jsonl", "status.json", "environment.json"))
    return is_published or not any(path.glob("model*.safetensors*"))
