"""Models and augmentations that do not suit the data: refused in a sentence before anything is trained or written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import flatfed as ff
from cli.command import fingerprint, flatfed, refused
from data.scenes import write_scene
from flatfed.core.errors import ConfigError
from flatfed.experiments.tasks import trial
from flatfed.experiments.tasks.recipe import TaskRecipe

QUICK = ("--rounds", "1", "--workers", "0", "--out", "out")
INTERNAL = ("zip()", "unpack", "mat1", "cross_entropy", "Traceback", "saved", "ScaleCrop", "must be Tensor")
NETS = """
import torch
from torch import nn

class Short(nn.Sequential):
    def __init__(self, in_channels, image_size):
        super().__init__(nn.Flatten(), nn.Linear(in_channels * image_size**2, 5))

class Wrong(nn.Sequential):
    def __init__(self, classes):
        super().__init__(nn.Flatten(), nn.Linear(7, classes))

class Moving(nn.Sequential):
    def __init__(self, classes, in_channels, image_size):
        inputs = in_channels * image_size**2
        layers = nn.Flatten(), nn.BatchNorm1d(inputs), nn.Dropout(0.5), nn.Linear(inputs, classes)
        super().__init__(*layers)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        self.seen += len(x)
        return super().forward(x)
"""


@pytest.fixture
def scenes(tmp_path: Path) -> Path:
    """A small CamVid and its data directory."""
    root = tmp_path / "scenes" / "CamVid"
    for part, count in (("train", 6), ("test", 3), ("val", 2)):
        lines = []
        for number in range(count):
            names = [f"{folder}/{number % 3:04d}TP_{number:04d}.png" for folder in (part, f"{part}annot")]
            write_scene(root / names[0], root / names[1], [0, 1, 2], seed=number, size=(32, 40))
            lines.append(" ".join(names))
        (root / f"{part}.txt").write_text("\n".join(lines) + "\n")
    return root.parent


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unfit_nets.py").write_text(NETS)
    monkeypatch.syspath_prepend(str(tmp_path))


def plainly(outcome: Any, *parts: str) -> None:
    refused(outcome, *parts)
    assert not any(word in outcome.err for word in INTERNAL), outcome.err
    assert not Path("out").exists()


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_model_that_does_not_take_the_examples(command: str) -> None:
    given = (command, "digits", "fedavg", "--clients", "3", *QUICK)
    outcome = flatfed(*given, "--augment", "resized-crop(16)")
    plainly(outcome, "the model cnn-small does not take digits", "1 x 16 x 16 (after augment resized-crop(16))")
    outcome = flatfed(*given, "--model", "bisenetv2")
    parts = [
        "bisenetv2 does not suit digits",
        "examples of 1 x 8 x 8",
        "10 x 8 x 8 and 4 more",
        "one number per example",
    ]
    plainly(outcome, *parts, "leave it out for cnn-small")


def test_a_model_that_does_not_take_pictures_with_masks(scenes: Path) -> None:
    given = ("run", "camvid", "fedavg", *QUICK, "--data-dir", scenes)
    plainly(flatfed(*given, "--model", "cnn"), "the model cnn does not take camvid", "3 x 32 x 40", "bisenetv2")
    outcome = flatfed(*given, "--model", "resnet18-gn")
    plainly(outcome, "resnet18-gn does not suit camvid", "it gives 11", "a mask of 32 x 40 per example")


def test_a_model_of_ones_own(nets: None, tmp_path: Path) -> None:
    given = ("run", "digits", "fedavg", "--clients", "3", *QUICK)
    before = fingerprint(tmp_path)
    refused(flatfed(*given, "--model", "unfit_nets:Short"), "gives scores of 5 classes, and there are 10")
    # What went wrong in one's own file is reported.
    refused(flatfed(*given, "--model", "unfit_nets:Wrong"), "does not take digits", "2x64 and 7x10")
    assert {n: h for n, h in fingerprint(tmp_path).items() if "pycache" not in n} == before


@pytest.mark.parametrize("name", ["scale-crop", "flip-pair", "crop,scale-crop(8,8)"])
def test_augmentations_for_masks_alone(name: str) -> None:
    outcome = flatfed("run", "digits", "fedavg", "--clients", "3", *QUICK, "--augment", name)
    plainly(
        outcome, f"--augment {name} does not suit digits", "images of 1 x 8 x 8 with one number per example", "crop"
    )


@pytest.mark.parametrize("name", ["crop", "crop-flip,cutout(4)", "resized-crop(16)", "lineage-crop"])
def test_augmentations_that_would_leave_masks_behind(name: str, scenes: Path) -> None:
    outcome = flatfed("run", "camvid", "fedavg", *QUICK, "--data-dir", scenes, "--augment", name)
    plainly(outcome, f"--augment {name} does not suit camvid", "a mask of 32 x 40 per example", "flip-pair")


def test_augmentations_for_images_alone() -> None:
    Path("texts.csv").write_text("\n".join(f"{'ab'[n % 2]},word{n % 7} text" for n in range(40)) + "\n")
    given = ("run", "texts", "fedavg", "--clients", "3", *QUICK, "--set", "data.path=texts.csv")
    outcome = flatfed(*given, "--set", "data.length=8", "--augment", "crop")
    plainly(outcome, "--augment crop does not suit texts", "examples of 8 that are no images", "--augment none")


def test_what_suits_is_not_refused(scenes: Path) -> None:
    for name in ("flip-pair", "scale-crop(16,16),cutout(4)"):
        TaskRecipe("camvid", partition={"id": "natural"}, data_dir=str(scenes), augment=name).build()
    for name in ("mixup", "crop(1),cutout(2)", "lineage-crop", "flip"):
        TaskRecipe("digits", clients=3, augment=name).build()


def test_the_trial_leaves_model_and_generators_as_they_were(nets: None) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    task = TaskRecipe("digits", clients=3, model="unfit_nets:Moving").build()
    assert torch.equal(torch.get_rng_state(), before)
    assert float(task.model.seen) == 0 and int(task.model[1].num_batches_tracked) == 0
    assert task.model.training
    assert all(parameter.grad is None for parameter in task.model.parameters())


def test_what_was_tried_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    TaskRecipe("digits", clients=3, model="mlp", augment="crop(1)").build()

    def never(*_: object) -> None:
        raise AssertionError("tried again")

    monkeypatch.setattr(trial, "_training_outputs", never)
    TaskRecipe("digits", clients=4, seed=1, model="mlp", augment="crop(1)").build()
    with pytest.raises(ConfigError, match="does not take digits"):
        TaskRecipe("digits", clients=3, model="mlp", augment="crop(2)").build()


def test_a_failure_in_the_first_round_does_not_speak_of_what_was_saved(tmp_path: Path) -> None:
    x, y = torch.randn(20, 4), torch.randint(0, 2, (20,))
    task = ff.Task(torch.nn.Linear(5, 2), [(x, y)], (x, y))
    with pytest.raises(ff.EngineError, match=r"nothing was trained; .*flatfed resume .*run"):
        ff.train(task, ff.make("fedavg"), rounds=1, sampling=1, lr=0.1, workers=0, out=tmp_path / "run")
