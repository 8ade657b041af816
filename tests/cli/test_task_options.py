"""Options that describe the task: augmentation, weights, models of one's own, data, clients a round, the partition."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import flatfed as ff
from cli.command import Outcome, fingerprint, flatfed, read_history, read_json, refused, without_time
from flatfed import models
from flatfed.experiments.tasks.recipe import TaskRecipe
from records import rewrite

TINY = (
    "--rounds",
    "1",
    "--clients",
    "5",
    "--per-round",
    "2",
    "--workers",
    "0",
    "--evaluate-every",
    "1",
    "--model",
    "logreg",
)
TWICE = ("--rounds", "2", *TINY[2:])


def train(*options: object, out: str = "out", method: str = "fedavg", how: tuple[str, ...] = TINY) -> Outcome:
    return flatfed("run", "digits", method, *how, *options, "--out", out)


def trained(*options: object, out: str = "out", how: tuple[str, ...] = TINY) -> dict[str, Any]:
    """Train and return the task as the run directory describes it."""
    outcome = train(*options, out=out, how=how)
    assert outcome.code == 0, outcome.err
    task: dict[str, Any] = read_json(Path(out, "config.json"))["task"]
    return task


def rows(out: str = "out") -> list[dict[str, Any]]:
    return without_time(read_history(Path(out)))


def refused_with_a_path(outcome: Outcome, *parts: str) -> None:
    """As `refused`, where the sentence holds paths of any length."""
    assert (outcome.code, outcome.out) == (2, ""), outcome
    [line] = outcome.err.splitlines()
    assert line.startswith("Error: ")
    for part in parts:
        assert part in line


# --- augmentation -----------------------------------------------------------------------------------------

AUGMENTED: list[tuple[list[str], bool | str]] = [
    ([], True),
    (["--augment"], True),
    (["--augment", "default"], True),
    (["--augment", "none"], False),
    (["--no-augment"], False),
    (["--augment", "crop-flip"], "crop-flip"),
    (["--augment", "crop(1),cutout(2)"], "crop(1),cutout(2)"),
    (["--augment", "mixup(alpha=0.5)"], "mixup(alpha=0.5)"),
]


def test_each_augmentation_is_recorded_and_trains_in_its_own_way() -> None:
    actual: dict[bool | str, set[float]] = {}
    for number, (options, recorded) in enumerate(AUGMENTED):
        task = trained(*options, out=f"out{number}")
        assert task["augment"] == recorded, options
        actual.setdefault(recorded, set()).add(rows(f"out{number}")[0]["train_loss"])
    assert all(len(losses) == 1 for losses in actual.values())
    assert len(set.union(*actual.values())) == len(actual) == 5


def test_none_shows_the_examples_as_they_are() -> None:
    trained("--augment", "none", "--batch-size", "full", "--weight-decay", "0")
    task = TaskRecipe("digits", clients=5, model="logreg", augment=False).build()
    run = ff.train(task, ff.make("fedavg"), rounds=1, sampling=2, lr=0.1, batch_size=None, weight_decay=0, workers=0)
    assert rows()[0]["train_loss"] == run.history[0]["train_loss"]
    assert task.augment is None and task.batch_transform is None


@pytest.mark.parametrize(
    ("text", "recorded"),
    [("augment: false", False), ("augment: true", True), ("augment: none", False), ("augment: crop(1)", "crop(1)")],
)
def test_augmentation_in_a_file(text: str, recorded: bool | str) -> None:
    Path("file.yaml").write_text(text + "\n")
    assert trained("--config", "file.yaml")["augment"] == recorded
    assert trained("--config", "file.yaml", "--augment", "flip", out="typed")["augment"] == "flip"


@pytest.mark.parametrize("name", ["mixup", "crop(1),flip,cutout(2),mixup(0.4)"])
def test_resuming_keeps_the_augmentation(name: str) -> None:
    trained("--augment", name, out="whole", how=TWICE)
    trained("--augment", name)
    shutil.copytree("out", "elsewhere")  # a place that this process does not know
    assert flatfed("resume", "elsewhere", "--rounds", "2").code == 0
    assert rows("elsewhere") == rows("whole")
    trained(out="other", how=TWICE)
    assert rows("whole")[1]["train_loss"] != rows("other")[1]["train_loss"]


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("crop-flp", ["unknown augmentation 'crop-flp'", "'crop-flip'"]),
        ("cutuot(8)", ["unknown augmentation 'cutuot'", "'cutout'"]),
        ("crop,mixpu", ["unknown augmentation 'mixpu'", "'mixup'"]),
        ("True", ["unknown augmentation 'True'"]),
        ("crop(", ["'crop('"]),
        ("crop(x)", ["crop", "'x' is not a number"]),
        ("crop(paddin=1)", ["crop", "'paddin'", "'padding'"]),
        ("flip(1,2)", ["flip takes p"]),
        ("mixup(0)", ["alpha", "positive"]),
        ("", ["--augment", "''"]),
        ("none,crop", ["--augment", "'none' stands alone"]),
        ("crop, none", ["--augment", "'none' stands alone"]),
        ("default,crop", ["--augment", "'default' stands alone"]),
    ],
)
def test_augmentations_that_are_not_there(value: str, parts: list[str], tmp_path: Path) -> None:
    refused(train("--augment", value), *parts)
    refused(flatfed("compare", "digits", "fedavg", *TINY, "--augment", value, "--out", "out"), *parts)
    assert fingerprint(tmp_path) == {}


# --- weights ----------------------------------------------------------------------------------------------


def saved(name: str, model: str = "logreg", change: Any = None) -> Path:
    """Write weights that no seed gives."""
    tensors = {key: torch.full_like(t, 0.01) for key, t in models.build(model, 10, 1, 8).state_dict().items()}
    if change is not None:
        change(tensors)
    safetensors.torch.save_file(tensors, name)
    return Path(name).absolute()


def test_training_starts_from_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved("start.safetensors")
    task = trained("--weights", "start.safetensors", "--lr", "0")
    assert task["weights"] == str(path)
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)  # the record holds from any folder
    shutil.copytree("../out", "out")
    for name, tensor in ff.load_run("out").model().state_dict().items():
        assert torch.equal(tensor, torch.full_like(tensor, 0.01)), name
    assert flatfed("resume", "out", "--rounds", "2").code == 0


@pytest.mark.parametrize("parts", [(), ("--local-layers", "bn")], ids=["shared", "local layers"])
def test_the_file_of_the_weights_is_not_needed_again(parts: tuple[str, ...]) -> None:
    how = (*TWICE[:-1], "cnn-small-bn", *parts)
    torch.manual_seed(5)
    start = models.build("cnn-small-bn", 10, 1, 8, seed=7)
    safetensors.torch.save_file(start.state_dict(), "start.safetensors")
    trained("--weights", "start.safetensors", "--rounds", "3", out="whole", how=how)
    trained("--weights", "start.safetensors", how=how)
    shutil.copytree("out", "elsewhere")
    measured = flatfed("evaluate", "elsewhere", "--json")
    Path("start.safetensors").unlink()
    assert flatfed("evaluate", "elsewhere", "--json") == measured
    assert flatfed("robustness", "elsewhere", "--corruptions", "contrast").code == 0
    outcome = flatfed("resume", "elsewhere", "--rounds", "3")
    assert outcome.code == 0, outcome.err
    assert rows("elsewhere") == rows("whole")


def test_other_weights_under_the_same_name_do_not_change_a_run() -> None:
    saved("start.safetensors")
    trained("--weights", "start.safetensors", "--lr", "0")
    shutil.copytree("out", "elsewhere")
    saved("start.safetensors", model="mlp")
    for tensor in ff.load_run("elsewhere").model().state_dict().values():
        assert torch.equal(tensor, torch.full_like(tensor, 0.01))


def test_a_comparison_that_has_begun_does_not_need_the_weights_either() -> None:
    saved("start.safetensors")
    given = ("compare", "digits", "fedavg", "fedsam", *TINY, "--weights", "start.safetensors", "--out", "two")
    assert flatfed(*given).code == 0
    shutil.copytree("two", "elsewhere")
    Path("start.safetensors").unlink()
    assert flatfed("resume", "elsewhere").code == 0
    shutil.rmtree("elsewhere/fedsam")
    refused_with_a_path(flatfed("resume", "elsewhere"), "start.safetensors are missing")


def test_without_weights_none_are_recorded() -> None:
    task = trained()
    assert (task["weights"], task["data_dir"]) == (None, None)


WRONG = {
    "another model's": ({"model": "mlp"}, "do not fit the model"),
    "another shape": ({"change": lambda t: t.update({n: v[:3].clone() for n, v in t.items()})}, "has shape (3"),
    "one too few": ({"change": lambda t: t.popitem()}, "they lack"),
    "one too many": (
        {"change": lambda t: t.update({"more": torch.zeros(1)})},
        "they hold more, which the model does not have",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_weights_that_do_not_fit(name: str) -> None:
    how, reason = WRONG[name]
    path = saved("wrong.safetensors", **how)
    refused_with_a_path(train("--weights", "wrong.safetensors"), str(path), reason)
    assert not Path("out").exists()


def test_weights_that_cannot_be_read(tmp_path: Path) -> None:
    Path("text.safetensors").write_text("weights")
    refused_with_a_path(train("--weights", "text.safetensors"), str(tmp_path / "text.safetensors"), "cannot be read")
    refused_with_a_path(train("--weights", "gone.safetensors"), str(tmp_path / "gone.safetensors"), "are missing")
    refused_with_a_path(train("--weights", str(tmp_path)), str(tmp_path), "are a folder")
    torch.save(models.build("logreg", 10, 1, 8).state_dict(), "w.pt")
    refused_with_a_path(train("--weights", "w.pt"), str(tmp_path / "w.pt"), "torch.save", "safetensors.torch.save_file")
    whole = saved("half.safetensors").read_bytes()
    Path("half.safetensors").write_bytes(whole[:-8])
    refused_with_a_path(train("--weights", "half.safetensors"), str(tmp_path / "half.safetensors"), "cannot be read")
    assert not Path("out").exists()


# --- models of one's own and options ----------------------------------------------------------------------

NETS = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self, classes, in_channels, image_size, width=8):
        inputs = in_channels * image_size**2
        super().__init__(nn.Flatten(), nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, classes))
"""
# Without -P Python itself would look for modules in the current folder.
COMMAND = (sys.executable, "-P", str(Path(__file__).with_name("forks.py")))


def in_folders(*commands: tuple[Path, tuple[str, ...]]) -> list[Outcome]:
    """Run commands one after the other, each in its folder and in a process of its own, forked after the imports."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    words = json.dumps([(str(folder), arguments) for folder, arguments in commands])
    done = subprocess.run([*COMMAND, words], capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return [Outcome(*outcome) for outcome in json.loads(done.stdout)]


def test_a_model_from_the_current_folder(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "nets_of_mine.py").write_text(NETS)
    options = ("--rounds", "1", "--clients", "3", "--workers", "2", "--set", "model.width=4", "--out", "out")
    training = ("run", "digits", "fedsam", "--model", "nets_of_mine:Net", *options)
    asked = [(here, training), (here, ("evaluate", "out", "--json"))]
    asked += [(there, (command, str(here / "out"))) for command in ("evaluate", "resume", "robustness")]
    outcome, again, elsewhere, *others = in_folders(*asked)
    assert outcome.code == 0, outcome.err
    task = read_json(here / "out/config.json")["task"]
    assert (task["model"], task["model_options"]) == ("nets_of_mine:Net", {"width": 4})
    [row] = read_history(here / "out")
    parameters, envelope = (64 + 1) * 4 + (4 + 1) * 10, 2 * 8
    assert row["bytes_down"] == 3 * (4 * parameters + envelope)
    assert again.code == 0, again.err
    assert again.json["tests"]["test_loss"] == row["test_loss"]
    refused(elsewhere, "the model nets_of_mine:Net cannot be imported", "nets_of_mine", "PYTHONPATH")
    for other in others:
        refused(other, "where the run was started", "PYTHONPATH")


BAD_SETTINGS = [
    (["--set", "model.width=3"], ["logreg: unknown option of the model 'width'", "logreg takes no options"]),
    (["--model", "resnet18-gn", "--set", "model.stm=cifar"], ["'stm'", "'stem'", "takes stem, groups, init"]),
    (["--model", "resnet18-gn", "--set", "model.stem=mnist"], ["stem", "'mnist'"]),
    (["--model", "resnet18-gn", "--set", "model.classes=3"], ["'classes'"]),
    (["--model", "logrge"], ["'logrge'", "'logreg'"]),
    (["--model", "nowhere.nets:Net"], ["nowhere.nets:Net cannot be imported", "'nowhere'"]),
    (["--model", "torch.nn:Lineal"], ["torch.nn:Lineal cannot be imported", "'Lineal'"]),
    (["--model", "math:pi"], ["math:pi is a float, not a class or function"]),
    (["--set", "data.size=3"], ["digits: unknown option 'size'", "digits takes no options"]),
]


@pytest.mark.parametrize(("options", "parts"), BAD_SETTINGS, ids=[" ".join(options) for options, _ in BAD_SETTINGS])
def test_models_and_options_that_are_not_there(options: list[str], parts: list[str], tmp_path: Path) -> None:
    refused(train(*options), *parts)
    refused(flatfed("compare", "digits", "fedavg", *TINY, *options, "--out", "out"), *parts)
    assert fingerprint(tmp_path) == {}


@pytest.mark.parametrize(
    ("setting", "parts"),
    [
        ("data.normalization=fedsam", ["cifar10", "'normalization'", "'normalisation'"]),
        ("data.normalisation=mine", ["data.normalisation", "'fedsam', 'fedgloss'", "'mine'"]),
    ],
)
def test_options_of_a_data_set(setting: str, parts: list[str]) -> None:
    refused(flatfed("run", "cifar10", "fedavg", *TINY, "--data-dir", "none", "--set", setting), *parts)


def test_options_in_a_file() -> None:
    Path("file.yaml").write_text("model: resnet18-gn\nset: {model.stm: cifar}\n")
    refused(flatfed("run", "digits", "fedavg", "--clients", "3", "--config", "file.yaml", "--out", "out"), "'stm'")


# --- data -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "compare"])
def test_data_that_are_missing(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    parts = [f"{folder}{os.sep}cifar-10-batches", "`flatfed data get cifar10`", "--data-dir"]
    given = (command, "cifar10", "fedavg", *TINY, "--out", "out")
    refused_with_a_path(flatfed(*given, "--data-dir", "pictures"), *parts)
    monkeypatch.setenv("FLATFED_DATA", str(folder))
    refused_with_a_path(flatfed(*given), *parts)
    outcome = flatfed(*given, "--data-dir", "other")  # what is typed goes first
    refused_with_a_path(outcome, str(tmp_path / "other" / "cifar-10-batches"))
    assert str(folder) not in outcome.err
    assert not Path("out").exists() and not Path("other").exists()


def test_the_data_directory_is_recorded_for_any_folder(tmp_path: Path) -> None:
    assert trained("--data-dir", "data")["data_dir"] == str(tmp_path / "data")
    assert trained("--data-dir", "../data", out="up")["data_dir"].endswith("/../data")
    assert trained("--data-dir", "~/data", out="home")["data_dir"] == str(Path.home() / "data")


def test_the_path_of_own_data_is_recorded_for_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{'ab'[n % 2]},word{n % 7} {'good' if n % 2 else 'bad'} text" for n in range(40)]
    Path("texts.csv").write_text("\n".join(lines) + "\n")
    options = ("--rounds", "1", "--clients", "3", "--workers", "0", "--set", "data.path=texts.csv", "--out", "out")
    outcome = flatfed("run", "texts", "fedavg", *options, "--data-dir", tmp_path / "data", "--set", "data.length=8")
    assert outcome.code == 0, outcome.err
    recorded = read_json(Path("out/config.json"))["task"]["data_options"]
    assert recorded == {"path": str(tmp_path / "texts.csv"), "length": 8}
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    shutil.copytree("../out", "out")
    assert flatfed("evaluate", "out").code == 0


# --- clients a round --------------------------------------------------------------------------------------

EVERY = ("--rounds", "1", "--workers", "0", "--model", "logreg")


@pytest.mark.parametrize(("clients", "count"), [(3, 3), (5, 5), (8, 5)])
def test_five_clients_a_round_or_all_where_there_are_fewer(clients: int, count: int) -> None:
    for command in ("run", "compare"):
        outcome = flatfed(command, "digits", "fedavg", *EVERY, "--clients", clients, "--out", command)
        assert outcome.code == 0, outcome.err
        run = Path(command, "" if command == "run" else "fedavg/seed-0")
        assert read_json(run / "config.json")["sampler"] == {"id": "uniform", "count": count}
        assert len(read_history(run)[0]["clients"]) == count


def test_more_clients_a_round_than_there_are_must_not_be_asked_for() -> None:
    refused(flatfed("run", "digits", "fedavg", *EVERY, "--clients", "3", "--per-round", "5"), "5 of 3 clients")
    Path("file.yaml").write_text("per-round: 4\n")
    refused(flatfed("run", "digits", "fedavg", *EVERY, "--clients", "3", "--config", "file.yaml"), "4 of 3 clients")


def test_each_with_a_probability_instead() -> None:
    outcome = flatfed("run", "digits", "fedavg", *EVERY, "--clients", "3", "--bernoulli", "0.5", "--out", "out")
    assert outcome.code == 0, outcome.err
    assert read_json(Path("out/config.json"))["sampler"] == {"id": "bernoulli", "p": 0.5}
    both = ("--bernoulli", "0.5", "--per-round", "2")
    refused(flatfed("run", "digits", "fedavg", *EVERY, "--clients", "3", *both), "--bernoulli and --per-round")


# --- the partition ----------------------------------------------------------------------------------------


def hashed(parts: list[Any]) -> str:
    """Return the hash of the class distribution: for each client the number of its examples and their places."""
    digest = hashlib.sha256()
    for part in parts:
        numbers = [int(n) for n in part]
        for number in (len(numbers), *numbers):
            digest.update(number.to_bytes(8, "little", signed=True))
    return digest.hexdigest()


def test_the_record_holds_a_fingerprint_of_the_partition() -> None:
    task = trained()
    assert task["partition_sha256"] == hashed(TaskRecipe("digits", clients=5).parts())
    shown = flatfed("data", "show", "digits", "--clients", "5", "--json").json
    assert task["partition_sha256"] in shown.values()
    others = [("--seed", "1"), ("--alpha", "0.1"), ("--clients", "6"), ("--partition", "iid")]
    actual = {trained(*options, out=options[0])["partition_sha256"] for options in others}
    assert len(actual | {task["partition_sha256"]}) == 5
    assert trained("--lr", "0.2", "--augment", "none", out="same")["partition_sha256"] == task["partition_sha256"]


def edit(run: Path, **changes: Any) -> None:
    config = read_json(run / "config.json")
    config["task"] = {n: v for n, v in (config["task"] | changes).items() if v != "nothing"}
    rewrite(run / "config.json", config)


@pytest.mark.parametrize(
    "changes",
    [{"partition_sha256": "0" * 64}, {"seed": 1}, {"partition": {"id": "iid"}}],
    ids=["another hash", "another seed", "another rule"],
)
def test_another_partition_is_not_resumed(changes: dict[str, Any], run: Path) -> None:
    edit(run, **changes)
    before = fingerprint(run)
    refused_with_a_path(flatfed("resume", run, "--rounds", "4"), str(run), "another partition")
    refused_with_a_path(flatfed("resume", run), str(run), "another partition")
    assert fingerprint(run) == before


@pytest.mark.parametrize("changes", [{}, {"partition_sha256": "nothing"}], ids=["as it was", "without a fingerprint"])
def test_the_same_partition_is_resumed(changes: dict[str, Any], run: Path) -> None:
    recorded = read_json(run / "config.json")["task"]["partition_sha256"]
    edit(run, **changes)
    outcome = flatfed("resume", run, "--rounds", "4")
    assert outcome.code == 0, outcome.err
    assert len(read_history(run)) == 4
    assert read_json(run / "config.json")["task"].get("partition_sha256", recorded) == recorded


def test_a_comparison_has_a_fingerprint_in_each_run(comparison: Path) -> None:
    actual = {
        seed: {
            read_json(comparison / method / f"seed-{seed}" / "config.json")["task"]["partition_sha256"]
            for method in ("fedavg", "feddyn+sam", "fedsam")
        }
        for seed in (0, 1, 2)
    }
    assert all(len(hashes) == 1 for hashes in actual.values())
    assert len(set.union(*actual.values())) == 3


# --- the seed of the partition ----------------------------------------------------------------------------


def test_a_partition_seed_holds_the_partition_fixed_and_nothing_else() -> None:
    first, second = (trained("--partition-seed", 7, "--seed", seed, out=f"seed{seed}") for seed in (0, 1))
    assert first["partition_sha256"] == second["partition_sha256"]
    assert (first["partition_seed"], first["seed"]) == (7, 0)
    assert rows("seed0")[0]["train_loss"] != rows("seed1")[0]["train_loss"]
    plain = trained("--seed", 7, out="plain")
    assert plain["partition_sha256"] == first["partition_sha256"] and plain["partition_seed"] is None
    assert trained("--seed", 1, out="other")["partition_sha256"] != first["partition_sha256"]
    shown = flatfed("data", "show", "digits", "--clients", 5, "--partition-seed", 7, "--seed", 3, "--json").json
    assert (shown["partition_sha256"], shown["partition_seed"]) == (first["partition_sha256"], 7)
    assert "partition seed 7" in flatfed("data", "show", "digits", "--partition-seed", 7).out.splitlines()[0]


def test_a_comparison_may_have_one_partition_for_all_seeds() -> None:
    def partitions(out: str, *options: object) -> set[str]:
        outcome = flatfed("compare", "digits", "fedavg", *TINY, "--seeds", "0,1", *options, "--out", out)
        assert outcome.code == 0, outcome.err
        return {read_json(Path(out, f"fedavg/seed-{s}/config.json"))["task"]["partition_sha256"] for s in (0, 1)}

    assert len(partitions("redrawn")) == 2
    Path("fixed.yaml").write_text("partition-seed: 4\n")
    assert len(partitions("fixed", "--config", "fixed.yaml")) == 1
    shown = flatfed("show", "redrawn/fedavg/seed-0", "fixed/fedavg/seed-0", "--json").json
    assert len(shown["methods"]) == 2  # they are not two seeds of one thing
    refused(flatfed("compare", "digits", "fedavg", *TINY, "--partition-seed", "x", "--out", "x"), "--partition-seed")


def test_a_comparison_and_a_run_of_before_go_on() -> None:
    given = ("compare", "digits", "fedavg", *TINY, "--seeds", "0", "--out", "out")
    assert flatfed(*given).code == 0
    for file in (Path("out/comparison.json"), Path("out/fedavg/seed-0/config.json")):
        data = read_json(file)
        del data["task"]["partition_seed"]
        data.pop("keep_checkpoints", None)
        for name in ("checkpoint_every", "keep_checkpoints"):
            data.get("about", {}).pop(name, None)
        rewrite(file, data)
    assert flatfed(*given).code == 0
    assert flatfed("resume", "out").code == 0
    assert flatfed("resume", "out/fedavg/seed-0", "--rounds", 2).code == 0
