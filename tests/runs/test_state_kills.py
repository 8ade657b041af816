"""Kill -9 at any moment of the files of client states: what a checkpoint refers to stays, and the rest goes on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from flatfed.core.method.state import State
from flatfed.runs.checkpoints import Checkpoints
from flatfed.runs.states.store import StateStore
from methods.designs import WHOLE
from runs.bench import in_new_process
from runs.state_killer import CALLS

STEP = 1 if WHOLE else 3
"""Every third moment; every one in `make battery`."""


def test_killed_before_any_system_call_or_in_any_write(tmp_path: Path) -> None:
    done = in_new_process("-m", "runs.state_killer", str(tmp_path), str(STEP), timeout=600)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["wrong"] == []
    # All of it happened: places written, synced and cut off, logs begun anew and removed, checkpoints renamed.
    assert set(report["calls"]) == set(CALLS)
    assert report["moments"] > len(report["calls"]) // STEP


def test_a_checkpoint_gets_its_name_when_all_it_refers_to_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that stops loses what was not synced: at each rename nothing is left to sync."""
    unsynced: set[int] = set()
    renamed: list[set[int]] = []
    pwrite, fsync, rename = os.pwrite, os.fsync, os.rename

    def watched_pwrite(descriptor: int, *args: Any) -> int:
        file = os.fstat(descriptor)
        if file.st_nlink:  # not the scratch file, which is nobody's
            unsynced.add(file.st_ino)
        return pwrite(descriptor, *args)

    def watched_fsync(descriptor: int) -> None:
        unsynced.discard(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def watched_rename(source: Any, target: Any) -> None:
        if Path(target).name.startswith("round-"):
            renamed.append(set(unsynced))
        rename(source, target)

    for name, watched in {"pwrite": watched_pwrite, "fsync": watched_fsync, "rename": watched_rename}.items():
        monkeypatch.setattr(os, name, watched)
    store = StateStore(lambda: State({"h": torch.zeros(4)}), budget=0)
    checkpoints = Checkpoints(tmp_path / "checkpoints", "run")
    for round in range(1, 6):
        for client in range(round, round + 3):
            store.write(client, State({"h": torch.full((4,), float(round))}))
        checkpoints.save(round, {}, {"clients": store})
    assert renamed == [set()] * 5
