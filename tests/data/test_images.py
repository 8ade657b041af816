"""Image files: decoding, examples decoded when needed, budgets of memory, and files that are damaged."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data.pictures import Image, encoded, picture, write_picture
from flatfed.core.errors import ConfigError
from flatfed.core.task.examples import TensorExamples
from flatfed.data.formats.images import CropNormalise, Decoding, ImageFiles, decode
from flatfed.data.storage.budget import DecodedImages, open_examples, read_all, verify
from flatfed.data.storage.lazy import LazyImages
from flatfed.data.storage.pool import Normalise

SMALL = Decoding(size=8, crop=0)


def files(folder: Path, count: int = 6, decoding: Decoding = SMALL) -> ImageFiles:
    """Write pictures of several shapes and return their reader."""
    paths = [write_picture(folder / f"{n}.png", n, width=8 + n, height=10) for n in range(count)]
    return ImageFiles([str(path) for path in paths], torch.arange(count) % 3, decoding)


# --- decoding -------------------------------------------------------------------------------------------------


def test_a_picture_of_the_right_size_comes_out_as_it_is(tmp_path: Path) -> None:
    path = write_picture(tmp_path / "a.png", 3, 8, 8)
    expected = torch.from_numpy(np.array(picture(3, 8, 8))).permute(2, 0, 1)
    assert torch.equal(decode(path, SMALL), expected)
    assert torch.equal(decode(path.read_bytes(), SMALL), expected)
    assert decode(path, SMALL).is_contiguous()


@pytest.mark.parametrize(("width", "height"), [(20, 10), (10, 20), (11, 10), (3, 40), (1, 1)])
def test_the_middle_is_cut_or_the_whole_is_stretched(tmp_path: Path, width: int, height: int) -> None:
    path = write_picture(tmp_path / "a.png", 1, width, height)
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    middle = picture(1, width, height).resize(
        (8, 8), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side)
    )
    whole = picture(1, width, height).resize((8, 8), Image.Resampling.BILINEAR)
    for fit, expected in (("crop", middle), ("stretch", whole)):
        actual = decode(path, SMALL.replace(fit=fit))
        assert actual.shape == (3, 8, 8) and actual.dtype == torch.uint8
        assert torch.equal(actual, torch.from_numpy(np.array(expected)).permute(2, 0, 1))


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "1", "CMYK", "I;16"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_kind_of_pixels_becomes_bytes(tmp_path: Path, mode: str, channels: int) -> None:
    grey = np.arange(64, dtype=np.uint8).reshape(8, 8) * 3
    image = Image.fromarray(grey.astype(np.uint16) * 256) if mode == "I;16" else Image.fromarray(grey).convert(mode)
    path = tmp_path / f"a.{'tiff' if mode == 'CMYK' else 'png'}"
    image.save(path)
    actual = decode(path, SMALL.replace(channels=channels))
    assert actual.shape == (channels, 8, 8)
    if mode not in ("1", "CMYK"):
        assert torch.equal(actual, torch.from_numpy(grey).expand(channels, 8, 8))


def test_a_transparent_palette_gives_its_colours(tmp_path: Path) -> None:
    image = picture(2, 8, 8).convert("P")
    image.info["transparency"] = bytes([0, 128])
    image.save(tmp_path / "a.png")
    expected = np.array(picture(2, 8, 8).convert("P").convert("RGB"))
    assert torch.equal(decode(tmp_path / "a.png", SMALL), torch.from_numpy(expected).permute(2, 0, 1))


def test_a_large_jpeg_is_decoded_at_a_fraction_and_looks_the_same(tmp_path: Path) -> None:
    ramp = np.linspace(0, 255, 640)[None, :, None] * np.ones((480, 1, 3))
    Image.fromarray(ramp.astype(np.uint8)).save(tmp_path / "a.jpg", quality=95)
    with Image.open(tmp_path / "a.jpg") as image:
        expected = np.array(image.resize((16, 16), Image.Resampling.BILINEAR, box=(80, 0, 560, 480)))
    actual = decode(tmp_path / "a.jpg", Decoding(size=16, crop=0)).permute(1, 2, 0).numpy()
    assert np.abs(actual.astype(int) - expected).max() <= 2


DAMAGE: dict[str, Any] = {
    "empty": b"",
    "text": b"this is no image",
    "cut": encoded(0)[:60],
    "cut-in-the-pixels": encoded(0)[:-80],
    "other-bytes": encoded(0)[:50] + b"\xff" * 40 + encoded(0)[90:],
}


@pytest.mark.parametrize("content", DAMAGE.values(), ids=DAMAGE.keys())
def test_an_unreadable_image_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.png"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"bad\.png cannot be read as an image: .*; replace or remove it") as refused:
        decode(path, SMALL)
    assert "\n" not in str(refused.value)
    assert str(refused.value).count("bad.png") == 1
    with pytest.raises(ConfigError, match="row 7 cannot be read as an image") as refused:
        decode(content, SMALL, "row 7")
    assert "BytesIO" not in str(refused.value)


def test_other_unreadable_things_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the image .*none\.png is missing"):
        decode(tmp_path / "none.png", SMALL)
    with pytest.raises(ConfigError, match=r"^row 7: the image is missing$"):
        decode(tmp_path / "none.png", SMALL, "row 7: the image")
    with pytest.raises(ConfigError, match="cannot be read as an image: Is a directory; replace or remove it"):
        decode(tmp_path, SMALL)
    Image.fromarray(np.zeros((8, 8), np.float32)).save(tmp_path / "a.tiff")
    with pytest.raises(ConfigError, match=r"a\.tiff cannot be read as an image: its pixels are floating-point numbers"):
        decode(tmp_path / "a.tiff", SMALL)


def test_images_that_are_larger_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")

    def resize(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(Image.Image, "resize", resize)
    with pytest.raises(ConfigError, match=r"a\.png: there is no memory for \d+ x \d+ pixels; take a smaller size"):
        decode(tmp_path / "a.png", SMALL)


def test_without_pillow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ConfigError, match=r"decoded with Pillow; pip install 'flatfed\[data\]'"):
        decode(tmp_path / "a.png", SMALL)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"size": 0}, "size must be at least 1"),
        ({"size": "big"}, "size must be a whole number"),
        ({"size": 100}, "crop must be at most size, 100, not 224"),
        ({"fit": "squash"}, "fit must be one of 'crop', 'stretch'"),
        ({"channels": 4}, "channels must be one of 1, 3"),
        ({"memory": -1.0}, "memory must be at least 0"),
    ],
)
def test_bad_ways_of_decoding_are_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Decoding(**change)


def test_what_a_model_takes_is_the_middle_normalised() -> None:
    images = torch.randint(0, 256, (4, 3, 9, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    prepare = Decoding(size=9, crop=5).prepare
    assert torch.equal(prepare(images), Normalise(prepare.mean, prepare.std)(images[:, :, 2:7, 1:6]))
    cut = images[:, :, 2:7, 1:6].contiguous()
    assert torch.equal(prepare(cut), prepare(images))
    assert prepare(images[:, :, :4, :4]).shape == (4, 3, 4, 4)
    assert pickle.loads(pickle.dumps(prepare)) == prepare
    assert isinstance(prepare, CropNormalise)
    grey = Decoding(size=9, crop=0, channels=1).prepare(images[:, :1])
    assert grey.shape == (4, 1, 9, 8) and -1 <= float(grey.min()) < float(grey.max()) <= 1


# --- examples decoded when needed -----------------------------------------------------------------------------


class Counted:
    """A reader that counts what it reads; each example takes 108 bytes."""

    def __init__(self, count: int = 10) -> None:
        self.count, self.read = count, list[int]()

    def __len__(self) -> int:
        return self.count

    def __call__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.read.append(index)
        return torch.full((1, 10, 10), index, dtype=torch.uint8), torch.tensor(index)


def lazily(reader: Counted, kept: int) -> LazyImages:
    return LazyImages(reader, len(reader), kept * 108)


def test_batches_are_the_images_asked_for(tmp_path: Path) -> None:
    reader = files(tmp_path)
    lazy = LazyImages(reader, len(reader), 0)
    inputs, targets = lazy.batch(torch.tensor([4, 0, 4]))
    assert inputs.shape == (3, 3, 8, 8) and inputs.dtype == torch.uint8
    assert targets.tolist() == [1, 0, 1] and targets.dtype == torch.int64
    assert torch.equal(inputs[1], decode(reader.files[0], SMALL))
    assert torch.equal(inputs[0], inputs[2])
    assert len(lazy) == 6


@pytest.mark.parametrize("kept", [0, 1, 3, 10])
def test_what_is_kept_changes_no_batch_and_never_exceeds_its_bytes(kept: int) -> None:
    reader = Counted()
    lazy = lazily(reader, kept)
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        indices = torch.randint(0, 10, (7,), generator=generator)
        inputs, targets = lazy.batch(indices)
        assert torch.equal(inputs[:, 0, 0, 0].long(), indices) and torch.equal(targets, indices)
        assert lazy.bytes_kept <= kept * 108
    assert (len(reader.read) == 10) == (kept == 10)


def test_those_used_longest_ago_make_way() -> None:
    reader = Counted()
    lazy = lazily(reader, 3)
    lazy.batch(torch.tensor([0, 1, 2]))
    lazy.batch(torch.tensor([0, 3]))  # 1 makes way
    reader.read.clear()
    lazy.batch(torch.tensor([0, 2, 3]))
    assert reader.read == []
    lazy.batch(torch.tensor([1]))
    assert reader.read == [1]


def test_a_copy_begins_with_nothing_kept() -> None:
    lazy = lazily(Counted(), 10)
    fresh = len(pickle.dumps(lazy))
    lazy.batch(torch.arange(10))
    again = pickle.loads(pickle.dumps(lazy))
    assert len(pickle.dumps(lazy)) < fresh + 200
    assert again.bytes_kept == 0 and lazy.bytes_kept == 1080
    assert torch.equal(again.batch(torch.tensor([5]))[1], torch.tensor([5]))


def _in_child(lazy: LazyImages, answers: Any) -> None:
    torch.set_num_threads(1)
    inputs, _ = lazy.batch(torch.arange(len(lazy)))
    answers.send(int(inputs.long().sum()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_examples_work_in_other_processes(tmp_path: Path, method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"{method} is not there on this system")
    reader = files(tmp_path)
    lazy = LazyImages(reader, len(reader), 2**20)
    expected = int(lazy.batch(torch.arange(6))[0].long().sum())
    context: Any = multiprocessing.get_context(method)
    here, there = context.Pipe()
    process = context.Process(target=_in_child, args=(lazy, there))
    process.start()
    assert here.poll(60) and here.recv() == expected
    process.join()
    assert process.exitcode == 0


# --- budgets --------------------------------------------------------------------------------------------------


def budget(examples: int) -> float:
    return examples * 108 / 2**30


def test_small_sets_are_decoded_once() -> None:
    readers = {"train": Counted(10), "test": Counted(5)}
    opened = open_examples(readers, budget(15))
    assert all(isinstance(examples, TensorExamples) for examples in opened.values())
    assert list(opened) == ["train", "test"]
    assert opened["train"].batch(torch.tensor([7]))[0].unique().tolist() == [7]
    assert sorted(set(readers["train"].read)) == list(range(10))


def test_large_sets_are_decoded_when_needed_and_tests_that_fit_at_once() -> None:
    readers = {"train": Counted(10), "test": Counted(9), "seen": Counted(4)}
    opened = open_examples(readers, budget(10))
    assert list(opened) == ["train", "test", "seen"]
    train, test, seen = opened.values()
    assert isinstance(train, LazyImages) and isinstance(test, LazyImages) and isinstance(seen, DecodedImages)
    assert (train.cache, test.cache) == (6 * 108, 0)


def test_nothing_is_kept_without_a_budget() -> None:
    opened = open_examples({"train": Counted(3), "test": Counted(3)}, 0.0)
    assert [getattr(examples, "cache", None) for examples in opened.values()] == [0, 0]


def test_an_evaluation_takes_few_large_images_at_a_time(tmp_path: Path) -> None:
    large, small = (files(tmp_path, 2, Decoding(size=size, crop=0)) for size in (256, 8))
    opened = open_examples({"train": large, "test": small}, 0.0)
    assert [examples.evaluation_batch for examples in opened.values()] == [32, 512]  # type: ignore[attr-defined]
    assert read_all(large).evaluation_batch == 32


def test_decoding_at_once_equals_decoding_when_needed(tmp_path: Path) -> None:
    reader = files(tmp_path, 20)
    everything = read_all(reader)
    inputs, targets = LazyImages(reader, len(reader), 0).batch(torch.arange(20))
    assert torch.equal(everything.inputs, inputs) and torch.equal(everything.targets, targets)


def test_a_bad_image_is_named_when_all_are_decoded_and_when_verified(tmp_path: Path) -> None:
    reader = files(tmp_path, 20)
    for bad in range(3, 10):
        Path(reader.files[bad]).write_bytes(b"no image")
    with pytest.raises(ConfigError, match=r"3\.png cannot be read"):
        read_all(reader)
    with pytest.raises(ConfigError, match=r"pets: 7 of 40 images are bad: .*3\.png.*7\.png.*; and 2 more$"):
        verify("pets", {"train": reader, "test": replace(reader, files=reader.files[:1] * 20)})
    verify("pets", {"test": replace(reader, files=reader.files[:1] * 20)})
