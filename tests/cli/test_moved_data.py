"""Data that were moved after a run was made: every command takes --data-dir, and `resume` takes note of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import flatfed as ff
from cli.command import Outcome, flatfed, read_history, read_json, without_time
from flatfed.experiments.tasks.recipe import _pool

TINY = ("--clients", "4", "--per-round", "2", "--workers", "0", "--model", "logreg", "--evaluate-every", "1")


def write_cifar(root: Path, seed: int = 0) -> Path:
    """Write a small CIFAR-10 in its binary layout."""
    rng, folder = np.random.default_rng(seed), root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        records = rng.integers(0, 256, (20, 3073)).astype(np.uint8)
        records[:, 0] %= 10
        records.tofile(folder / f"{name}.bin")
    return root


def move(old: str, new: str) -> Path:
    shutil.move(old, new)
    _pool.cache_clear()  # this process has read them already
    return Path(new).absolute()


def missing(outcome: Outcome) -> None:
    assert (outcome.code, outcome.out) == (2, "")
    last = outcome.err.splitlines()[-1]
    assert last.startswith("Error: ") and "is missing" in last and "--data-dir" in last


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """A run of two rounds in `run`, whose data have gone to the folder returned; and one of three in `whole`."""
    write_cifar(tmp_path / "data")
    for out, rounds in (("whole", 3), ("made", 2)):
        given = ("run", "cifar10", "fedavg", *TINY, "--rounds", rounds, "--data-dir", "data", "--out", out)
        assert flatfed(*given).code == 0
    shutil.copytree("made", "run")  # a place that this process does not know
    return move("data", "elsewhere")


def test_resume_finds_moved_data_and_remembers_them(moved: Path) -> None:
    missing(flatfed("resume", "run", "--rounds", "3"))
    outcome = flatfed("resume", "run", "--rounds", "3", "--data-dir", "elsewhere")
    assert outcome.code == 0, outcome.err
    assert without_time(read_history(Path("run"))) == without_time(read_history(Path("whole")))
    assert read_json(Path("run/config.json"))["task"]["data_dir"] == str(moved)
    shutil.copytree("run", "again")
    assert flatfed("evaluate", "again").code == 0


def test_resume_remembers_them_without_a_new_round(moved: Path) -> None:
    before = read_json(Path("run/config.json"))
    assert flatfed("resume", "run", "--data-dir", moved).code == 0
    after = read_json(Path("run/config.json"))
    assert after["task"].pop("data_dir") == str(moved)
    assert after.pop("replaces") == [before.pop("seal")]
    del after["seal"]
    assert after == before | {"task": {n: v for n, v in before["task"].items() if n != "data_dir"}}


def test_from_python(moved: Path) -> None:
    with pytest.raises(ff.ConfigError, match="is missing"):
        ff.resume("run", 3)
    run = ff.resume("run", 3, data_dir=moved)
    assert without_time(run.history) == without_time(read_history(Path("whole")))
    assert ff.load_run("run").metrics() == run.metrics()


def test_other_data_are_refused(moved: Path) -> None:
    write_cifar(Path("other"), seed=1)
    outcome = flatfed("resume", "run", "--data-dir", "other")
    assert outcome.code == 2
    assert "another partition" in outcome.err
    assert read_json(Path("run/config.json"))["task"]["data_dir"] != str(Path("other").absolute())


def test_a_comparison_goes_on_with_moved_data(tmp_path: Path) -> None:
    write_cifar(tmp_path / "data")
    given = ("compare", "cifar10", "fedavg", "fedsam", "--seeds", "0,1", *TINY, "--rounds", "2", "--data-dir", "data")
    assert flatfed(*given, "--out", "made").code == 0
    whole = {run.relative_to("made"): without_time(read_history(run)) for run in Path("made").glob("*/seed-*")}
    shutil.copytree("made", "two")
    shutil.rmtree("two/fedsam/seed-1")
    run = Path("two/fedavg/seed-1")
    for checkpoint in sorted((run / "checkpoints").glob("round-*"))[1:]:
        shutil.rmtree(checkpoint)
    (run / "status.json").write_text(json.dumps({"status": "interrupted"}))
    moved = move("data", "elsewhere")
    missing(flatfed("resume", "two"))
    outcome = flatfed("resume", "two", "--data-dir", "elsewhere")
    assert outcome.code == 0, outcome.err
    assert {run.relative_to("two"): without_time(read_history(run)) for run in Path("two").glob("*/seed-*")} == whole
    for file in ("two/comparison.json", "two/fedavg/seed-1/config.json", "two/fedsam/seed-1/config.json"):
        assert read_json(Path(file))["task"]["data_dir"] == str(moved)
    shutil.copytree("two", "again")
    shutil.rmtree("again/fedavg/seed-0")
    assert flatfed("resume", "again").code == 0


def test_data_of_ones_own_are_found_under_their_name() -> None:
    lines = [f"{'ab'[n % 2]},word{n % 7} {'good' if n % 2 else 'bad'} text" for n in range(40)]
    Path("texts.csv").write_text("\n".join(lines) + "\n")
    options = ("--rounds", "1", "--clients", "3", "--workers", "0", "--set", "data.path=texts.csv")
    assert flatfed("run", "texts", "fedavg", *options, "--set", "data.length=8", "--out", "made").code == 0
    shutil.copytree("made", "run")
    Path("kept").mkdir()
    moved = move("texts.csv", "kept/texts.csv")
    assert flatfed("evaluate", "run").code == 2
    assert flatfed("evaluate", "run", "--data-dir", "kept").code == 0
    assert flatfed("resume", "run", "--rounds", "2", "--data-dir", "kept").code == 0
    assert read_json(Path("run/config.json"))["task"]["data_options"] == {"path": str(moved), "length": 8}
    shutil.copytree("run", "again")
    assert flatfed("evaluate", "again").code == 0


def test_a_run_from_python_has_no_data_directory(tmp_path: Path) -> None:
    import torch
    from torch import nn

    x, y = torch.randn(20, 4), torch.randint(0, 2, (20,))
    task = ff.Task(nn.Linear(4, 2), [(x, y)], (x, y))
    ff.train(task, ff.make("fedavg"), rounds=1, sampling=1, lr=0.1, workers=0, out=tmp_path / "run")
    outcome = flatfed("resume", "run", "--data-dir", "data")
    assert outcome.code == 2
    assert "do not come from a data directory" in outcome.err
