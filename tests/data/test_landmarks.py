"""The data set `landmarks-user-160k`: tables of users, images found in the layout of Google Landmarks v2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from data.pictures import write_picture
from data.training import same_bits
from flatfed.core.errors import ConfigError
from flatfed.data import Pool, catalogue, load
from flatfed.data.directory import DataDirectory
from flatfed.data.storage.lazy import LazyImages
from flatfed.experiments.tasks.recipe import TaskRecipe
from flatfed.models import models

NAME = "landmarks-user-160k"
SMALL = {"size": 32, "crop": 24}


def image_id(number: int) -> str:
    return f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}"


TRAIN = [[str(n % 5 + 10), image_id(n), str((n * 97) % 2028)] for n in range(20)]
TEST = [[image_id(100 + n), str((n * 97) % 2028)] for n in range(6)]


def write(root: Path, train: list[list[str]] = TRAIN, test: list[list[str]] = TEST, nested: bool = True) -> Path:
    """Write the tables and the images."""
    tables = root / NAME
    tables.mkdir(parents=True, exist_ok=True)
    for name, header, lines in (("federated_train", "user_id,image_id,class", train), ("test", "image_id,class", test)):
        (tables / f"{name}.csv").write_text("\n".join([header, *(",".join(line) for line in lines)]) + "\n")
    for number, id in enumerate([*(line[1] for line in train), *(line[0] for line in test)]):
        if id:
            place = Path(*id[:3]) if nested else Path()
            write_picture(tables / "train" / place / f"{id}.jpg", number, 50, 40, label=number)
    return root


@pytest.mark.parametrize("nested", [True, False])
def test_users_classes_and_images_are_those_of_the_tables(tmp_path: Path, nested: bool) -> None:
    pool = load(NAME, write(tmp_path, nested=nested), **SMALL)
    assert (pool.classes, dict(pool.facts)) == (2028, {"in_channels": 3, "image_size": 24})
    assert list(pool.groups) == ["user"]
    assert pool.groups["user"].tolist() == [n % 5 for n in range(20)]
    assert pool.labels.tolist() == [(n * 97) % 2028 for n in range(20)]
    assert pool.test.batch(torch.arange(6))[1].tolist() == [(n * 97) % 2028 for n in range(6)]
    assert pool.default_model in models()
    assert catalogue.find(NAME).partition == "natural"


def test_training_takes_a_random_part_and_a_test_the_middle(tmp_path: Path) -> None:
    pool = load(NAME, write(tmp_path), **SMALL)
    inputs, _ = pool.train.batch(torch.arange(4))
    assert inputs.shape == (4, 3, 32, 32) and pool.augment is not None and pool.prepare is not None
    draws = [pool.augment(inputs, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    assert draws[0].shape == (4, 3, 24, 24) and draws[0].dtype == torch.uint8
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
    assert torch.equal(pool.prepare(inputs), pool.prepare(inputs[:, :, 4:28, 4:28]))
    assert load(NAME, tmp_path).prepare(pool.test.batch(torch.arange(1))[0]).shape[-1] == 32  # type: ignore[misc]


def test_images_are_found_in_other_folders_too(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / NAME / "train").rename(tmp_path / "photos")
    with pytest.raises(ConfigError, match=rf"{NAME}: .*{NAME}/train or .*google-landmark/train"):
        load(NAME, tmp_path)
    assert load(NAME, tmp_path, images="photos", **SMALL).classes == 2028
    assert load(NAME, tmp_path, images=str(tmp_path / "photos"), **SMALL).classes == 2028
    with pytest.raises(ConfigError, match=r"pictures is missing \(data\.images"):
        load(NAME, tmp_path, images="pictures")
    (tmp_path / "photos").rename(tmp_path / NAME / "images")
    assert load(NAME, tmp_path, **SMALL).classes == 2028


def test_decoded_images_are_kept_up_to_a_limit(tmp_path: Path) -> None:
    one = 3 * 32 * 32 + 8
    pool = load(NAME, write(tmp_path), memory=10 * one / 2**30, **SMALL)
    assert isinstance(pool.train, LazyImages) and isinstance(pool.test, LazyImages)
    first = pool.train.batch(torch.arange(20))[0]
    assert 9 * one <= pool.train.bytes_kept <= 10 * one
    assert torch.equal(pool.train.batch(torch.arange(20))[0], first)
    assert torch.equal(load(NAME, tmp_path, **SMALL).train.batch(torch.arange(20))[0], first)


def replaced(lines: list[list[str]], row: int, column: int, value: str) -> list[list[str]]:
    return [[*line[:column], value, *line[column + 1 :]] if n == row else line for n, line in enumerate(lines)]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "class": ({"train": replaced(TRAIN, 3, 2, "2028")}, r"train\.csv, line 5: .*from 0 to 2027, not '2028'"),
    "digits": ({"train": replaced(TRAIN, 3, 2, "9" * 5000)}, r"train\.csv, line 5: the class must be a whole number"),
    "negative": ({"test": replaced(TEST, 3, 1, "-1")}, r"test\.csv, line 5: the class must be .*, not '-1'"),
    "text": ({"train": replaced(TRAIN, 3, 2, "x")}, r"line 5: the class must be a whole number"),
    "user": ({"train": replaced(TRAIN, 3, 0, "")}, r"line 5: the user_id is empty"),
    "image": ({"train": replaced(TRAIN, 3, 1, "")}, r"line 5: the image_id is empty"),
    "twice": ({"train": replaced(TRAIN, 3, 1, TRAIN[0][1])}, r"line 5: the image 0+ is there already, on line 2"),
    "in-both": (
        {"test": replaced(TEST, 3, 0, TRAIN[0][1])},
        r"test\.csv, line 5: the image .* is also in .*train\.csv",
    ),
    "cut": ({"train": [*TRAIN[:-1], ["12", "ab"]]}, r"line 21: 2 columns instead of 3"),
    "none": ({"train": []}, r"federated_train\.csv has a header and no rows"),
}


@pytest.mark.parametrize(("change", "reason"), BAD.values(), ids=BAD.keys())
def test_bad_tables_are_refused_with_their_line(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        load(NAME, write(tmp_path, **change), **SMALL)
    assert "\n" not in str(refused.value)


def test_missing_things_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"{NAME}: .*federated_train\.csv or .* is missing"):
        load(NAME, tmp_path)
    write(tmp_path)
    image = next((tmp_path / NAME / "train").rglob(f"{TRAIN[3][1]}.jpg"))
    image.rename(tmp_path / "gone.jpg")
    with pytest.raises(ConfigError, match=rf"train\.csv, line 5: the image .*{TRAIN[3][1]}\.jpg is missing$"):
        load(NAME, tmp_path)
    image.write_bytes((tmp_path / "gone.jpg").read_bytes()[:200])
    with pytest.raises(ConfigError, match=rf"{TRAIN[3][1]}\.jpg cannot be read as an image"):
        load(NAME, tmp_path, **SMALL)
    pool = load(NAME, tmp_path, memory=0, **SMALL)
    with pytest.raises(ConfigError, match=rf"{TRAIN[3][1]}\.jpg cannot be read as an image"):
        pool.train.batch(torch.tensor([3]))
    with pytest.raises(ConfigError, match=rf"1 of 26 images are bad: .*{TRAIN[3][1]}\.jpg"):
        load(NAME, tmp_path, memory=0, verify=True, **SMALL)


@pytest.mark.parametrize("memory", [1.0, 1e-5])
def test_users_train_with_the_same_bits_on_workers(tmp_path: Path, memory: float) -> None:
    recipe = TaskRecipe(
        NAME,
        partition={"id": "natural"},
        model="cnn-small",
        data_dir=str(write(tmp_path)),
        data_options={**SMALL, "memory": memory},
    )
    same_bits(recipe, sampling=3)
    assert recipe.build().population == 5


def real() -> Path:
    return DataDirectory().path / NAME / "federated_train.csv"


@pytest.mark.skipif(not real().exists(), reason=f"{NAME} is not in the data directory")
def test_the_official_tables_have_the_published_numbers() -> None:
    pool: Pool = load(NAME, memory=0)
    assert (len(pool.train), len(pool.test)) == (164_172, 19_526)
    assert (len(pool.groups["user"].unique()), len(pool.labels.unique())) == (1_262, 2_028)
