"""The data set `hugging-face`: images and texts of the library `datasets`, from the disk, never from the network."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from data.pictures import encoded, write_classes
from data.training import same_bits
from flatfed.core.errors import ConfigError
from flatfed.data import load
from flatfed.data.formats import hub_tables
from flatfed.data.formats.images import Decoding, decode
from flatfed.data.storage.lazy import LazyImages
from flatfed.experiments.tasks.recipe import TaskRecipe

NAME = "hugging-face"


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match=r"need the library datasets; pip install 'flatfed\[hugging-face\]'"):
        load(NAME, path="mnist")


def test_without_a_path() -> None:
    with pytest.raises(ConfigError, match=r"say which data set, a folder or its name on the hub, data\.path=FOLDER"):
        load(NAME)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The library, with a cache of its own for each test."""
    datasets = pytest.importorskip("datasets", reason="needs the library datasets: pip install 'flatfed[hugging-face]'")
    datasets.disable_progress_bars()
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return datasets


def pictures(library: Any, count: int, labels: Any = None, images: list[bytes | None] | None = None) -> Any:
    """Return a table of images with their classes and owners."""
    labels = labels or library.ClassLabel(names=["cat", "dog", "owl"])
    features = {"image": library.Image(), "label": labels, "who": library.Value("string")}
    words = not isinstance(labels, library.ClassLabel) and labels.dtype == "string"
    content = {
        "image": [b and {"bytes": b, "path": None} for b in images or [encoded(n, n % 3) for n in range(count)]],
        "label": [("cat", "dog", "owl")[n % 3] if words else n % 3 for n in range(count)],
        "who": [f"u{n % 4}" for n in range(count)],
    }
    return library.Dataset.from_dict(content, features=library.Features(features))


@pytest.fixture
def saved(library: Any, tmp_path: Path) -> Path:
    """A folder that save_to_disk wrote, with splits train (30) and test (9)."""
    parts = {"train": pictures(library, 30), "test": pictures(library, 9)}
    library.DatasetDict(parts).save_to_disk(tmp_path / "saved")
    return tmp_path / "saved"


def write(library: Any, folder: Path, content: dict[str, list[Any]], **features: Any) -> str:
    declared = library.Features(features) if features else None
    library.Dataset.from_dict(content, features=declared).save_to_disk(folder)
    return str(folder)


def test_images_labels_and_owners_are_those_of_the_columns(saved: Path) -> None:
    pool = load(NAME, path=str(saved), client="who", size=8)
    assert (pool.classes, len(pool.train), len(pool.test)) == (3, 30, 9)
    assert pool.labels.tolist() == [n % 3 for n in range(30)]
    assert pool.groups["client"].tolist() == [n % 4 for n in range(30)]
    inputs, targets = pool.train.batch(torch.tensor([7, 0]))
    assert torch.equal(inputs[0], decode(encoded(7, 1), Decoding(size=8, crop=0)))
    assert targets.tolist() == [1, 0]


def test_decoding_when_needed_gives_the_same_pool(saved: Path) -> None:
    once, lazily = (load(NAME, path=str(saved), size=8, memory=memory) for memory in (1.0, 1e-6))
    assert isinstance(lazily.train, LazyImages)
    lazily = pickle.loads(pickle.dumps(lazily))
    everything = torch.arange(30)
    assert torch.equal(once.train.batch(everything)[0], lazily.train.batch(everything)[0])


def test_a_table_without_a_test_is_divided(library: Any, tmp_path: Path) -> None:
    pictures(library, 30).save_to_disk(tmp_path / "one")
    pool = load(NAME, path=str(tmp_path / "one"), client="who", size=8)
    assert (len(pool.train), len(pool.test), len(pool.groups["client"])) == (27, 3, 27)
    assert pool.test.batch(torch.arange(3))[1].sort().values.tolist() == [0, 1, 2]
    again = load(NAME, tmp_path, path="one", size=8)
    assert torch.equal(again.test.batch(torch.arange(3))[0], pool.test.batch(torch.arange(3))[0])


def test_labels_may_be_true_or_false(library: Any, tmp_path: Path) -> None:
    path = write(library, tmp_path / "texts", {**TEXTS, "label": [n % 3 == 0 for n in range(30)]})
    assert load(NAME, path=path, length=5).labels.bincount().tolist() == [18, 9]


@pytest.mark.parametrize("kind", ["string", "int64"])
def test_labels_are_words_or_numbers(library: Any, tmp_path: Path, kind: str) -> None:
    pictures(library, 30, library.Value(kind)).save_to_disk(tmp_path / "one")
    pool = load(NAME, path=str(tmp_path / "one"), size=8, label="label")
    assert pool.classes == 3 and pool.labels.bincount().tolist() == [9, 9, 9]


def test_a_folder_of_images_is_loaded_without_the_network(library: Any, tmp_path: Path) -> None:
    write_classes(tmp_path / "pets" / "train", {"cat": 6, "dog": 5})
    write_classes(tmp_path / "pets" / "test", {"cat": 2, "dog": 2})
    pool = load(NAME, path=str(tmp_path / "pets"), size=8)
    assert (pool.classes, len(pool.train), len(pool.test)) == (2, 11, 4)


def test_nothing_is_fetched_unless_asked_for(library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library.config, "HF_HUB_OFFLINE", False)
    seen = []

    def load_dataset(*_: Any) -> Any:
        seen.append(library.config.HF_HUB_OFFLINE)
        raise ConnectionError("no way\nout")

    with pytest.raises(
        ConfigError, match=r"nobody/nothing cannot be loaded: .*; if it is on the hub, data.download=true"
    ):
        load(NAME, tmp_path, path="nobody/nothing")
    monkeypatch.setattr(library, "load_dataset", load_dataset)
    for download in (False, True):
        with pytest.raises(ConfigError, match=r"nobody/nothing cannot be loaded: no way out"):
            load(NAME, tmp_path, path="nobody/nothing", download=download)
    assert seen == [True, False]
    assert library.config.HF_HUB_OFFLINE is False


TEXTS = {
    "text": [("good film", "bad film", "so so")[n % 3] + f" {n}" for n in range(30)],
    "label": [n % 3 for n in range(30)],
    "who": [n % 5 for n in range(30)],
}


def test_texts_become_word_numbers(library: Any, tmp_path: Path) -> None:
    path = write(library, tmp_path / "texts", TEXTS)
    pool = load(NAME, path=path, vocabulary=8, length=5, client="who")
    assert (pool.classes, dict(pool.facts)) == (3, {"vocabulary": 8, "length": 5})
    assert pool.default_model == "textcnn"
    inputs, targets = pool.train.batch(torch.arange(3))
    assert inputs.shape == (3, 5) and torch.equal(targets, pool.labels[:3])
    assert len(pool.train) == 27 and pool.groups["client"].max() == 4


BAD: dict[str, tuple[dict[str, list[Any]], dict[str, Any], str]] = {
    "split": (TEXTS, {"train": "trian"}, r"unknown split 'trian'; did you mean 'train'"),
    "test": (TEXTS, {"test": "validation"}, r"unknown split 'validation'; known: train"),
    "column": (TEXTS, {"column": "txt"}, r"unknown column 'txt'; did you mean 'text'"),
    "no-label": ({"text": TEXTS["text"]}, {}, r"say which of text it is, with data\.label"),
    "no-input": ({"label": TEXTS["label"]}, {}, r"say which of .*it is, with data\.column"),
    "numbers": (TEXTS, {"column": "who"}, r"the column who holds neither images nor texts"),
    "large": ({**TEXTS, "label": [10**12, *TEXTS["label"][1:]]}, {}, r"train, row 0: 10{12} is no class; classes are"),
    "list": ({**TEXTS, "label": [[n] for n in TEXTS["label"]]}, {}, r"train, row 0: \[0\] is no class"),
    "one-class": ({**TEXTS, "label": [0] * 30}, {}, r"texts, train: all rows have one class"),
    "one-of-each": (
        {"text": ["a", "b"], "label": [0, 1]},
        {},
        r"texts, train has one row of each class, none of which",
    ),
    "negative": ({**TEXTS, "label": [-1, *TEXTS["label"][1:]]}, {}, r"train, row 0: '-1' is none of the 3 classes"),
    "empty-label": ({**TEXTS, "label": [0, None, *TEXTS["label"][2:]]}, {}, r"train, row 1: the label is empty"),
    "empty-text": ({**TEXTS, "text": [*TEXTS["text"][:29], ""]}, {"test_share": 0.01}, r"row 29: the text is empty"),
    "empty-client": ({**TEXTS, "who": [None] * 30}, {"client": "who"}, r"row 0: the who is empty"),
}


@pytest.mark.parametrize(("content", "options", "reason"), BAD.values(), ids=BAD.keys())
def test_bad_tables_are_refused(
    library: Any, tmp_path: Path, content: dict[str, list[Any]], options: dict[str, Any], reason: str
) -> None:
    path = write(library, tmp_path / "texts", content)
    with pytest.raises(ConfigError, match=reason) as refused:
        load(NAME, path=path, **options)
    assert "\n" not in str(refused.value)


def test_a_damaged_table_is_named(saved: Path) -> None:
    for file in saved.rglob("*.arrow"):
        file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ConfigError, match="saved cannot be loaded: "):
        load(NAME, path=str(saved))


def test_what_the_library_says_is_reported_with_what_is_behind_it(
    library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "files").mkdir()

    def load_dataset(*_: Any) -> Any:
        raise RuntimeError("no table") from ValueError("line 3\nis cut")

    monkeypatch.setattr(library, "load_dataset", load_dataset)
    with pytest.raises(ConfigError, match=rf"^{tmp_path}/files cannot be loaded: no table \(line 3 is cut\)$"):
        load(NAME, tmp_path, path="files")


def test_a_damaged_image_file_is_named(library: Any, tmp_path: Path) -> None:
    write_classes(tmp_path / "pets", {"cat": 6, "dog": 5})
    (tmp_path / "pets" / "cat" / "001.png").write_bytes(b"no image")
    with pytest.raises(ConfigError, match=r"row 1: the image .*cat/001\.png cannot be read as an image: it is empty, "):
        load(NAME, path=str(tmp_path / "pets"), size=8)


@pytest.mark.parametrize("bad", [b"no image", None])
def test_a_damaged_image_is_named_by_its_row(library: Any, tmp_path: Path, bad: bytes | None) -> None:
    images: list[bytes | None] = [encoded(n) for n in range(30)]
    images[17] = bad
    pictures(library, 30, images=images).save_to_disk(tmp_path / "one")
    reason = r"one, train, row 17: the image (cannot be read as an image|is empty)"
    with pytest.raises(ConfigError, match=reason):
        load(NAME, path=str(tmp_path / "one"), size=8)
    with pytest.raises(ConfigError, match=rf"1 of 30 images are bad: .*{reason}"):
        load(NAME, path=str(tmp_path / "one"), size=8, memory=0, verify=True)


@pytest.mark.parametrize("memory", [1.0, 1e-6])
def test_owners_train_with_the_same_bits_on_workers(saved: Path, memory: float) -> None:
    options = {"path": str(saved), "client": "who", "size": 16, "memory": memory}
    same_bits(TaskRecipe(NAME, partition={"id": "natural"}, data_options=options))


def test_texts_train_with_the_same_bits_on_workers(library: Any, tmp_path: Path) -> None:
    options = {"path": write(library, tmp_path / "texts", TEXTS), "client": "who", "length": 6}
    same_bits(TaskRecipe(NAME, partition={"id": "natural"}, data_options=options))


def test_rows_are_named_by_their_number_in_the_split(library: Any) -> None:
    rows = pictures(library, 6)
    with pytest.raises(ConfigError, match="here, train is empty"):
        hub_tables.HubTable.choose("here", {"train": rows.select([])}, "train", "", "")
    table = hub_tables.HubTable.choose("here", {"train": rows}, "train", "", "")
    half = table.where(torch.tensor([False, True] * 3).numpy())
    assert (len(half), half.place(2)) == (3, "here, train, row 5")
