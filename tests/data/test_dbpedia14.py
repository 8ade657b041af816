"""DBpedia-14 from its CSV files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from flatfed.core.errors import ConfigError
from flatfed.data import catalogue, load
from flatfed.data.directory import DataDirectory

TOPICS = ["Company", "EducationalInstitution", "Artist", "Athlete", "OfficeHolder", "MeanOfTransportation", "Building"]
TOPICS += ["NaturalPlace", "Village", "Animal", "Plant", "Album", "Film", "WrittenWork"]
REAL = DataDirectory().path / "dbpedia_csv" / "train.csv"


def row(label: int, number: int) -> str:
    topic = TOPICS[label - 1]
    return f'{label},"{topic} {number}"," {topic} No. {number}, a ""thing"" – in São Paulo."'


def write_dbpedia(root: Path, counts: dict[str, int]) -> None:
    """Write this many texts of each class."""
    base = root / "dbpedia_csv"
    base.mkdir()
    for part, count in counts.items():
        rows = [row(label, number) for number in range(count) for label in range(1, 15)]
        (base / f"{part}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (base / "classes.txt").write_text("\n".join(TOPICS) + "\n", encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write 14 x 6 training and 14 x 3 test texts."""
    write_dbpedia(tmp_path, {"train": 6, "test": 3})
    return tmp_path


def test_texts_and_classes(folder: Path) -> None:
    pool = load("dbpedia14", folder)
    assert (len(pool.train), len(pool.test), pool.classes) == (84, 42, 14)
    assert pool.labels[:15].tolist() == [*range(14), 0]
    x, y = pool.train.batch(torch.tensor([0, 14]))
    assert x.dtype == torch.int32 and x.shape == (2, 128) and y.tolist() == [0, 0]
    # a in no paulo so thing: 84 each, ties by word; then 6 numbers, 14 each; then 14 topics, 6 each.
    assert pool.facts["vocabulary"] == 2 + 6 + 6 + 14
    assert x[0, :9].tolist() == [19, 4, 8, 2, 7, 3, 6, 5, 0]
    assert pool.default_model == "textcnn"


def test_the_fields_and_the_sizes_are_options(folder: Path) -> None:
    title = load("dbpedia14", folder, fields="title", length=5)
    both = load("dbpedia14", folder, fields="title+content", length=5)
    assert [int((pool.train.inputs > 0).sum(dim=1).max()) for pool in (title, both)] == [2, 5]
    small = load("dbpedia14", folder, vocabulary=8, length=10)
    assert dict(small.facts) == {"vocabulary": 8, "length": 10}
    assert int(small.train.inputs.max()) == 7


def test_so_many_of_each_class_are_chosen_the_same_each_time(folder: Path) -> None:
    pools = [load("dbpedia14", folder, per_class=4, test_per_class=2) for _ in range(2)]
    assert pools[0].labels.bincount().tolist() == [4] * 14
    assert pools[0].test.targets.bincount().tolist() == [2] * 14
    assert torch.equal(pools[0].train.inputs, pools[1].train.inputs)
    everything = load("dbpedia14", folder, per_class=0, test_per_class=0)
    assert (len(everything.train), len(everything.test)) == (84, 42)


def test_the_pool_pickles(folder: Path) -> None:
    pool = load("dbpedia14", folder)
    again = pickle.loads(pickle.dumps(pool))
    assert torch.equal(again.train.inputs, pool.train.inputs)


BAD: dict[str, tuple[str, str]] = {
    "class": ('15,"t","c"', r"train\.csv, line 2: the class must be a whole number from 1 to 14, not '15'"),
    "digits": (f'{"1" * 5000},"t","c"', r"train\.csv, line 2: the class must be a whole number from 1 to 14"),
    "word": ('Film,"t","c"', r"train\.csv, line 2: the class must be a whole number from 1 to 14, not 'Film'"),
    "columns": ('1,"t"', r"train\.csv, line 2: 2 columns instead of 3"),
    "empty": ('1,"t",""', r"train\.csv, line 2: the text \(column 3\) is empty"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_named(name: str, folder: Path) -> None:
    second, message = BAD[name]
    (folder / "dbpedia_csv" / "train.csv").write_text(f"{row(1, 0)}\n{second}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load("dbpedia14", folder)


def test_missing_files_and_another_data_set(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"dbpedia14: .*dbpedia_csv/train\.csv is missing"):
        load("dbpedia14", tmp_path / "elsewhere")
    (folder / "dbpedia_csv" / "classes.txt").write_text("World\nSports\nBusiness\nSci/Tech\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"classes\.txt names 4 classes instead of 14"):
        load("dbpedia14", folder)
    (folder / "dbpedia_csv" / "classes.txt").unlink()
    assert load("dbpedia14", folder).classes == 14


def test_options_are_checked(folder: Path) -> None:
    wrong: dict[str, Any] = {"vocabulary": 2, "length": 0, "per_class": -1, "test_per_class": 1.5, "fields": "body"}
    for name, value in wrong.items():
        with pytest.raises(ConfigError, match=f"{name} must be"):
            load("dbpedia14", folder, **{name: value})
    assert catalogue.find("dbpedia14").options["vocabulary"] == 30_000


@pytest.mark.skipif(not REAL.exists(), reason=f"the real DBpedia-14 is not in {REAL.parent}")
def test_the_real_files() -> None:
    pool = load("dbpedia14")
    assert pool.classes == 14
    assert len(np.unique(np.asarray(pool.labels))) == 14
    assert pool.facts["vocabulary"] <= 30_000
    known = (pool.test.inputs > 1).sum() / (pool.test.inputs > 0).sum()
    assert float(known) > 0.9  # training and test texts share their words
