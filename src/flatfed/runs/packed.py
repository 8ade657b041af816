"""Runs that were unpacked from compact results: rows stand for several rounds, and there is no checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flatfed.core.errors import CheckpointError
from flatfed.runs.records.files import read_json

FILE = "packed.json"
"""What lies in the directory of such a run: the round of its last model."""
ROUNDS = "rounds_summed"
"""The column of a row that stands for several rounds: how many. Its bytes, backprops and seconds are sums over them."""


def rounds_of(row: Mapping[str, Any]) -> int:
    """Return for how many rounds a row stands."""
    count: int = row.get(ROUNDS, 1)
    return count


def is_packed(run: Path) -> bool:
    """Say whether a run was unpacked from compact results."""
    return (run / FILE).is_file()


def newest_round(run: Path, checkpoints: Sequence[int]) -> list[int]:
    """Return the round of a run's newest model, of which there are `checkpoints`, newest first; nothing for none."""
    if checkpoints or not is_packed(run):
        return list(checkpoints[:1])
    record = read_json(run / FILE)
    return [record["round"]] if isinstance(record.get("round"), int) else []


def refuse_packed(run: Path) -> None:
    """Refuse to go on with a run that has no checkpoint, because it was unpacked."""
    if is_packed(run):
        raise CheckpointError(
            f"{run} was unpacked from compact results, and has no checkpoint to go on from; "
            "train it anew: run the study's file with another folder (--out)"
        )
