"""What a bundle holds: which files of a run, under which names; no other name is ever packed or unpacked."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from flatfed.experiments.tasks.recipe import TENSORS
from flatfed.runs.directory import BRANCH

MANIFEST, CARD, MODEL = "bundle.json", "README.md", "model.safetensors"
RECORDS = ("config.json", "environment.json", "history.jsonl", "status.json", BRANCH, "flatness/results.json")
"""The records of a run: what it is, what it was made with, its rows, its end, and what was measured."""
CHECKPOINT = re.compile(r"checkpoints/round-([0-9]{6,12})/(?:checkpoint\.json|server\.safetensors)")
STATES = re.compile(r"checkpoints/states/[A-Za-z0-9][A-Za-z0-9._-]{0,150}\.(?:states|index|safetensors)")
PLAIN = frozenset((*RECORDS, TENSORS, CARD, MODEL))


def is_known(name: str) -> bool:
    """Say whether a name is one that a bundle may have, beside its manifest."""
    return name in PLAIN or any(pattern.fullmatch(name) for pattern in (CHECKPOINT, STATES))


def files_of_run(run: Path, checkpoints: Collection[int], with_tensors: bool) -> list[str]:
    """Return the names of the files of a run that go into its bundle, in order; `checkpoints` are those to pack."""
    plain = [name for name in RECORDS if (run / name).is_file()]
    if with_tensors and (run / TENSORS).is_file():
        plain.append(TENSORS)
    inside = (path.relative_to(run).as_posix() for path in (run / "checkpoints").rglob("*") if path.is_file())
    return [*plain, *sorted(name for name in inside if is_known(name) and _round_of(name) in (None, *checkpoints))]


def _round_of(name: str) -> int | None:
    """Return the round of a checkpoint's own file; None of states, which checkpoints share."""
    match = CHECKPOINT.fullmatch(name)
    return None if match is None else int(match[1])
