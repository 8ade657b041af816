"""MNIST by writer: reading the file, making it, and the clients that it gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data.web import digits, idx, write_mnist
from flatfed.core.errors import ConfigError
from flatfed.core.task.examples import TensorExamples
from flatfed.data import load
from flatfed.data.catalogue import find
from flatfed.data.directory import DataDirectory
from flatfed.data.sources.published.mnist_writers import FILE, assemble
from flatfed.experiments.tasks.recipe import TaskRecipe

WRITERS = {"train": np.arange(40) // 8 * 3 + 100, "test": np.arange(20) // 5 + 2000}


def arrays() -> dict[str, Any]:
    made: dict[str, Any] = {}
    for part, count in {"train": 40, "test": 20}.items():
        images, labels = digits(count, count)
        made |= {f"x_{part}": images, f"y_{part}": labels, f"writer_{part}": WRITERS[part].astype(np.int32)}
    return made


def write(root: Path, **changes: Any) -> Path:
    kept = {name: array for name, array in (arrays() | changes).items() if array is not None}
    np.savez_compressed(root / FILE, **kept)
    return root / FILE


def test_the_file_is_read(tmp_path: Path) -> None:
    write(tmp_path)
    pool = load("mnist-writers", tmp_path)
    images, labels = digits(40, 40)
    assert isinstance(pool.train, TensorExamples)
    assert np.array_equal(pool.train.inputs.squeeze(1).numpy(), images)
    assert np.array_equal(pool.labels.numpy(), labels)
    assert (len(pool.test), pool.classes, pool.default_model) == (20, 10, "cnn")
    assert pool.groups["writer"].tolist() == WRITERS["train"].tolist()


def test_each_writer_is_a_client(tmp_path: Path) -> None:
    write(tmp_path)
    source = find("mnist-writers")
    assert source.partition == "natural"
    recipe = TaskRecipe("mnist-writers", partition={"id": source.partition}, data_dir=str(tmp_path))
    parts = [sorted(int(i) for i in part) for part in recipe.parts()]
    assert sorted(parts) == [list(range(begin, begin + 8)) for begin in range(0, 40, 8)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"writer_train": None}, "lacks an array.*it must hold x_train, y_train, writer_train"),
        ({"x_train": np.zeros((40, 784), np.uint8)}, "x_train must be images of bytes"),
        ({"x_test": np.zeros((20, 28, 28), np.int16)}, "x_test must be images of bytes"),
        ({"x_test": np.zeros((20, 8, 8), np.uint8)}, "x_test must be images of bytes, N x 28 x 28"),
        ({"x_train": np.uint8(3)}, "x_train must be images of bytes"),
        ({"x_test": np.zeros((20, 28, 28))}, "x_test holds float64, not whole numbers"),
        ({"y_train": np.zeros(39, np.uint8)}, "y_train and writer_train must have a number for each image"),
        ({"writer_test": np.zeros((20, 2), np.int32)}, "y_test and writer_test must have a number for each image"),
        ({"y_test": np.full(20, 10, np.uint8)}, "y_test has labels outside 0..9"),
        ({"y_test": np.full(20, -1, np.int8)}, "y_test has labels outside 0..9"),
        ({"y_test": np.array([None] * 20)}, "it holds Python objects, which are not opened"),
    ],
)
def test_a_file_that_does_not_fit(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path, **changes)
    with pytest.raises(ConfigError, match=message) as raised:
        load("mnist-writers", tmp_path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("kept", [0, 10, 500, 5_000])
def test_a_truncated_file(kept: int, tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ConfigError, match="is truncated or damaged"):
        load("mnist-writers", tmp_path)


OTHERS = {
    "text": (b"<html>404</html>", r"\.npz cannot be read: it is no NumPy file"),
    "archive": (b"PK\3\4" + b"x" * 100, r"\.npz cannot be read: it is truncated or damaged \(File is not a zip file\)"),
    "pickle": (b"\x80\4K\1.", r"\.npz cannot be read: it is no NumPy file"),
}


@pytest.mark.parametrize(("content", "message"), OTHERS.values(), ids=OTHERS)
def test_another_file_under_this_name(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        load("mnist-writers", tmp_path)


def test_an_array_or_a_folder_under_this_name(tmp_path: Path) -> None:
    with (tmp_path / FILE).open("wb") as file:
        np.save(file, np.zeros(4))
    with pytest.raises(ConfigError, match=r"\.npz lacks an array: x_train"):
        load("mnist-writers", tmp_path)
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).mkdir()
    with pytest.raises(ConfigError, match=r"\.npz cannot be read: Is a directory"):
        load("mnist-writers", tmp_path)


def test_damage_inside(tmp_path: Path) -> None:
    path = write(tmp_path)
    content = bytearray(path.read_bytes())
    content[200:300] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="is truncated or damaged"):
        load("mnist-writers", tmp_path)


def test_without_the_file(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"mnist-writers.npz is missing; get it with `flatfed data get mnist-writers`"
    ):
        load("mnist-writers", tmp_path)


# --- making it ------------------------------------------------------------------------------------------------


def traced(labels: Any, writers: Any, more: int = 0) -> Any:
    """Return extended labels as QMNIST has them: class, series, writer and five more columns."""
    table = np.zeros((len(labels) + more, 8), np.int32)
    table[: len(labels), 0], table[: len(labels), 2] = labels, writers
    return table


def write_traced(root: Path, more: int = 7) -> None:
    folder = root / "QMNIST/raw"
    folder.mkdir(parents=True)
    for part, count in {"train": 40, "test": 20}.items():
        table = traced(digits(count, count)[1], WRITERS[part], more if part == "test" else 0)
        (folder / f"qmnist-{part}-labels-idx2-int").write_bytes(idx(table))


@pytest.mark.parametrize("zipped", [False, True])
def test_it_is_made_of_mnist_and_the_traced_labels(zipped: bool, tmp_path: Path) -> None:
    write_mnist(tmp_path / "MNIST/raw", zipped)
    write_traced(tmp_path)
    assemble(DataDirectory(tmp_path))
    with np.load(tmp_path / FILE) as made:
        expected = arrays()
        assert set(made) == set(expected)
        assert all(np.array_equal(made[name], expected[name]) for name in expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["MNIST", "QMNIST", FILE]
    assert len(load("mnist-writers", tmp_path).train) == 40


def test_labels_of_other_digits_are_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path / "MNIST/raw")
    write_traced(tmp_path)
    path = tmp_path / "QMNIST/raw/qmnist-test-labels-idx2-int"
    path.write_bytes(idx(traced(np.ones(20), WRITERS["test"])))
    with pytest.raises(ConfigError, match="does not fit MNIST: its classes are others than those of the test part"):
        assemble(DataDirectory(tmp_path))
    path.write_bytes(idx(traced(digits(20, 20)[1], WRITERS["test"])[:5]))
    with pytest.raises(ConfigError, match="does not fit MNIST"):
        assemble(DataDirectory(tmp_path))
    assert not (tmp_path / FILE).exists()


# --- the real file --------------------------------------------------------------------------------------------


@pytest.mark.skipif(not (DataDirectory().path / FILE).exists(), reason=f"{FILE} is not in {DataDirectory().path}")
def test_the_real_file() -> None:
    pool = load("mnist-writers")
    sizes = torch.unique(pool.groups["writer"], return_counts=True)[1]
    assert (len(pool.train), len(pool.test), len(sizes)) == (60_000, 10_000, 539)
    assert (int(sizes.min()), int(sizes.median()), int(sizes.max())) == (19, 116, 131)
    recipe = TaskRecipe("mnist-writers", partition={"id": "natural"})
    assert sorted(map(len, recipe.parts())) == sorted(sizes.tolist())
