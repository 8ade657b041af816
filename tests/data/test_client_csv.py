"""The data set `client-csv`: images of the user's own, with a table of who holds which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cli.command import flatfed, refused
from data.pictures import write_picture
from data.training import same_bits
from flatfed.core.errors import ConfigError
from flatfed.data import Pool, load
from flatfed.experiments.tasks.recipe import TaskRecipe

LABELS = ("cat", "dog", "owl")


def rows(count: int = 30) -> list[list[str]]:
    return [[f"u{n % 4}", f"pictures/{n}.png", LABELS[n % 3]] for n in range(count)]


def write_table(folder: Path, lines: list[list[str]], header: str = "client,file,label", pictures: bool = True) -> Path:
    """Write a table and the pictures that it names."""
    folder.mkdir(exist_ok=True)
    for number, line in enumerate(lines):
        if pictures and len(line) > 1 and line[1]:
            write_picture(folder / line[1], number, label=number % 3)
    (folder / "table.csv").write_text("\n".join([header, *(",".join(line) for line in lines)]) + "\n", encoding="utf-8")
    return folder / "table.csv"


def opened(folder: Path, lines: list[list[str]], header: str = "client,file,label", **options: Any) -> Pool:
    return load("client-csv", path=str(write_table(folder, lines, header)), size=8, **options)


def split_rows() -> list[list[str]]:
    return [[*row, ("train", "train", "Test", "unseen")[n % 4]] for n, row in enumerate(rows(28))]


def test_clients_and_classes_come_from_the_table(tmp_path: Path) -> None:
    pool = opened(tmp_path, rows())
    assert pool.classes == 3 and list(pool.groups) == ["client"]
    assert (len(pool.train), len(pool.test)) == (27, 3)
    assert pool.labels.bincount().tolist() == [9, 9, 9]
    assert set(pool.groups["client"].tolist()) == {0, 1, 2, 3}
    inputs, targets = pool.train.batch(torch.arange(27))
    assert inputs.shape == (27, 3, 8, 8) and torch.equal(targets, pool.labels)


def test_each_image_goes_with_its_client_and_label(tmp_path: Path) -> None:
    pool = opened(tmp_path, rows(), memory=0)
    for file, label, client in zip(pool.train.decode.files, pool.labels, pool.groups["client"], strict=True):  # type: ignore[attr-defined]
        number = int(Path(file).stem)
        assert (int(label), int(client)) == (number % 3, number % 4)


def test_a_column_of_splits_is_followed(tmp_path: Path) -> None:
    pool = opened(tmp_path, split_rows(), "client,file,label,split")
    assert (len(pool.train), len(pool.test), {n: len(t) for n, t in pool.tests.items()}) == (14, 7, {"unseen": 7})
    assert set(pool.groups["client"].tolist()) == {0, 1}
    assert pool.test.batch(torch.arange(7))[1].tolist() == [n % 3 for n in range(2, 28, 4)]


def test_columns_stand_in_any_order_and_others_are_passed_over(tmp_path: Path) -> None:
    lines = [[label, "x", file, client] for client, file, label in rows()]
    for line in lines:
        write_picture(tmp_path / line[2])
    path = write_table(tmp_path, lines, "﻿Label, note ,FILE,client", pictures=False)
    assert load("client-csv", path=str(path), size=8).labels.bincount().tolist() == [9, 9, 9]


def test_images_may_lie_elsewhere(tmp_path: Path) -> None:
    path = write_table(tmp_path / "here", rows(), pictures=False)
    for _, file, _ in rows():
        write_picture(tmp_path / "there" / file)
    with pytest.raises(ConfigError, match=r"table.csv, line 2: the image .*here/pictures/0.png is missing \(30 of 30"):
        load("client-csv", path=str(path), size=8)
    assert load("client-csv", path=str(path), images=str(tmp_path / "there"), size=8).classes == 3
    assert load("client-csv", tmp_path, path="here/table.csv", images="there", size=8).classes == 3


def test_labels_are_numbers_words_or_classes_as_they_are(tmp_path: Path) -> None:
    numbers = [[c, f, str(10 * (n % 3))] for n, (c, f, _) in enumerate(rows())]
    assert opened(tmp_path, numbers).labels.unique().tolist() == [0, 1, 2]
    pool = opened(tmp_path, numbers, classes=40)
    assert pool.classes == 40 and pool.labels.unique().tolist() == [0, 10, 20]


def test_clients_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    lines = [[str(n % 12), f"{n}.png", LABELS[n % 3]] for n in range(60)]
    pool = opened(tmp_path, lines, memory=0)
    files = [int(Path(file).stem) % 12 for file in pool.train.decode.files]  # type: ignore[attr-defined]
    assert pool.groups["client"].tolist() == files


def test_no_client_is_left_without_images_to_train_on(tmp_path: Path) -> None:
    lines = [[f"u{n}", f"{n}.png", LABELS[n % 3]] for n in range(12)] + [
        ["u0", f"{n}.png", "cat"] for n in range(12, 30)
    ]
    pool = opened(tmp_path, lines, test_share=0.5)
    assert np.bincount(pool.groups["client"]).min() >= 1 and len(pool.groups["client"].unique()) == 12
    assert len(pool.test) > 0
    with pytest.raises(ConfigError, match=r"table\.csv: no image can be kept for a test; add images, or"):
        opened(tmp_path, lines[:12])


BAD: dict[str, tuple[list[list[str]], str, str]] = {
    "no-column": (
        rows(),
        "client,image,label",
        r"table\.csv, line 1: no column 'file'; .*client,file,label \(optional: split\)",
    ),
    "no-header": (rows(), "u9,pictures/0.png,cat", r"line 1: no column 'client'"),
    "column-twice": (
        [[*r, "x"] for r in rows()],
        "client,file,label,label",
        r"line 1: the column 'label' is there twice",
    ),
    "no-rows": ([], "client,file,label", r"table\.csv has a header and no rows"),
    "short-row": ([*rows(), ["u1", "x.png"]], "client,file,label", r"line 32: 2 columns instead of 3"),
    "long-row": ([*rows(), ["u1", "x.png", "cat", "?"]], "client,file,label", r"line 32: 4 columns instead of 3"),
    "no-client": ([*rows(), [" ", "x.png", "cat"]], "client,file,label", r"line 32: the client is empty"),
    "no-file": ([*rows(), ["u1", "", "cat"]], "client,file,label", r"line 32: the file is empty"),
    "no-label": ([*rows(), ["u1", "x.png", ""]], "client,file,label", r"line 32: the label is empty"),
    "twice": (
        [*rows(), ["u1", "./pictures/3.png", "cat"]],
        "client,file,label",
        r"line 32: the file .*pictures/3\.png is there already, on line 5",
    ),
    "one-label": (
        [[c, f, "cat"] for c, f, _ in rows()],
        "client,file,label",
        r"all training rows have the label 'cat'",
    ),
    "split": (
        [*split_rows(), ["u1", "x.png", "cat", "trian"]],
        "client,file,label,split",
        r"line 30: unknown split 'trian'; did you mean 'train'",
    ),
    "no-test": (
        [[*r, "train"] for r in rows()],
        "client,file,label,split",
        r"table\.csv: no row has the split test",
    ),
    "label-of-the-test": (
        [*split_rows(), ["u1", "x.png", "elk", "test"]],
        "client,file,label,split",
        r"line 30: no training row has the label 'elk'",
    ),
}


@pytest.mark.parametrize(("lines", "header", "reason"), BAD.values(), ids=BAD.keys())
def test_bad_tables_are_refused_with_their_line(
    tmp_path: Path, lines: list[list[str]], header: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        opened(tmp_path, lines, header)
    assert "\n" not in str(refused.value)


def test_words_may_be_many_digits(tmp_path: Path) -> None:
    assert opened(tmp_path, [[c, f, "7" * 5000 if x == "cat" else x] for c, f, x in rows()]).classes == 3


@pytest.mark.parametrize("label", ["3", "-1", "1.0", "cat", "9" * 5000])
def test_labels_out_of_range_are_refused_with_their_line(tmp_path: Path, label: str) -> None:
    lines = [[c, f, str(n % 3)] for n, (c, f, _) in enumerate(rows())]
    lines[6][2] = label
    with pytest.raises(ConfigError, match=rf"line 8: the class must be a whole number from 0 to 2, not '{label[:40]}'"):
        opened(tmp_path, lines, classes=3)


def test_other_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"say where the data are, data\.path=clients\.csv"):
        load("client-csv")
    with pytest.raises(ConfigError, match="cannot be read"):
        load("client-csv", path=str(tmp_path))
    path = write_table(tmp_path, rows())
    (tmp_path / "pictures" / "7.png").unlink()
    with pytest.raises(ConfigError, match=r"line 9: the image .*7\.png is missing$"):
        load("client-csv", path=str(path))
    refused(flatfed("run", "client-csv", "fedavg", "--set", f"data.path={path}"), "line 9", "7.png is missing")
    (tmp_path / "pictures" / "7.png").write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"7\.png cannot be read as an image"):
        load("client-csv", path=str(path))


@pytest.mark.parametrize("memory", [1.0, 1e-6])
def test_natural_clients_train_with_the_same_bits_on_workers(tmp_path: Path, memory: float) -> None:
    path = write_table(tmp_path, split_rows(), "client,file,label,split")
    options = {"path": str(path), "size": 16, "memory": memory}
    run = same_bits(TaskRecipe("client-csv", partition={"id": "natural"}, data_options=options))
    assert {"test_accuracy", "unseen_accuracy"} <= set(run.history[-1])
