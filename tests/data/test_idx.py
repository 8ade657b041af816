"""The idx format, and MNIST and Fashion-MNIST made of it."""

from __future__ import annotations

import gzip
import pickle
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from data.web import digits, idx, write_mnist
from flatfed.core.errors import ConfigError
from flatfed.core.task.examples import TensorExamples
from flatfed.data import Pool, load
from flatfed.data.directory import DataDirectory
from flatfed.data.formats.idx import read_idx
from flatfed.data.storage.pool import Normalise

FOLDERS = {"mnist": "MNIST/raw", "fashion-mnist": "FashionMNIST/raw"}


def inputs(pool: Pool) -> torch.Tensor:
    assert isinstance(pool.train, TensorExamples)
    return pool.train.inputs


# --- the format -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
        np.array([-128, 127], np.int8),
        np.array([[-30000, 1], [2, 30000]], np.int16),
        np.array([[1, 2**31 - 1]], np.int32),
        np.array([0.5, -2.25], np.float32),
        np.array([[[1e300]]], np.float64),
        np.zeros((0, 28, 28), np.uint8),
    ],
)
def test_arrays_come_back(array: npt.NDArray[Any], zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / "array"
    path.write_bytes(gzip.compress(idx(array)) if zipped else idx(array))
    read = read_idx(path)
    assert read.dtype == array.dtype
    assert np.array_equal(read, array)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an idx file: it begins with nothing"),
        (b"\0\0\x08", "is not an idx file"),
        (b"\1\0\x08\x01\0\0\0\1\7", "is not an idx file: it begins with 01 00 08 01"),
        (b"\0\0\x0a\x01\0\0\0\1\7", "is not an idx file"),
        (b"\0\0\x08\x01\0\0", "is truncated in its header"),
        (b"\0\0\x08\x01\0\0\0\3\7\7", "is truncated: 10 bytes instead of 11"),
        (b"\0\0\x08\x01\0\0\0\1\7\7", "is damaged: 10 bytes instead of 9"),
        (b"\0\0\x08\x03" + b"\xff" * 12 + b"\7", "is truncated: 17 bytes instead of"),
        (gzip.compress(b"\0\0\x08\x01\0\0\0\1\7", mtime=0)[:-9], "is truncated; get it again"),
        (b"\x1f\x8b" + b"\7" * 30, "is damaged"),
    ],
)
def test_damage_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as raised:
        read_idx(path)
    assert str(path) in str(raised.value)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing is missing"):
        read_idx(tmp_path / "nothing")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_idx(tmp_path)


def test_the_number_of_axes_is_checked(tmp_path: Path) -> None:
    (tmp_path / "labels").write_bytes(idx(np.zeros(3, np.uint8)))
    with pytest.raises(ConfigError, match="holds an array of 1 axes, not 3; is it under the wrong name"):
        read_idx(tmp_path / "labels", axes=3)


@pytest.mark.parametrize("zipped", [False, True])
def test_any_damage_is_an_error_for_people_or_none(zipped: bool, tmp_path: Path) -> None:
    whole = idx(digits(3, 0)[0])
    content = gzip.compress(whole) if zipped else whole
    draw = random.Random(0)
    for _ in range(300):
        spoilt = bytearray(content)
        spoilt[draw.randrange(40)] = draw.randrange(256)
        del spoilt[draw.randrange(1, len(spoilt)) :]
        (tmp_path / "file").write_bytes(spoilt)
        with pytest.raises(ConfigError, match="file"):
            read_idx(tmp_path / "file")


# --- the data sets --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", FOLDERS)
def test_a_data_set_is_read(name: str, zipped: bool, tmp_path: Path) -> None:
    write_mnist(tmp_path / FOLDERS[name], zipped)
    pool = load(name, tmp_path)
    images, labels = digits(40, 40)
    assert np.array_equal(inputs(pool).squeeze(1).numpy(), images)
    assert np.array_equal(pool.labels.numpy(), labels)
    assert (len(pool.train), len(pool.test), pool.classes) == (40, 20, 10)
    assert pool.facts == {"in_channels": 1, "image_size": 28}
    assert (pool.default_model, pool.augment, dict(pool.groups)) == ("cnn", None, {})
    assert pickle.loads(pickle.dumps(pool.prepare)) == pool.prepare


def test_the_constants() -> None:
    from flatfed.data.sources.published import mnist

    assert Normalise((0.1307,), (0.3081,)) == mnist.MNIST
    assert Normalise((0.2860,), (0.3530,)) == mnist.FASHION_MNIST


def test_plain_and_gzipped_files_may_be_mixed(tmp_path: Path) -> None:
    folder = tmp_path / "MNIST/raw"
    write_mnist(folder)
    write_mnist(tmp_path / "other", zipped=True)
    (folder / "train-images-idx3-ubyte").unlink()
    shutil.copy(tmp_path / "other/train-images-idx3-ubyte.gz", folder)
    assert len(load("mnist", tmp_path).train) == 40


def test_a_missing_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"train-images-idx3-ubyte.gz is missing; get it with `flatfed data get mnist`"
    ):
        load("mnist", tmp_path)
    write_mnist(tmp_path / "MNIST/raw")
    (tmp_path / "MNIST/raw/t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(ConfigError, match=r"t10k-labels-idx1-ubyte.gz is missing"):
        load("mnist", tmp_path)


@pytest.mark.parametrize(
    ("file", "array", "message"),
    [
        ("train-labels-idx1-ubyte", np.full(40, 10, np.uint8), "train-labels.*labels outside 0..9"),
        ("train-labels-idx1-ubyte", np.zeros(39, np.uint8), "holds 40 images, but .*train-labels.* 39 labels"),
        ("train-labels-idx1-ubyte", np.zeros(40, np.int32), "train-labels.*holds int32 numbers, not bytes"),
        ("t10k-images-idx3-ubyte", np.zeros(20, np.uint8), "t10k-images.*array of 1 axes, not 3"),
        ("t10k-images-idx3-ubyte", np.zeros((20, 8, 8), np.uint8), "t10k-images.* images of 8x8 pixels, not 28x28"),
        ("train-images-idx3-ubyte", np.zeros((40, 28, 20), np.uint8), "train-images.* of 28x20 pixels, not 28x28"),
        ("train-images-idx3-ubyte", np.zeros((40, 0, 0), np.uint8), "train-images.* of 0x0 pixels, not 28x28"),
    ],
)
def test_files_that_do_not_fit(file: str, array: npt.NDArray[Any], message: str, tmp_path: Path) -> None:
    write_mnist(tmp_path / "MNIST/raw")
    (tmp_path / "MNIST/raw" / file).write_bytes(idx(array))
    with pytest.raises(ConfigError, match=message):
        load("mnist", tmp_path)


def test_an_empty_part(tmp_path: Path) -> None:
    write_mnist(tmp_path / "MNIST/raw", test=0)
    with pytest.raises(ConfigError, match=r"t10k-images-idx3-ubyte holds no images"):
        load("mnist", tmp_path)


# --- the real files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FOLDERS)
def test_the_real_files(name: str) -> None:
    if not (DataDirectory().path / FOLDERS[name]).is_dir():
        pytest.skip(f"{name} is not in {DataDirectory().path}")
    pool = load(name)
    assert (len(pool.train), len(pool.test)) == (60_000, 10_000)
    assert isinstance(pool.prepare, Normalise)
    prepared = pool.prepare(inputs(pool))
    assert abs(float(prepared.mean())) < 1e-3
    assert abs(float(prepared.std()) - 1) < 1e-3
