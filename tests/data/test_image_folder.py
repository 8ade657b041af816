"""The data set `image-folder`: images of the user's own, in a folder for each class."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

import flatfed as ff
from cli.command import flatfed, read_history, read_json, refused
from data.pictures import write_classes, write_picture
from data.training import same_bits
from flatfed.core.errors import ConfigError
from flatfed.data import load
from flatfed.data.storage.held_out import file_keys
from flatfed.data.storage.lazy import LazyImages
from flatfed.experiments.tasks.recipe import TaskRecipe

CLASSES = {"ant": 12, "bee": 20, "cat": 3}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_classes(tmp_path / "pets", CLASSES)


def files(examples: Any) -> set[str]:
    return {"/".join(Path(file).parts[-2:]) for file in examples.decode.files}


def test_classes_come_from_the_folders_and_a_share_is_kept_for_the_test(folder: Path) -> None:
    pool = load("image-folder", path=str(folder), size=16)
    assert (pool.classes, dict(pool.facts)) == (3, {"in_channels": 3, "image_size": 16})
    assert pool.labels.bincount().tolist() == [11, 18, 2]
    assert pool.test.batch(torch.arange(4))[1].bincount().tolist() == [1, 2, 1]
    inputs, targets = pool.train.batch(torch.arange(31))
    assert inputs.shape == (31, 3, 16, 16) and torch.equal(targets, pool.labels)
    assert pool.prepare is not None and pool.prepare(inputs).shape == (31, 3, 16, 16)
    assert pool.augment is None


def test_the_split_depends_on_names_only(folder: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"memory": 0.0, "size": 8}
    pool = load("image-folder", path=str(folder), **options)
    assert files(pool.train) | files(pool.test) == {
        f"{c}/{n:03d}.png" for c, count in CLASSES.items() for n in range(count)
    }
    assert not files(pool.train) & files(pool.test)
    elsewhere = write_classes(tmp_path / "other" / "place", CLASSES, seed=5)
    assert files(load("image-folder", path=str(elsewhere), **options).test) == files(pool.test)
    half = load("image-folder", path=str(folder), test_share=0.5, **options)
    assert files(pool.test) < files(half.test) and len(half.test) == 18


def test_names_in_any_script_and_even_no_text_at_all(folder: Path) -> None:
    plain = load("image-folder", path=str(folder), size=8)
    for name in (b"\xe7\x8c\xab.png", b"\xff\xfe.png"):
        try:
            path = Path(os.fsdecode(os.fsencode(folder / "cat") + b"/" + name))
            write_picture(path, 1)
        except OSError:  # a system that only takes text
            continue
    assert len(load("image-folder", path=str(folder), size=8).labels) > len(plain.labels)
    composed, apart = (file_keys([f"/a/{name}.png"], "x", Path("/a")) for name in ("\u00e9", "e\u0301"))
    assert composed == apart


@pytest.mark.parametrize("test", ["test", "val"])
def test_folders_for_training_and_test_are_taken_as_they_are(tmp_path: Path, test: str) -> None:
    write_classes(tmp_path / "train", CLASSES)
    write_classes(tmp_path / test, {"bee": 4})
    pool = load("image-folder", path=str(tmp_path), size=8)
    assert pool.labels.bincount().tolist() == [12, 20, 3]
    assert pool.test.batch(torch.arange(4))[1].tolist() == [1] * 4


def test_a_training_folder_alone_is_divided(tmp_path: Path) -> None:
    write_classes(tmp_path / "train", CLASSES)
    assert len(load("image-folder", path=str(tmp_path), size=8).train) == 31


def test_what_is_no_image_is_passed_over(folder: Path) -> None:
    (folder / "readme.txt").write_text("hello")
    (folder / "ant" / "notes.txt").write_text("hello")
    (folder / "ant" / ".hidden.png").write_bytes(b"")
    (folder / ".git" / "x").mkdir(parents=True)
    (folder / "__MACOSX").mkdir()
    write_picture(folder / "ant" / "deep" / "er" / "A.JPG", 1)
    assert len(load("image-folder", path=str(folder), size=8).labels) == 32


def test_a_path_lies_here_or_in_the_data_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load("image-folder", folder.parent, path="pets", size=8).classes == 3
    monkeypatch.chdir(folder.parent)
    assert load("image-folder", "/nowhere", path="pets", size=8).classes == 3
    write_classes(folder.parent / "there" / "pets", {"ant": 3, "bee": 3})
    assert load("image-folder", folder.parent / "there", path="pets", size=8).classes == 3
    monkeypatch.chdir(folder)
    assert load("image-folder", folder.parent / "there", path="pets", size=8).classes == 2
    with pytest.raises(ConfigError, match=r"dogs is missing \(data.path: seen from here, or in /nowhere\)"):
        load("image-folder", "/nowhere", path="dogs")


def test_decoding_when_needed_gives_the_same_pool(folder: Path) -> None:
    once, lazily = (load("image-folder", path=str(folder), size=12, memory=memory) for memory in (1.0, 1e-5))
    assert isinstance(lazily.train, LazyImages) and lazily.train.cache > 0
    everything = torch.arange(len(once.train))
    assert torch.equal(once.train.batch(everything)[0], lazily.train.batch(everything)[0])
    assert torch.equal(once.test.batch(torch.arange(4))[0], lazily.test.batch(torch.arange(4))[0])
    again = pickle.loads(pickle.dumps(lazily))
    assert torch.equal(again.train.batch(everything)[0], once.train.batch(everything)[0])


def test_augmentations_by_name(folder: Path) -> None:
    pool = load("image-folder", path=str(folder), size=16, crop=12, augment="resized-crop,flip,cutout(4)")
    inputs, _ = pool.train.batch(torch.arange(5))
    assert pool.augment is not None and pool.batch_transform is not None and pool.prepare is not None
    assert pool.augment(inputs, torch.Generator().manual_seed(0)).shape == (5, 3, 12, 12)
    assert pool.prepare(inputs).shape == (5, 3, 12, 12)
    with pytest.raises(ConfigError, match="unknown augmentation 'flop'; did you mean 'flip'"):
        load("image-folder", path=str(folder), augment="flop")


def bad(change: str, folder: Path) -> None:
    if change == "empty-class":
        (folder / "dog").mkdir()
    if change == "no-classes":
        for name in CLASSES:
            (folder / name).rename(folder / f".{name}")
    if change == "one-class":
        for name in ("bee", "cat"):
            (folder / name).rename(folder / f".{name}")
    if change == "one-of-each":
        for name in CLASSES:
            for path in sorted((folder / name).iterdir())[1:]:
                path.unlink()
    if change == "damaged":
        (folder / "bee" / "004.png").write_bytes(b"nothing")
    if change == "other-test":
        (folder / "train").mkdir()
        for name in CLASSES:
            (folder / name).rename(folder / "train" / name)
        write_classes(folder / "test", {"ants": 2})


REASONS = {
    "empty-class": r"pets/dog has no images; those end in \.bmp, ",
    "no-classes": r"pets has no folders; it must have one for each class",
    "one-class": r"pets has one class, 'ant'",
    "one-of-each": r"pets has one image of each class, none of which can be kept for a test",
    "damaged": r"bee/004\.png cannot be read as an image",
    "other-test": r"test/ants: unknown class 'ants'; did you mean 'ant'",
}


@pytest.mark.parametrize(("change", "reason"), REASONS.items(), ids=REASONS.keys())
def test_bad_folders_are_named(folder: Path, change: str, reason: str) -> None:
    bad(change, folder)
    with pytest.raises(ConfigError, match=reason) as refused:
        load("image-folder", path=str(folder))
    assert "\n" not in str(refused.value)


def test_a_damaged_image_is_named_when_it_is_met_or_when_all_are_verified(folder: Path) -> None:
    for number in (4, 5):
        (folder / "bee" / f"{number:03d}.png").write_bytes(b"nothing")
    pool = load("image-folder", path=str(folder), memory=0)
    with pytest.raises(ConfigError, match=r"bee/004\.png cannot be read"):
        pool.train.batch(torch.arange(len(pool.train)))
    with pytest.raises(ConfigError, match=r"image-folder: 2 of 35 images are bad: .*004\.png.*005\.png"):
        load("image-folder", path=str(folder), memory=0, verify=True)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, r"say where the data are, data.path=folder"),
        ({"path": 3}, "data.path must be text, not 3"),
        ({"size": 0}, "data.size must be at least 1"),
        ({"test_share": 1}, "data.test_share must be greater than 0 and less than 1"),
        ({"fit": "x"}, "data.fit must be one of 'crop', 'stretch'"),
        ({"verify": "yes"}, "data.verify must be true or false"),
        ({"paht": "x"}, "unknown option 'paht'; did you mean 'path'"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        load("image-folder", **options)


def test_a_path_to_a_file_is_no_folder(tmp_path: Path) -> None:
    path = write_picture(tmp_path / "a.png")
    with pytest.raises(ConfigError, match=r"the folder .*a\.png is a file, not a folder"):
        load("image-folder", path=str(path))


@pytest.mark.parametrize("memory", [1.0, 1e-5])
def test_training_has_the_same_bits_on_workers(folder: Path, memory: float) -> None:
    options = {"path": str(folder), "size": 16, "augment": "crop-flip(1)", "memory": memory}
    run = same_bits(TaskRecipe("image-folder", clients=3, partition={"id": "iid"}, data_options=options))
    assert "test_accuracy" in run.history[-1]


def test_a_damaged_image_ends_a_run_with_its_name(folder: Path) -> None:
    (folder / "bee" / "004.png").write_bytes(b"nothing")
    options = {"path": str(folder), "size": 16, "memory": 0}
    task = TaskRecipe("image-folder", clients=2, partition={"id": "iid"}, data_options=options).build()
    for workers in (0, 2):
        with pytest.raises(ff.FlatfedError, match=r"bee/004\.png cannot be read as an image"):
            ff.train(task, ff.make("fedavg"), rounds=1, sampling=2, lr=0.1, workers=workers)


NET = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self, classes, in_channels, image_size, width=4):
        pixels = in_channels * image_size**2
        super().__init__(nn.Flatten(), nn.Linear(pixels, width), nn.ReLU(), nn.Linear(width, classes))
"""


def test_the_command_line_trains_a_model_of_the_users_own(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_nets.py").write_text(NET)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)  # what a run names is imported without asking only where the user works
    out = tmp_path / "run"
    options = [f"data.path={folder}", "data.size=8", "model.width=6"]
    typed = ["--model", "my_nets:Net", "--clients", 3, "--per-round", 2, "--rounds", 2, "--workers", 0, "--out", out]
    done = flatfed("run", "image-folder", "fedavg", *(part for option in options for part in ("--set", option)), *typed)
    assert done.code == 0, done
    assert read_json(out / "config.json")["task"]["data_options"] == {"path": str(folder), "size": 8}
    assert flatfed("resume", out, "--rounds", 3).code == 0
    assert len(read_history(out)) == 3


def test_a_damaged_image_is_a_check_that_failed(folder: Path) -> None:
    check = ["data", "check", "image-folder", "--set", f"data.path={folder}", "--set", "data.size=8", "--json"]
    assert flatfed(*check).code == 0
    (folder / "bee" / "004.png").write_bytes(b"nothing")
    done = flatfed(*check)
    assert done.code == 1
    (actual,) = done.json["checks"]
    assert (actual["what"], actual["state"]) == ("reading it", "wrong")
    assert "bee/004.png cannot be read as an image" in actual["found"]
    refused(flatfed("data", "check", "image-folder", "--set", "data.path=/none/such"), "/none/such is missing")


def test_mistakes_on_the_command_line_are_one_sentence(folder: Path) -> None:
    refused(flatfed("run", "image-folder", "fedavg"), "image-folder: say where the data are, --set data.path=folder")
    refused(flatfed("run", "image-folder", "fedavg", "--set", "data.path=/none/such"), "/none/such is missing")
    refused(flatfed("run", "image-folder", "fedavg", "--set", f"data.path={folder}/ant"), "has no folders")
