"""A run that goes on under other libraries or instructions says that its bits may differ; others say nothing."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import flatfed as ff
from records import rewrite
from runs.bench import small_run


def changed(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Let a run have begun in another environment."""
    file = path / "environment.json"
    record = json.loads(file.read_text())
    change(record)
    rewrite(file, record)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    small_run(tmp_path / "run", average=None, rounds=1)
    return tmp_path / "run"


def test_what_decides_bits_is_recorded(run: Path) -> None:
    record = json.loads((run / "environment.json").read_text())
    assert record["cpu"] == torch.backends.cpu.get_cpu_capability()
    assert record["packages"]["torch"] and record["packages"]["numpy"]


def test_other_instructions_and_libraries_are_named_in_a_line(run: Path) -> None:
    changed(run, lambda record: record.update(cpu="NEON"))
    changed(run, lambda record: record["packages"].update(numpy="0.1"))
    with pytest.warns(UserWarning, match="bits may differ") as caught:
        ff.resume(run, rounds=2)
    [warning] = caught
    text = str(warning.message)
    assert "CPU instructions NEON, now " in text
    assert "numpy 0.1, now " in text
    assert "torch" not in text
    assert "\n" not in text


def unchanged(record: dict[str, Any]) -> None:
    pass


def of_an_earlier_version(record: dict[str, Any]) -> None:
    del record["cpu"]
    record["packages"]["torch"] = "1.0"


@pytest.mark.parametrize("change", [unchanged, of_an_earlier_version])
def test_the_same_environment_and_records_of_earlier_versions_are_silent(
    change: Callable[[dict[str, Any]], None], run: Path
) -> None:
    changed(run, change)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ff.resume(run, rounds=2)


def test_a_record_that_is_missing_is_no_error(run: Path) -> None:
    (run / "environment.json").unlink()
    assert ff.resume(run, rounds=2).status == "finished"
