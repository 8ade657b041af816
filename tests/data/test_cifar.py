"""CIFAR-10 and CIFAR-100 in both layouts, and pickles that are not what they should be."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from flatfed.core.errors import ConfigError
from flatfed.core.task.examples import TensorExamples
from flatfed.data import Pool, load
from flatfed.data.augment import Chain, Crop, Flip
from flatfed.data.directory import DataDirectory
from flatfed.data.formats.cifar import CifarLabels, read_pickled
from flatfed.data.storage.pool import Normalise

Bytes = npt.NDArray[np.uint8]
FOLDERS = {"cifar10": "cifar-10-batches-", "cifar100": "cifar-100-"}
BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
PARTS = ["train", "test"]
COUNT = 12
FINE, COARSE = CifarLabels("fine_labels", 100), CifarLabels("coarse_labels", 20)


def batch(seed: int) -> tuple[Bytes, Bytes, Bytes]:
    """Return rows of pixels, and two kinds of labels."""
    generator = np.random.default_rng(seed)
    fine = generator.integers(0, 100, COUNT, np.uint8)
    return generator.integers(0, 256, (COUNT, 3072), np.uint8), fine // 5, fine


def write_binary(root: Path, name: str) -> Path:
    """Write the binary layout and return its folder."""
    folder = root / ("cifar-10-batches-bin" if name == "cifar10" else "cifar-100-binary")
    folder.mkdir(parents=True)
    for seed, file in enumerate(BATCHES if name == "cifar10" else PARTS):
        pixels, coarse, fine = batch(seed)
        labels = [fine % 10] if name == "cifar10" else [coarse, fine]
        (folder / f"{file}.bin").write_bytes(np.column_stack([*labels, pixels]).tobytes())
    return folder


def content(name: str, seed: int) -> dict[str, Any]:
    pixels, coarse, fine = batch(seed)
    labels = {"coarse_labels": coarse.tolist(), "fine_labels": fine.tolist()}
    return {"data": pixels, "filenames": ["a.png"] * COUNT} | (
        {"labels": (fine % 10).tolist()} if name == "cifar10" else labels
    )


def write_python(root: Path, name: str, writer: Any = lambda value: pickle.dumps(value, protocol=2)) -> Path:
    """Write the Python layout and return its folder."""
    folder = root / ("cifar-10-batches-py" if name == "cifar10" else "cifar-100-python")
    folder.mkdir(parents=True)
    for seed, file in enumerate(BATCHES if name == "cifar10" else PARTS):
        (folder / file).write_bytes(writer(content(name, seed)))
    return folder


def as_python_2(value: Any) -> bytes:
    """Pickle as the authors' Python 2 did: texts and bytes are one type, which Python 3 does not write any more."""

    def written(value: Any) -> bytes:
        if isinstance(value, dict):
            return b"}(" + b"".join(written(key) + written(entry) for key, entry in value.items()) + b"u"
        if isinstance(value, list):
            return b"](" + b"".join(map(written, value)) + b"e"
        if isinstance(value, int):
            return b"J" + value.to_bytes(4, "little", signed=True)
        if isinstance(value, str | bytes):
            raw = value.encode() if isinstance(value, str) else value
            return b"T" + len(raw).to_bytes(4, "little") + raw
        assert isinstance(value, np.ndarray)
        made = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\nt" + written(b"b") + b"tR"
        kind = b"cnumpy\ndtype\n(" + written(b"u1") + b"I0\nI1\ntR(I3\n" + written(b"|") + b"NNNI-1\nI-1\nI0\ntb"
        shape = b"(" + b"".join(map(written, value.shape)) + b"t"
        return made + b"(I1\n" + shape + kind + b"I00\n" + written(value.tobytes()) + b"tb"

    return b"\x80\x02" + written(value) + b"."


WRITERS = {
    "Python 2": as_python_2,
    "protocol 2": lambda value: pickle.dumps(value, protocol=2),
    "protocol 2, bytes": lambda value: pickle.dumps({key.encode(): entry for key, entry in value.items()}, protocol=2),
    "protocol 4": lambda value: pickle.dumps(value, protocol=4),
    "protocol 5": lambda value: pickle.dumps(value, protocol=5),
}


def tensors(pool: Pool) -> list[torch.Tensor]:
    assert isinstance(pool.train, TensorExamples)
    assert isinstance(pool.test, TensorExamples)
    train, test = pool.train, pool.test
    return [train.inputs, train.targets, test.inputs, test.targets, *pool.groups.values()]


# --- both layouts ---------------------------------------------------------------------------------------------


def test_cifar10_from_records(tmp_path: Path) -> None:
    write_binary(tmp_path, "cifar10")
    pool = load("cifar10", tmp_path)
    images, labels, test_images, test_labels = tensors(pool)
    batches = [batch(seed) for seed in range(6)]
    assert np.array_equal(images.numpy(), np.concatenate([b[0] for b in batches[:5]]).reshape(-1, 3, 32, 32))
    assert np.array_equal(labels.numpy(), np.concatenate([b[2] % 10 for b in batches[:5]]))
    assert np.array_equal(test_images.numpy(), batches[5][0].reshape(-1, 3, 32, 32))
    assert np.array_equal(test_labels.numpy(), batches[5][2] % 10)
    assert (pool.classes, pool.default_model, dict(pool.groups)) == (10, "cnn", {})
    assert pool.facts == {"in_channels": 3, "image_size": 32}
    assert images.is_contiguous()


@pytest.mark.parametrize(("labels", "column", "classes"), [("fine", 2, 100), ("coarse", 1, 20)])
def test_cifar100_by_fine_or_coarse_classes(labels: str, column: int, classes: int, tmp_path: Path) -> None:
    write_binary(tmp_path, "cifar100")
    pool = load("cifar100", tmp_path, labels=labels)
    assert pool.classes == classes
    assert np.array_equal(pool.labels.numpy(), batch(0)[column])
    assert np.array_equal(tensors(pool)[3].numpy(), batch(1)[column])
    assert np.array_equal(pool.groups["coarse"].numpy(), batch(0)[1])


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("name", FOLDERS)
def test_the_layouts_hold_the_same(name: str, writer: str, tmp_path: Path) -> None:
    write_binary(tmp_path / "binary", name)
    write_python(tmp_path / "python", name, WRITERS[writer])
    pairs = zip(tensors(load(name, tmp_path / "binary")), tensors(load(name, tmp_path / "python")), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_records_are_preferred(tmp_path: Path) -> None:
    write_binary(tmp_path, "cifar10")
    (tmp_path / "cifar-10-batches-py").mkdir()
    assert len(load("cifar10", tmp_path).train) == 5 * COUNT


def test_the_constants_of_two_papers(tmp_path: Path) -> None:
    for name in FOLDERS:
        write_binary(tmp_path, name)
    mean = (0.4914, 0.4822, 0.4465)
    assert load("cifar10", tmp_path).prepare == Normalise(mean, (0.2023, 0.1994, 0.2010))
    assert load("cifar10", tmp_path, normalisation="fedgloss").prepare == Normalise(mean, (0.2470, 0.2434, 0.2616))
    assert load("cifar100", tmp_path).prepare == Normalise((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))
    assert load("cifar100", tmp_path, normalisation="fedgloss").prepare == Normalise(
        (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)
    )


def test_the_augmentation_is_a_crop_and_a_flip_for_each_image(tmp_path: Path) -> None:
    write_binary(tmp_path, "cifar10")
    pool = load("cifar10", tmp_path)
    assert pool.augment == Chain((Crop(padding=4), Flip(p=0.5)))
    images = tensors(pool)[0]
    changed = pool.augment(images, torch.Generator().manual_seed(0))
    assert changed.dtype == torch.uint8
    assert changed.shape == images.shape
    assert not torch.equal(changed, images)
    assert pickle.loads(pickle.dumps(pool.augment)) == pool.augment


@pytest.mark.parametrize(
    ("name", "option"), [("cifar10", {"normalisation": "fedgf"}), ("cifar100", {"labels": "rough"})]
)
def test_an_unknown_choice_is_refused(name: str, option: dict[str, str], tmp_path: Path) -> None:
    write_binary(tmp_path, name)
    with pytest.raises(ConfigError, match=next(iter(option))):
        load(name, tmp_path, **option)


# --- damage ---------------------------------------------------------------------------------------------------


def test_missing_folders_and_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"batches-bin or .*batches-py is missing; get it with `flatfed data get cifar10`"
    ):
        load("cifar10", tmp_path)
    folder = write_binary(tmp_path, "cifar10")
    (folder / "data_batch_3.bin").unlink()
    with pytest.raises(ConfigError, match=r"data_batch_3.bin is missing"):
        load("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes are no whole number of records"),
        (bytes(3073 * 2 - 1), "truncated or damaged: 6,145 bytes are no whole number of records of 3,073"),
        (b"\x0a" + bytes(3072), "labels outside 0..9"),
    ],
)
def test_damaged_records_are_named(content: bytes, message: str, tmp_path: Path) -> None:
    folder = write_binary(tmp_path, "cifar10")
    (folder / "data_batch_2.bin").write_bytes(content)
    with pytest.raises(ConfigError, match=message) as raised:
        load("cifar10", tmp_path)
    assert str(folder / "data_batch_2.bin") in str(raised.value)


def test_a_coarse_label_out_of_range(tmp_path: Path) -> None:
    folder = write_binary(tmp_path, "cifar100")
    (folder / "test.bin").write_bytes(b"\x14\x63" + bytes(3072))
    with pytest.raises(ConfigError, match=r"test.bin is damaged: it has coarse_labels outside 0..19"):
        load("cifar100", tmp_path)


DAMAGED = {
    "nothing": (b"", "is truncated or damaged"),
    "cut off": (as_python_2(content("cifar10", 1))[:-100], "is truncated or damaged"),
    "text": (b"<html>not found</html>", "is truncated or damaged"),
    "a list": (pickle.dumps([1, 2]), "is no batch of CIFAR images: it holds a list"),
    "no data": (pickle.dumps({"labels": [1]}), "must hold an array `data` and lists labels"),
    "no labels": (pickle.dumps({"data": batch(0)[0]}), "must hold an array `data` and lists labels"),
    "another width": (pickle.dumps({"data": np.zeros((2, 3), np.uint8), "labels": [1, 2]}), "rows of 3,072 bytes"),
    "other numbers": (pickle.dumps({"data": np.zeros((1, 3072)), "labels": [1]}), "is truncated or damaged"),
    "by column": (
        pickle.dumps({"data": np.asfortranarray(batch(0)[0]), "labels": [1] * COUNT}),
        "is truncated or damaged",
    ),
    "too few labels": (pickle.dumps({"data": batch(0)[0], "labels": [1]}), "labels must be 12 whole numbers"),
    "no numbers": (pickle.dumps({"data": batch(0)[0], "labels": ["1"] * COUNT}), "labels must be 12 whole numbers"),
    "a huge label": (pickle.dumps({"data": batch(0)[0], "labels": [10**30] * COUNT}), "labels outside 0..9"),
    "a negative label": (pickle.dumps({"data": batch(0)[0], "labels": [-1] * COUNT}), "labels outside 0..9"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_pickles_are_named(kind: str, tmp_path: Path) -> None:
    spoilt, message = DAMAGED[kind]
    folder = write_python(tmp_path, "cifar10")
    (folder / "data_batch_4").write_bytes(spoilt)
    with pytest.raises(ConfigError, match=message) as raised:
        load("cifar10", tmp_path)
    assert str(folder / "data_batch_4") in str(raised.value)


class _Call:
    """Calls a function with arguments when it is unpickled."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_code_in_a_pickle_is_not_run(protocol: int, tmp_path: Path) -> None:
    mark = tmp_path / "run"
    for call in (_Call(Path.touch, mark), _Call(open, str(mark), "w"), _Call(np.fromfile, str(mark))):
        path = tmp_path / "train"
        path.write_bytes(pickle.dumps({"data": call, "fine_labels": [1]}, protocol=protocol))
        with pytest.raises(
            ConfigError, match=r"train is not opened: it asks for .*, which no official CIFAR file does"
        ):
            read_pickled([path], [FINE])
    assert not mark.exists()


@pytest.mark.parametrize(
    "code",
    [
        b"cnumpy\nndarray.tofile\n.",  # a name that leads on from an admitted one
        b"cos\nsystem\n(S'true'\ntR.",
        b"cnumpy.core.multiarray\nscalar\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93.",
        b"cbuiltins\ngetattr\n.",
    ],
)
def test_only_what_the_files_need_is_admitted(code: bytes, tmp_path: Path) -> None:
    (tmp_path / "train").write_bytes(code)
    with pytest.raises(ConfigError, match="is not opened"):
        read_pickled([tmp_path / "train"], [FINE])


@pytest.mark.parametrize("writer", WRITERS)
def test_any_damage_to_a_pickle_is_an_error_for_people_or_none(writer: str, tmp_path: Path) -> None:
    whole = WRITERS[writer](content("cifar100", 0))
    draw = random.Random(0)
    places = [i for i in range(len(whole)) if i < 400 or i > len(whole) - 400]
    for _ in range(150):
        spoilt = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            spoilt[draw.choice(places)] = draw.randrange(256)
        (tmp_path / "train").write_bytes(spoilt)
        try:
            images, labels = read_pickled([tmp_path / "train"], [COARSE, FINE])
        except ConfigError as error:
            assert "train" in str(error)
        else:
            assert images.shape[1:] == (3, 32, 32)
            assert all(len(numbers) == len(images) for numbers in labels)


# --- the real files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FOLDERS)
def test_the_real_files_in_both_layouts(name: str, tmp_path: Path) -> None:
    root = DataDirectory().path
    actual = sorted(root.glob(f"{FOLDERS[name]}[bp]*"))
    if len(actual) < 2:
        pytest.skip(f"{name} is not in {root} in both layouts")
    pool = load(name)
    assert (len(pool.train), len(pool.test)) == (50_000, 10_000)
    assert set(torch.bincount(pool.labels).tolist()) == {50_000 // pool.classes}
    (tmp_path / actual[1].name).symlink_to(actual[1])
    pairs = zip(tensors(pool), tensors(load(name, tmp_path)), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert all(
        sum(pool.labels[pool.groups["coarse"] == c].unique().numel() for c in range(20)) == 100 for _ in pool.groups
    )
