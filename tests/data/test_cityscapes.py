"""Cityscapes in its official layout, with cities or FedDrive's lists as clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import flatfed as ff
from data.scenes import HEIGHT, WIDTH, write_mask, write_scene
from flatfed.core.errors import ConfigError
from flatfed.data import load
from flatfed.experiments.tasks.recipe import TaskRecipe

CITIES = {"train": {"aachen": 4, "bochum": 3}, "val": {"frankfurt": 2, "munster": 2}}
OPTIONS: dict[str, Any] = {"crop": "4x6"}


def names(part: str, city: str, number: int) -> tuple[str, str]:
    stem = f"{part}/{city}/{city}_{number:06d}_000019"
    return f"{stem}_leftImg8bit.png", f"{stem}_gtFine_labelIds.png"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write the official folders, and FedDrive's lists beside them."""
    base, seed = tmp_path / "cityscapes", 0
    for part, cities in CITIES.items():
        for city, count in cities.items():
            for number in range(count):
                image, mask = names(part, city, number)
                seed += 1
                write_scene(base / "leftImg8bit" / image, base / "gtFine" / mask, [0, 7, 11, 26, 33], seed)
    lists = {
        "train": [("aachen1", "aachen", [3]), ("bochum0", "bochum", [2, 0]), ("aachen0", "aachen", [1, 0])],
        "test": [("test_user", "frankfurt", [1, 0])],
    }
    for part, users in lists.items():
        target = base / "heterogeneous" / part
        target.mkdir(parents=True)
        for number, (user, city, numbers) in enumerate(users):
            x, y = zip(*(names("train" if part == "train" else "val", city, n) for n in numbers), strict=True)
            content = {"users": [user], "num_samples": [len(x)], "user_data": {user: {"x": x, "y": y}}}
            (target / f"all_data_{number}.json").write_text(json.dumps(content))
    return tmp_path


def test_cities_are_the_clients(folder: Path) -> None:
    pool = load("cityscapes", folder, **OPTIONS)
    assert (len(pool.train), len(pool.test), pool.classes) == (7, 4, 19)
    assert {name: numbers.tolist() for name, numbers in pool.groups.items()} == {"city": [0] * 4 + [1] * 3}
    images, masks = pool.train.batch(torch.arange(7))
    assert (images.shape, masks.shape) == ((7, 3, HEIGHT, WIDTH), (7, HEIGHT, WIDTH))
    assert set(masks.unique().tolist()) <= {0, 2, 13, 18, 255}
    assert dict(pool.facts) == {"in_channels": 3, "image_size": 4}


def test_label_ids_become_train_ids(folder: Path) -> None:
    path = folder / "cityscapes" / "gtFine" / names("train", "aachen", 0)[1]
    ids = np.array([*range(34), 255, *[0] * (HEIGHT * WIDTH - 35)])
    write_mask(path, ids.reshape(HEIGHT, WIDTH))
    mask = load("cityscapes", folder, **OPTIONS).train.batch(torch.tensor([0]))[1].flatten().tolist()
    expected = [255] * 7 + [0, 1, 255, 255, 2, 3, 4, 255, 255, 255, 5, 255, *range(6, 16), 255, 255, 16, 17, 18, 255]
    assert mask[:35] == expected
    write_mask(path, np.full((HEIGHT, WIDTH), 34))
    with pytest.raises(ConfigError, match=r"aachen_000000_000019_gtFine_labelIds\.png holds the label 34"):
        load("cityscapes", folder, **OPTIONS)


def test_the_lists_of_feddrive(folder: Path) -> None:
    pool = load("cityscapes", folder, lists="heterogeneous", **OPTIONS)
    assert (len(pool.train), len(pool.test)) == (5, 2)
    # By name: aachen0 (2), aachen1 (1), bochum0 (2).
    assert pool.groups["client"].tolist() == [0, 0, 1, 2, 2]
    assert pool.groups["city"].tolist() == [0, 0, 0, 1, 1]
    whole = load("cityscapes", folder, **OPTIONS)
    for mine, theirs in ((0, 1), (1, 0), (2, 3), (3, 6), (4, 4)):
        assert torch.equal(*(p.train.batch(torch.tensor([i]))[0] for p, i in ((pool, mine), (whole, theirs))))
    elsewhere = load("cityscapes", folder, lists=str(folder / "cityscapes" / "heterogeneous"), **OPTIONS)
    assert torch.equal(elsewhere.groups["client"], pool.groups["client"])
    with pytest.raises(ConfigError, match="uniform/train holds no lists of clients"):
        load("cityscapes", folder, lists="uniform", **OPTIONS)


@pytest.mark.parametrize("place", ["cityscapes/data", "."])
def test_other_places(place: str, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "moved" / place
    target.parent.mkdir(parents=True, exist_ok=True)
    (folder / "cityscapes").rename(target) if place != "." else (folder / "cityscapes").rename(tmp_path / "moved")
    assert len(load("cityscapes", tmp_path / "moved", **OPTIONS).train) == 7


def test_what_is_missing_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cityscapes: .*leftImg8bit is missing"):
        load("cityscapes", tmp_path / "elsewhere")
    (folder / "cityscapes" / "gtFine" / names("val", "munster", 1)[1]).unlink()
    with pytest.raises(ConfigError, match=r"munster_000001_000019_gtFine_labelIds\.png is missing"):
        load("cityscapes", folder, **OPTIONS)
    (folder / "cityscapes" / "leftImg8bit" / "train" / "berlin").mkdir()
    with pytest.raises(ConfigError, match=r"leftImg8bit/train/berlin holds no \*_leftImg8bit\.png"):
        load("cityscapes", folder, **OPTIONS)
    (folder / "cityscapes" / "leftImg8bit" / "train" / "berlin").rmdir()
    (folder / "cityscapes" / "gtFine" / names("train", "bochum", 2)[1]).unlink()
    with pytest.raises(ConfigError, match=r"bochum_000002_.*_labelIds\.png is missing; .*heterogeneous/train names it"):
        load("cityscapes", folder, lists="heterogeneous", **OPTIONS)
    (folder / "cityscapes" / "leftImg8bit" / "val").rename(tmp_path / "val")
    with pytest.raises(ConfigError, match=r"leftImg8bit/val holds no CITY/\*_leftImg8bit\.png"):
        load("cityscapes", folder, **OPTIONS)


def test_files_train_to_the_same_bits_in_workers(folder: Path) -> None:
    options = OPTIONS | {"memory": 0.0, "lists": "heterogeneous"}
    given: dict[str, Any] = {"partition": {"id": "natural"}, "model": "data.scenes:Tiny", "local_layers": "bn-stats"}
    task = TaskRecipe("cityscapes", data_dir=str(folder), data_options=options, **given).build()
    assert [len(task.examples(k)) for k in range(task.population)] == [2, 1, 2]
    settings: dict[str, Any] = {"rounds": 2, "sampling": 2, "lr": 0.1, "batch_size": 2, "momentum": 0.9}
    runs = [ff.train(task, ff.make("fedavg"), **settings, workers=workers) for workers in (0, 2)]
    assert torch.equal(runs[0].vector, runs[1].vector)
    assert runs[0].history[-1]["test_miou"] == runs[1].history[-1]["test_miou"]
