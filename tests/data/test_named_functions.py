"""Data sets by import path: a function of the user's own that returns tensors, arrays or a pool."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import flatfed as ff
from cli.command import flatfed, read_history, read_json, refused, without_time
from flatfed.core.errors import ConfigError
from flatfed.data import load
from flatfed.data.storage.tensor_pools import pool_of
from flatfed.experiments.tasks.recipe import TaskRecipe
from records import rewrite

QUICK = ("--clients", "3", "--workers", "0", "--alpha", "100")

CODE = """
from pathlib import Path
import numpy as np
import torch
from flatfed.data import load as catalogue

Path({marker!r}).touch()

def load(n: int = 60, shift: float = 0.0):
    x = np.random.default_rng(0).normal(size=(n, 3)) + shift
    y = (x.sum(1) > shift).astype(int)
    return x[:-20], y[:-20], x[-20:], y[-20:]

def drawn():
    x = torch.randn(30, 2)
    y = np.random.randint(0, 2, 30)
    return dict(x_train=x, y_train=y, x_test=x, y_test=y, classes=2)

def needs(path):
    raise RuntimeError(f"no {{path}} here")

def anything(**options):
    return load(**options)

def within(directory, n: int = 40):
    assert directory.path
    return load(n)

def digits():
    return catalogue("digits")

def nothing():
    return None

constant = 3
class Data: pass
"""


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that is there once the code has run."""
    return tmp_path / "code-has-run"


@pytest.fixture
def module(tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the folder where the user works."""
    (tmp_path / "own_sets.py").write_text(CODE.format(marker=str(marker)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    forget(monkeypatch, "own_sets")
    return "own_sets"


def forget(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Have a module forgotten now, and when the test ends."""
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, name)


# --- what a function may return -------------------------------------------------------------------------------

X, Y = np.arange(24.0).reshape(8, 3), np.arange(8) % 2


def test_four_arrays_are_rows_of_numbers() -> None:
    pool = pool_of("mine", (X, Y, X[:2], Y[:2]))
    assert (dict(pool.facts), pool.default_model, pool.classes) == ({"in_features": 3}, "mlp", 2)
    inputs, targets = pool.train.batch(torch.arange(8))
    assert torch.equal(inputs, torch.tensor(X, dtype=torch.float32)) and targets.tolist() == Y.tolist()
    assert pool_of("mine", pool) is pool
    assert pool_of("mine", [X.tolist(), Y.tolist(), X.tolist(), Y.tolist()]).classes == 2


def test_a_dictionary_may_say_more() -> None:
    data = {"x_train": X, "y_train": Y, "x_test": X, "y_test": Y}
    pool = pool_of("mine", data | {"class_names": ["a", "b", "c"], "client": Y.astype(np.uint8)})
    assert (pool.classes, list(pool.class_names), pool.groups["client"].tolist()) == (3, ["a", "b", "c"], Y.tolist())
    assert pool_of("mine", data | {"classes": 7}).classes == 7


@pytest.mark.parametrize(("side", "model"), [(3, "mlp"), (8, "cnn-small"), (20, "cnn")])
def test_images_are_bytes_or_numbers(side: int, model: str) -> None:
    images = np.full((8, 2, side, side), 255, np.uint8)
    pool = pool_of("mine", (images, Y, images, Y))
    assert (dict(pool.facts), pool.default_model) == ({"in_channels": 2, "image_size": side}, model)
    assert pool.prepare is not None
    assert torch.equal(pool.prepare(torch.from_numpy(images)), torch.ones(8, 2, side, side))
    assert pool_of("mine", (images / 255.0, Y, images / 255.0, Y)).prepare is None


def test_what_is_returned_is_a_copy() -> None:
    x = X.astype(np.float32)
    pool = pool_of("mine", (x, Y, x, Y))
    x[:] = 0
    assert pool.train.batch(torch.tensor([7]))[0].tolist() == [[21.0, 22.0, 23.0]]


BAD: dict[str, tuple[Any, str]] = {
    "none": (None, r"mine returns a NoneType, not a Pool, \(x_train, y_train, x_test, y_test\), or a dictionary"),
    "three": ((X, Y, X), "mine returns a tuple of 3, not a Pool"),
    "key": ({"x_train": X, "y_trian": Y}, "unknown key 'y_trian'; did you mean 'y_train'"),
    "lacking": ({"x_train": X, "y_train": Y}, "mine returns a dictionary without x_test, y_test"),
    "words": ((X, ["a"] * 8, X, Y), "mine: y_train is no array of numbers"),
    "reals": ((X, Y + 0.5, X, Y), "mine: y_train must be whole numbers, not float64; a regression needs"),
    "columns": ((X, Y.reshape(8, 1), X, Y), "mine: y_train must be one number per example, not of shape 8 x 1"),
    "count": ((X, Y[:7], X, Y), "mine: x_train has 8 examples, y_train 7"),
    "none left": ((X, Y, X[:0], Y[:0]), "mine: x_test has no examples"),
    "features": ((X, Y, X[:, :2], Y), "mine: x_train is 8 x 3 float32, x_test 8 x 2 float32; but for the number"),
    "shape": ((X.reshape(8, 3, 1), Y, X.reshape(8, 3, 1), Y), "mine: x_train must be N x features or N x channels"),
    "infinite": ((X + np.inf, Y, X, Y), "mine: x_train holds numbers that are not finite"),
    "negative": ((X, Y - 1, X, Y), "mine: y_train and y_test must be from 0 to"),
    "complex": ((X * 1j, Y, X, Y), "mine: x_train holds complex numbers"),
    "classes": ({"x_train": X, "y_train": Y, "x_test": X, "y_test": Y, "classes": 1}, "must be from 0 to 0"),
    "no number": ({"x_train": X, "y_train": Y, "x_test": X, "y_test": Y, "classes": "2"}, "must be a whole number"),
    "owners": ({"x_train": X, "y_train": Y, "x_test": X, "y_test": Y, "client": Y[:3]}, "client must be an int64"),
}


@pytest.mark.parametrize(("data", "reason"), BAD.values(), ids=BAD.keys())
def test_what_is_no_data_set(data: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        pool_of("mine", data)


# --- functions by name ----------------------------------------------------------------------------------------


def test_options_reach_the_function(module: str) -> None:
    assert len(load(f"{module}:load").train) == 40
    assert len(load(f"{module}:load", n=100).train) == 80
    assert len(load(f"{module}:anything", n=100).train) == 80
    assert len(load(f"{module}:within").train) == 20
    assert load(f"{module}:digits").name == "digits"
    with pytest.raises(ConfigError, match=r"unknown option 'm'; .*\(own_sets:load takes n, shift\)"):
        load(f"{module}:load", m=100)
    with pytest.raises(ConfigError, match=r"data\.n must be"):
        load(f"{module}:load", n="many")
    with pytest.raises(ConfigError, match="the option path has no default"):
        load(f"{module}:needs")


def test_draws_of_a_function_are_the_same_every_time(module: str) -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = load(f"{module}:drawn")
    torch.manual_seed(2)
    again = load(f"{module}:drawn")
    assert torch.equal(first.train.batch(torch.arange(30))[0], again.train.batch(torch.arange(30))[0])
    assert torch.equal(first.labels, again.labels)
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), state)


def test_mistakes_are_named(module: str) -> None:
    for name, reason in {
        "needs": r"the data set own_sets:needs cannot be loaded: no x here \(.*own_sets\.py, line 20\)",
        "constant": "the data set own_sets:constant is a int, not a function that returns one",
        "Data": "the data set own_sets:Data is a class, not a function",
        "nothing": "own_sets:nothing returns a NoneType, not a Pool",
        "lod": "the data set own_sets:lod cannot be imported: .*lod",
        "catalogue": "the data set own_sets:catalogue is no function of your own",
    }.items():
        options = {"path": "x"} if name == "needs" else {}
        with pytest.raises(ConfigError, match=reason):
            load(f"{module}:{name}", **options)
    for name in ("os:system", "builtins:exec", "subprocess:getoutput"):
        with pytest.raises(ConfigError, match=f"{name}, which is in Python's standard library"):
            load(name)
    for name in ("torch.hub:load", "flatfed.models:build", "torch:load"):
        with pytest.raises(ConfigError, match=f"{name} is no function of your own"):
            load(name)
    with pytest.raises(ConfigError, match=r"No module named 'nowhere_sets'; start in the folder that holds it"):
        load("nowhere_sets:load")


# --- runs -----------------------------------------------------------------------------------------------------


def run_own(*options: str) -> Path:
    words = ("run", "own_sets:load", "fedavg", *QUICK, "--set", "data.shift=0.5", *options)
    done = flatfed(*words)
    assert done.code == 0, done.err
    return Path(options[-1])


@pytest.mark.usefixtures("module")
def test_a_run_records_the_function_and_goes_on(tmp_path: Path) -> None:
    run = run_own("--rounds", "2", "--out", "runs/x")
    whole = run_own("--rounds", "4", "--out", "runs/whole")
    config = read_json(run / "config.json")
    assert (config["task"]["dataset"], config["task"]["data_options"]) == ("own_sets:load", {"shift": 0.5})
    assert config["setting"]["data"]["options"] == {"n": 60, "shift": 0.5}
    assert config["code"] == {"own_sets": str(tmp_path / "own_sets.py")}
    assert flatfed("resume", run, "--rounds", "4", "--workers", "0").code == 0
    assert without_time(read_history(run)) == without_time(read_history(whole))
    for command in (("show", run), ("evaluate", run, "--workers", "0"), ("data", "show", "own_sets:load", *QUICK[:2])):
        assert flatfed(*command).code == 0
    assert "own_sets:load is in order" in flatfed("data", "check", "own_sets:load").out
    out = flatfed("run", "own_sets:load", "fedavg", *QUICK, "--rounds", "1")
    assert "runs/own_sets.load-fedavg-001" in out.err


@pytest.mark.usefixtures("module")
def test_other_data_than_before_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_own("--rounds", "2", "--out", "runs/x")
    file = tmp_path / "own_sets.py"
    file.write_text(file.read_text().replace("default_rng(0)", "default_rng(1)"))
    forget(monkeypatch, "own_sets")
    refused(flatfed("evaluate", run, "--workers", "0"), "than when the run was made", "--accept-changed-data")


# --- trust ----------------------------------------------------------------------------------------------------

OPENING: dict[str, tuple[str, ...]] = {
    "resume": ("--rounds", "4", "--workers", "0"),
    "evaluate": ("--workers", "0"),
    "branch": ("--average", "swa", "--from", "1", "--out", "branched", "--workers", "0"),
    "flatness": ("--measure", "loss", "--samples", "20", "--workers", "0"),
}
"""Commands that load the data of a run."""


@pytest.fixture
def stranger(tmp_path_factory: pytest.TempPathFactory, marker: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that can be imported, but lies in no project of the user's; with the same data."""
    folder = tmp_path_factory.mktemp("installed")
    (folder / "strange_sets.py").write_text(CODE.format(marker=str(marker)))
    monkeypatch.syspath_prepend(str(folder))
    forget(monkeypatch, "strange_sets")
    return "strange_sets:load"


def with_dataset(file: Path, dataset: str, **changes: Any) -> None:
    """Change the data set that the record of a run or a comparison names."""
    record = read_json(file)
    record["task"] |= {"dataset": dataset} | changes
    rewrite(file, record)


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize("command", OPENING)
def test_a_run_does_not_run_the_data_that_it_names(command: str, marker: Path, stranger: str) -> None:
    run = run_own("--rounds", "2", "--out", "runs/x")
    marker.unlink()
    with_dataset(run / "config.json", "subprocess:getoutput", data_options={"cmd": f"touch {marker}"})
    refused(flatfed(command, run, *OPENING[command]), "names subprocess:getoutput", "standard library")
    with_dataset(run / "config.json", "torch.nn.functional:relu", data_options={})
    refused(flatfed(command, run, *OPENING[command]), "torch.nn.functional:relu is no function of your own")
    with_dataset(run / "config.json", stranger, data_options={"shift": 0.5})
    refused(flatfed(command, run, *OPENING[command]), stranger, "strange_sets.py", "would run", "--trust")
    for look in ((), ("--json",)):
        assert flatfed("show", run, *look).code == 0
    assert not marker.exists()
    done = flatfed(command, run, *OPENING[command], "--trust")
    assert (done.code, marker.exists()) == (0, True), done.err


@pytest.mark.usefixtures("module")
def test_a_comparison_does_not_run_the_data_that_it_names(marker: Path, stranger: str) -> None:
    done = flatfed("compare", "own_sets:load", "fedavg", *QUICK, "--rounds", "1", "--seeds", "0", "--out", "runs/c")
    assert done.code == 0, done.err
    marker.unlink()
    with_dataset(Path("runs/c/comparison.json"), stranger)
    shutil.rmtree("runs/c/fedavg")
    refused(flatfed("resume", "runs/c"), stranger, "would run", "--trust")
    assert not marker.exists()
    assert flatfed("resume", "runs/c", "--trust").code == 0
    assert marker.exists()


@pytest.mark.usefixtures("module")
def test_code_that_came_with_a_run_is_not_the_users(marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_own("--rounds", "2", "--out", "pack/x")
    marker.unlink()
    (run / "evil_sets.py").write_text(CODE.format(marker=str(marker)))
    for name in ("pack", "pack.x", "pack.x.evil_sets"):
        forget(monkeypatch, name)
    with_dataset(run / "config.json", "pack.x.evil_sets:load")
    refused(flatfed("evaluate", run, "--workers", "0"), "pack.x.evil_sets:load", "--trust")
    assert not marker.exists()


def test_a_record_does_not_say_who_names_its_code() -> None:
    from flatfed.named_code import NamedBy

    by = NamedBy(Path("config.json"))
    recipe = TaskRecipe.from_dict({"dataset": "os:system", "by": None}, by)
    assert recipe.by is by and "by" not in recipe.to_dict()


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize("what", ["dataset", "model"])
def test_a_task_of_the_users_own_does_not_let_the_record_s_code_in(what: str, marker: Path, stranger: str) -> None:
    run = run_own("--rounds", "2", "--out", "runs/x")
    task = TaskRecipe("own_sets:load", clients=3, data_options={"shift": 0.5}).build()
    marker.unlink()
    record = read_json(run / "config.json")
    record["task"][what] = stranger
    rewrite(run / "config.json", record)
    with pytest.raises(ConfigError, match=r"strange_sets.*would run.*trust=True"):
        ff.branch(run, ff.SWA(), "branched", round=1, task=task, workers=0)
    assert not marker.exists()
