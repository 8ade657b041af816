"""Run directories of an earlier version, made by it and kept here: they are read in today's words, and go on.

`earlier/` holds a run by name, a run of tensors, and a comparison, as version 0.1.0 wrote them with its old words.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

import flatfed as ff
from cli.command import flatfed
from flatfed.data.augment import BatchTransformChain, Cutout
from flatfed.data.storage.pool import Normalise
from flatfed.experiments.comparing.comparison import load_comparison
from flatfed.runs.directory import RunDirectory
from flatfed.runs.results import KeptResults

HERE = Path(__file__).parent / "earlier"


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """Return a copy that may be written to."""
    shutil.copytree(HERE, tmp_path / "earlier")
    return tmp_path / "earlier"


def test_the_files_really_are_in_the_old_words() -> None:
    config = json.loads((HERE / "tensors" / "config.json").read_text())
    assert {"every", "last", "batched"} <= set(config["settings"])
    assert config["sampler"]["id"] == "schedule"
    assert "joint" in config["task"]
    assert '"refused"' in (HERE / "tensors" / "history.jsonl").read_text()
    assert "verdict" in (HERE / "catalogue" / "flatness" / "readings.json").read_text()


def test_settings_and_task_have_todays_names() -> None:
    config = RunDirectory.open(HERE / "tensors").config
    assert (config["settings"]["evaluate_every"], config["settings"]["evaluate_last"]) == (2, 1)
    assert config["settings"]["vectorised"] is False
    assert not {"every", "last", "batched"} & set(config["settings"])
    assert "batch_transform" in config["task"]
    assert "local_layers" in RunDirectory.open(HERE / "catalogue").config["task"]


def test_the_history_speaks_of_rejected_updates() -> None:
    run = ff.load_run(HERE / "tensors")
    assert [row["rejected"][0]["client"] for row in run.history] == [1, 3, 2]
    assert all("refused" not in row for row in run.history)


def test_the_task_is_built_from_modules_that_moved() -> None:
    task = ff.load_run(HERE / "tensors")._federation.task
    assert isinstance(task.prepare, Normalise)
    assert task.batch_transform == BatchTransformChain((Cutout(2), Cutout(2)))


def test_cohorts_are_replayed() -> None:
    assert ff.load_run(HERE / "tensors")._federation.sampler == ff.Replay([[0, 1], [0, 3], [0, 2]])


@pytest.mark.parametrize("name", ["catalogue", "tensors"])
def test_the_model_is_the_one_that_was_saved(name: str) -> None:
    run = ff.load_run(HERE / name)
    recorded = json.loads((HERE / name / "status.json").read_text())
    assert run.metrics()["test_accuracy"] == pytest.approx(recorded["accuracy_final"], abs=1e-6)
    assert run.metrics()["test_loss"] == pytest.approx(recorded["test_loss_final"], rel=1e-4)


def test_a_run_goes_on_and_comes_to_what_a_new_one_comes_to(earlier: Path) -> None:
    """Like a new run of the whole length: to rounding, because the earlier rounds may be another machine's."""
    (path,) = [earlier / "comparison" / "fedsam" / "seed-0"]
    whole = ff.resume(path, rounds=4)
    out = earlier / "new"
    outcome = flatfed(
        "run", "digits", "fedsam", "--model", "logreg", "--clients", 4, "--per-round", 2, "--rounds", 4,
        "--evaluate-every", 2, "--workers", 0, "--no-augment", "--no-vectorised", "--out", out,
    )  # fmt: skip
    assert outcome.code == 0
    torch.testing.assert_close(whole.vector, ff.load_run(out).vector, rtol=1e-4, atol=1e-5)


def test_what_was_written_since_is_in_todays_words(earlier: Path) -> None:
    path = earlier / "comparison" / "fedavg" / "seed-0"
    ff.resume(path, rounds=3)
    settings = json.loads((path / "config.json").read_text())["settings"]
    assert settings["evaluate_every"] == 2
    assert not {"every", "last", "batched"} & set(settings)


def test_a_comparison_is_read_and_shown(earlier: Path) -> None:
    comparison = load_comparison(earlier / "comparison")
    assert (comparison.settings.evaluate_every, comparison.seeds) == (2, [0])
    outcome = flatfed("show", earlier / "comparison")
    assert outcome.code == 0
    assert "fedsam" in outcome.out


def test_results_are_still_there_and_points_are_not_measured_again(earlier: Path) -> None:
    run = earlier / "catalogue"
    ((key, result),) = KeptResults(run).of_round([3])
    assert key["measurement"]["id"] == "lambda_max"
    assert result["remark"].startswith("converged after")
    # Products are computed in another way since, so they are taken anew: to rounding, what was kept.
    with ff.laboratory(run, samples=100, workers=0) as lab:
        now = lab.measure("lambda_max")["lambda_max"].numbers
    assert now["lambda_max"] == pytest.approx(result["numbers"]["lambda_max"], rel=1e-6)
    assert KeptResults(run).of_round([3])
    points = next(run.glob("flatness/surface-*.jsonl"))
    before = points.read_bytes()
    outcome = flatfed("landscape", run, "--points", 3, "--samples", 100, "--workers", 0, "--out", earlier / "landscape")
    assert outcome.code == 0
    assert points.read_bytes() == before
