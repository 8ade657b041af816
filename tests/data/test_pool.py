"""The catalogue, the digits, normalisation and augmentation."""

from __future__ import annotations

import pickle
import subprocess
import sys
import zlib
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import torch

from cli.command import SMALL, flatfed, refused
from data.declared import add_source
from flatfed.core.configuration.checking import checked
from flatfed.core.configuration.registry import import_all
from flatfed.core.errors import ConfigError
from flatfed.data import Normalise, Pool, catalogue, datasets, load
from flatfed.data.augment import Crop
from flatfed.data.catalogue import broken_modules
from flatfed.data.directory import MissingOption
from flatfed.data.sources.published.digits import MEAN, STD, _load_digits
from flatfed.data.storage.pool import image_pool
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
    with pytest.raises(ConfigError, match=r"'digits' is taken by flatfed.data.sources.published.digits"):
        catalogue.source("digits")(digits)


TOY = """
from dataclasses import replace
from flatfed.data.catalogue import load, source
@source('toy')
def toy(copies: int = 1):
    'Digits under another name.'
    return replace(load('digits'), name='toy' * copies)
"""


def test_a_new_data_set_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_source(tmp_path, monkeypatch, TOY)
    assert datasets()["toy"] == "Digits under another name."
    assert load("toy", copies=2).name == "toytoy"
    with pytest.raises(ConfigError, match=r"^data\.copies must be a whole number, not 1\.5$"):
        load("toy", copies=1.5)
    refused(flatfed("data", "check", "toy", "--set", "data.copies=x"), "data.copies must be a whole number, not 'x'")


BROKEN = {
    "syntax": ("def toy(:\n", "SyntaxError: invalid syntax"),
    "import": ("import no_such_library\n", "ModuleNotFoundError: No module named 'no_such_library'"),
    "bare": ("raise RuntimeError\n", "(RuntimeError)"),
    "taken": (
        TOY.replace("'toy'", "'digits'", 1),
        "the data set id 'digits' is taken by flatfed.data.sources.published.digits",
    ),
}


@pytest.mark.parametrize(("text", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_module_is_named(text: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_source(tmp_path, monkeypatch, text)
    for command in (["list", "datasets"], ["data", "list"], ["list", "datasets", "--json"], ["data", "list", "--json"]):
        outcome = flatfed(*command)
        assert outcome.code == 0
        assert "digits" in outcome.out and "toy" not in outcome.out
        assert outcome.err.startswith("Warning: the data set module flatfed.data.sources.toy cannot be imported (")
        assert reason in outcome.err
        assert outcome.err.count("\n") == 1
    broken = "the data set module flatfed.data.sources.toy cannot be imported"
    for command in (["data", "check", "toy"], ["data", "get", "toy"], ["run", "toy", "fedavg"]):
        outcome = flatfed(*command)
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert all(part in outcome.err for part in ("Error: unknown data set 'toy'", broken, reason))


@pytest.mark.parametrize(("text", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_module_does_not_matter_to_the_others(
    text: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_source(tmp_path, monkeypatch, text)
    outcome = flatfed("run", "digits", "fedavg", *SMALL, "--out", tmp_path / "run")
    assert outcome.code == 0
    assert reason not in outcome.err
    assert flatfed("data", "check", "digits").code == 0


def test_what_a_module_entered_before_it_failed_is_taken_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_source(tmp_path, monkeypatch, f"{TOY}\nraise RuntimeError('too late')\n")
    assert "toy" not in datasets()
    assert list(broken_modules()) == ["flatfed.data.sources.toy"]
    with pytest.raises(ConfigError, match=r"unknown data set 'toy'.*; note: the data set module .*too late"):
        load("toy")


def test_a_package_of_sources_that_is_broken_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_source(tmp_path, monkeypatch, TOY)
    (tmp_path / "several").mkdir()
    (tmp_path / "several" / "__init__.py").write_text("raise RuntimeError('no way in')")
    (tmp_path / "several" / "inner.py").write_text("")
    assert {"digits", "toy"} <= set(datasets())
    assert list(broken_modules()) == ["flatfed.data.sources.several"]


def test_modules_of_any_package_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd").mkdir()
    for name, text in {"__init__": "", "good": "", "bad": "import good.old.times"}.items():
        (tmp_path / "odd" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"^the partition module odd\.bad cannot be imported \(ModuleNotFoundError: "):
        import_all("odd", [str(tmp_path / "odd")], "partition")


UNFIT = {
    "name": (TOY.replace(": int", ": 'Copies'"), "name 'Copies' is not defined"),
    "type": (TOY.replace(": int", ": list[int]"), "cannot be"),
}


@pytest.mark.parametrize(("text", "reason"), UNFIT.values(), ids=UNFIT)
def test_annotations_that_say_nothing(text: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_source(tmp_path, monkeypatch, text)
    assert load("toy").name == "toy"
    with pytest.raises(ConfigError, match=f"by the annotations of flatfed.data.sources.toy.toy: .*{reason}"):
        load("toy", copies=1)


def test_an_option_without_a_default_must_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_source(tmp_path, monkeypatch, TOY.replace(": int = 1", ""))
    assert load("toy", copies=1).name == "toy"
    with pytest.raises(MissingOption, match=r"^toy: the option copies has no default, data\.copies=VALUE$"):
        load("toy")
    refused(flatfed("data", "check", "toy"), "toy: the option copies has no default, --set data.copies=VALUE")


@pytest.mark.parametrize("name", datasets())
def test_every_option_has_an_annotation_that_fits_its_default(name: str) -> None:
    actual = catalogue.find(name)
    hints: dict[str, Any] = get_type_hints(actual.load, include_extras=True)
    for option, default in actual.options.items():
        assert checked(hints[option], default, option) == default


def test_digits_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ConfigError, match=r"needs scikit-learn; pip install 'flatfed\[data\]'"):
        load("digits")


def test_digits_are_those_that_scikit_learn_loads() -> None:
    library = pytest.importorskip("sklearn.datasets")
    pixels, labels = _load_digits()
    bunch = library.load_digits()
    assert (pixels == bunch.images).all() and (labels == bunch.target).all()


def test_digits_are_loaded_without_importing_scikit_learn() -> None:
    code = "import sys; from flatfed.data import load; load('digits'); sys.exit('sklearn' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


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
    with pytest.raises(
        ConfigError, match="the test part has inputs of 1437 x 1 x 4 x 8, the train part of 1437 x 1 x 8"
    ):
        image_pool("mine", (x, y), (x[:, :, ::2], y), 10, "mlp")
    with pytest.raises(ConfigError, match="the train part has inputs of 1437 x 1 x 0 x 8"):
        image_pool("mine", (x[:, :, :0], y), (x, y), 10, "mlp")
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


def test_digits_move_by_a_pixel_at_most(digits: Pool) -> None:
    assert digits.augment == Crop(padding=1)
