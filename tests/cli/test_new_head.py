"""`--weights FILE --new-head`: training that starts from weights for other classes, its record and its resumption."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import flatfed as ff
from cli.command import flatfed, read_history, read_json, without_time
from flatfed import models
from flatfed.experiments.tasks.recipe import TaskRecipe, task_of
from flatfed.named_code import USER
from flatfed.runs.directory import RunDirectory
from models.torchvision_networks import random_tensors, resnet18_shapes
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
    "mlp",
)
HEADED = ("--weights", "start.safetensors", "--new-head")


def start(classes: int = 37) -> dict[str, Any]:
    """Write weights of an `mlp` for other classes."""
    tensors = models.build("mlp", classes, 1, 8, seed=9).state_dict()
    safetensors.torch.save_file(tensors, "start.safetensors")
    return tensors


def trained(*options: object, out: str = "out") -> dict[str, Any]:
    outcome = flatfed("run", "digits", "fedavg", *TINY, *options, "--out", out)
    assert outcome.code == 0, outcome.err
    config: dict[str, Any] = read_json(Path(out, "config.json"))
    return config


def rows(out: str) -> list[dict[str, Any]]:
    return without_time(read_history(Path(out)))


def test_all_but_the_head_comes_from_the_file() -> None:
    given = start()
    task = trained(*HEADED, "--lr", "0", "--seed", "3")["task"]
    assert (task["weights"], task["new_head"]) == (str(Path("start.safetensors").absolute()), True)
    model, fresh = ff.load_run("out").model(), models.build("mlp", 10, 1, 8, seed=3)
    assert torch.equal(model.hidden.weight, given["hidden.weight"])
    assert torch.equal(model.head.weight, fresh.head.weight) and torch.equal(model.head.bias, fresh.head.bias)


def test_the_error_without_it_names_it() -> None:
    start()
    outcome = flatfed("run", "digits", "fedavg", *TINY, *HEADED[:2], "--out", "out")
    assert outcome.code == 2 and "has shape (37" in outcome.err and "new_head starts with a new head" in outcome.err
    assert not Path("out").exists()


def test_a_file_may_ask_for_it() -> None:
    start()
    Path("file.yaml").write_text("weights: start.safetensors\nnew_head: true\n")
    assert trained("--config", "file.yaml")["task"]["new_head"] is True
    trained(*HEADED, out="typed")
    assert rows("out") == rows("typed")


def test_without_weights_it_is_refused() -> None:
    outcome = flatfed("run", "digits", "fedavg", *TINY, "--new-head", "--out", "out")
    assert outcome.code == 2 and "--new-head needs weights to start from" in outcome.err
    assert not Path("out").exists()


def test_by_default_it_is_off_and_recorded_so() -> None:
    assert trained()["task"]["new_head"] is False


def test_a_resumed_run_is_the_whole_one_without_the_file() -> None:
    start()
    trained(*HEADED, "--rounds", "3", out="whole")
    trained(*HEADED, "--rounds", "2")
    Path("start.safetensors").unlink()
    shutil.copytree("out", "elsewhere")
    first = {n: t.clone() for n, t in safetensors.torch.load_file("elsewhere/task.safetensors").items()}
    outcome = flatfed("resume", "elsewhere", "--rounds", "3")
    assert outcome.code == 0, outcome.err
    assert rows("elsewhere") == rows("whole")
    again = safetensors.torch.load_file("elsewhere/task.safetensors")
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert read_json(Path("elsewhere/config.json"))["task"]["new_head"] is True


def test_the_new_head_is_the_one_that_was_kept_even_where_the_seed_gives_another() -> None:
    start()
    trained(*HEADED, "--lr", "0")
    shutil.copytree("out", "elsewhere")
    kept = safetensors.torch.load_file("elsewhere/task.safetensors")
    kept["head.weight"] = torch.full_like(kept["head.weight"], 0.5)
    safetensors.torch.save_file(kept, "elsewhere/task.safetensors")
    config = read_json(Path("elsewhere/config.json"))
    del config["task"]["tensors_sha256"]  # as in records of earlier versions
    rewrite(Path("elsewhere/config.json"), config)
    assert torch.equal(task_of(RunDirectory.open(Path("elsewhere"))).model.head.weight, kept["head.weight"])


def test_workers_do_not_matter() -> None:
    start()
    trained(*HEADED)
    trained(*HEADED, "--workers", "2", out="two")
    assert rows("out") == rows("two")


@pytest.mark.filterwarnings("default")
def test_torchvision_s_weights_and_a_word_about_statistics() -> None:
    shapes = resnet18_shapes(1000) | {"conv1.weight": (64, 1, 7, 7)}  # the digits are grey
    safetensors.torch.save_file(random_tensors(shapes), "resnet18.safetensors")
    given = ("--weights", "resnet18.safetensors", "--new-head", "--clients", "150", "--lr", "0")
    outcome = flatfed("run", "digits", "fedavg", *TINY[:-1], "resnet18-gn", *given, "--out", "out")
    assert outcome.code == 0, outcome.err
    [said] = [line for line in outcome.err.splitlines() if line.startswith("Warning")]
    assert "resnet18-gn has GroupNorm" in said and "leaves the running means and variances out" in said
    assert "Warning" not in flatfed("resume", "out", "--rounds", "2").err


# --- records ----------------------------------------------------------------------------------------------


def test_old_records_know_nothing_of_it() -> None:
    trained()
    data = read_json(Path("out/config.json"))
    del data["task"]["new_head"]
    rewrite(Path("out/config.json"), data)
    shutil.copytree("out", "elsewhere")
    assert flatfed("resume", "elsewhere", "--rounds", "2").code == 0
    assert TaskRecipe.from_dict(data["task"], USER).new_head is False


def test_an_old_comparison_goes_on() -> None:
    given = ("compare", "digits", "fedavg", "fedsam", *TINY, "--out", "two")
    assert flatfed(*given).code == 0
    file = Path("two/comparison.json")
    data = read_json(file)
    del data["task"]["new_head"]
    rewrite(file, data)
    shutil.rmtree("two/fedsam")
    outcome = flatfed("resume", "two")
    assert outcome.code == 0, outcome.err
    assert len(rows("two/fedsam/seed-0")) == 1
    assert flatfed(*given).code == 0


def test_a_comparison_resumes_with_its_new_heads() -> None:
    start()
    given = ("compare", "digits", "fedavg", "--seeds", "0,1", *TINY, *HEADED, "--out", "two")
    assert flatfed(*given).code == 0
    shutil.copytree("two", "elsewhere")
    shutil.rmtree("elsewhere/fedavg/seed-1")
    assert flatfed("resume", "elsewhere").code == 0
    assert rows("elsewhere/fedavg/seed-1") == rows("two/fedavg/seed-1")


def test_runs_with_and_without_it_are_distinguished() -> None:
    start(10)
    trained(out="plain")
    trained(*HEADED[:2], out="whole")
    trained(*HEADED, out="body")
    labels = [entry["method"] for entry in flatfed("show", "plain", "whole", "body", "--json").json["methods"]]
    assert len(set(labels)) == 3
