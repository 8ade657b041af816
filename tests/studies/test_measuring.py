"""`flatfed study measure`: models are measured before all cells have ended, and are packed with what was measured."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cli.command import flatfed
from studies.bench import run_here

STUDY = {"methods": ["fedavg"], "seeds": [0, 1], "report": {"flatness": "lambda_max", "flatness_samples": 40}}


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """Return the folder of a study of which one cell has ended, and the other has not begun."""
    folder = run_here(tmp_path / "half", **STUDY).folder.path
    shutil.rmtree(folder / "cells" / "fedavg" / "seed-1")
    return folder


def packed(folder: Path, to: Path) -> list[dict[str, object]]:
    """Return the compact results of a study."""
    assert flatfed("study", "pack", folder, to).code == 0
    return [json.loads(file.read_text()) for file in sorted(to.rglob("seed-*.json"))]


def test_what_has_ended_is_measured_and_packed(half: Path, tmp_path: Path) -> None:
    (before,) = packed(half, tmp_path / "before")
    assert not before["measured"]
    done = flatfed("study", "measure", half, "--jobs", "1")
    assert done.code == 0 and "runs measured: 1" in done.out
    (after,) = packed(half, tmp_path / "after")
    assert "lambda_max" in json.dumps(after["measured"])
    assert "runs measured: 0" in flatfed("study", "measure", half, "--jobs", "1").out


def test_a_study_that_measures_nothing_says_what_to_add(tmp_path: Path) -> None:
    folder = run_here(tmp_path / "plain", methods=["fedavg"], seeds=[0]).folder.path
    done = flatfed("study", "measure", folder)
    assert done.code == 2 and "report: {flatness: true}" in done.err
