"""The catalogue, the digits, normalisation and augmentation."""

from __future__ import annotations

import pickle
import sys
import zlib
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.data import Normalise, Pool, RandomShift, catalogue, datasets, load, sources
from flatfed.data.pool import image_pool
from flatfed.data.sources.digits import MEAN, STD
from flatfed.models import models


@pytest.fixture(scope="module")
def digits() -> Pool:
    return load("digits")


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# --- catalogue ------------------------------------------------------------------------------------------------


def test_datasets_are_listed() -> None:
    assert "1,437 train" in datasets()["digits"]


def test_unknown_names_are_corrected() -> None:
    with pytest.raises(ConfigError, match="unknown data set 'digit'; did you mean 'digits'"):
        load("digit")
    with pytest.raises(ConfigError, match=r"unknown option 'root'.*digits takes no options"):
        load("digits", root="/tmp")


def test_an_id_is_taken_once() -> None:
    def digits() -> Pool:
        raise AssertionError("never loaded")

    datasets()
    with pytest.raises(ConfigError, match=r"'digits' is taken by flatfed.data.sources.digits"):
        catalogue.source("digits")(digits)


def test_a_new_data_set_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy.py").write_text(
        "from dataclasses import replace\n"
        "from flatfed.data.catalogue import load, source\n"
        "@source('toy')\n"
        "def toy(copies: int = 1):\n"
        "    'Digits under another name.'\n"
        "    return replace(load('digits'), name='toy' * copies)\n"
    )
    datasets()
    monkeypatch.setattr(sources, "__path__", [*sources.__path__, str(tmp_path)])
    monkeypatch.setattr(catalogue, "_sources", dict(catalogue._sources))
    monkeypatch.delitem(sys.modules, "flatfed.data.sources.toy", raising=False)
    catalogue._discover.cache_clear()
    assert datasets()["toy"] == "Digits under another name."
    assert load("toy", copies=2).name == "toytoy"


def test_digits_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ConfigError, match=r"needs scikit-learn; pip install 'flatfed\[data\]'"):
        load("digits")


# --- digits ---------------------------------------------------------------------------------------------------


def test_digits_have_the_shape_they_promise(digits: Pool) -> None:
    assert digits.train.inputs.shape == (1437, 1, 8, 8)
    assert digits.test.inputs.shape == (360, 1, 8, 8)
    assert digits.train.inputs.dtype == torch.uint8
    assert int(digits.train.inputs.max()) == 16
    assert (dict(digits.facts), digits.classes) == ({"in_channels": 1, "image_size": 8}, 10)
    assert digits.test.targets.bincount().tolist() == [36] * 10
    assert digits.default_model in models()


def test_the_split_of_digits_is_fixed_and_covers_all(digits: Pool) -> None:
    from sklearn.datasets import load_digits

    everything = torch.cat([digits.train.inputs, digits.test.inputs]).flatten(1)
    original = torch.from_numpy(load_digits().images.astype("uint8")).flatten(1)
    assert sorted(everything.tolist()) == sorted(original.tolist())
    assert torch.equal(load("digits").test.inputs, digits.test.inputs)
    assert zlib.crc32(digits.test.inputs.numpy().tobytes()) == 2214297415


def test_the_constants_of_digits_are_those_of_the_train_part(digits: Pool) -> None:
    pixels = digits.train.inputs.double() / 16
    assert (round(float(pixels.mean()), 5),) == MEAN
    assert (round(float(pixels.std(correction=0)), 5),) == STD
    prepared = digits.prepare(digits.train.inputs)
    assert prepared.dtype == torch.float32
    assert abs(float(prepared.mean())) < 1e-4
    assert abs(float(prepared.std()) - 1) < 1e-3


def test_a_pool_is_frozen_and_pickles(digits: Pool) -> None:
    with pytest.raises(FrozenInstanceError):
        digits.classes = 3  # type: ignore[misc]
    again = pickle.loads(pickle.dumps(digits))
    assert again.prepare == digits.prepare
    assert again.augment == digits.augment
    assert torch.equal(again.train.inputs, digits.train.inputs)


def test_a_pool_checks_itself(digits: Pool) -> None:
    x, y = digits.train.inputs, digits.train.targets
    with pytest.raises(ConfigError, match="the train part must be uint8 inputs and int64 targets"):
        image_pool("mine", (x.float(), y), (x, y), 10, "mlp")
    with pytest.raises(ConfigError, match="the test part has 360 inputs and 1437 targets"):
        image_pool("mine", (x, y), (digits.test.inputs, y), 10, "mlp")
    with pytest.raises(ConfigError, match=r"targets outside 0\.\.8"):
        replace(digits, classes=9)
    with pytest.raises(ConfigError, match="writer must be an int64 number for each of the 1437 examples"):
        replace(digits, groups={"writer": y[:5]})


# --- transforms -----------------------------------------------------------------------------------------------


def test_normalise_by_channel() -> None:
    images = torch.randint(0, 256, (5, 3, 4, 6), dtype=torch.uint8, generator=generator(0))
    mean, std = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
    out = Normalise(mean, std)(images)
    for channel in range(3):
        expected = (images[:, channel] / 255 - mean[channel]) / std[channel]
        assert torch.allclose(out[:, channel], expected, atol=1e-5)


def shifted(image: Tensor, down: int, across: int) -> Tensor:
    """Move an image pixel by pixel."""
    out = torch.zeros_like(image)
    _, height, width = image.shape
    for i in range(height):
        for j in range(width):
            if 0 <= i + down < height and 0 <= j + across < width:
                out[:, i, j] = image[:, i + down, j + across]
    return out


@pytest.mark.parametrize("pixels", [0, 1, 2])
def test_every_image_moves_by_itself_to_one_of_the_places(pixels: int) -> None:
    images = torch.randint(1, 256, (200, 2, 5, 6), dtype=torch.uint8, generator=generator(1))
    out = RandomShift(pixels)(images, generator(2))
    assert out.dtype == torch.uint8 and out.shape == images.shape
    offsets = [(i, j) for i in range(-pixels, pixels + 1) for j in range(-pixels, pixels + 1)]
    found = [
        [o for o in offsets if torch.equal(shifted(before, *o), after)]
        for before, after in zip(images, out, strict=True)
    ]
    assert all(len(places) == 1 for places in found)
    assert {places[0] for places in found} == set(offsets)


def test_a_shift_draws_only_from_its_generator(digits: Pool) -> None:
    shift, batch = RandomShift(pixels=1), digits.train.inputs[:64]
    before, copy = torch.get_rng_state(), batch.clone()
    assert torch.equal(shift(batch, generator(3)), shift(batch, generator(3)))
    assert not torch.equal(shift(batch, generator(3)), shift(batch, generator(4)))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(batch, copy)
