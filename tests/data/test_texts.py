"""CSV files, words, vocabularies, encoding, and texts of one's own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import flatfed as ff
from flatfed.core.errors import ConfigError
from flatfed.data import load
from flatfed.data.acquiring.checks import check
from flatfed.data.formats.texts import read_rows
from flatfed.data.storage.texts import Corpus, keyed_choice, text_pool, words
from flatfed.experiments.tasks.recipe import TaskRecipe

# --- reading --------------------------------------------------------------------------------------------------


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_rows_with_quotes_line_breaks_and_blank_lines(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", '﻿1,"a, ""b""\nc"\r\n\r\n2,d\n')
    assert [(row.line, row.fields) for row in read_rows(path)] == [(1, ["1", 'a, "b"\nc']), (4, ["2", "d"])]


def test_a_large_file_is_read_row_by_row(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "1,x\n" * 1000 + "1,x,y\n")
    rows = read_rows(path)
    assert [next(rows).line for _ in range(1000)] == list(range(1, 1001))
    with pytest.raises(ConfigError, match="line 1001"):
        next(rows)


BAD_FILES = {
    "columns": (b"1,a\n2,b,c\n", r"a\.csv, line 2: 3 columns instead of 2; a text with commas must be in quotes"),
    "column": (b"1,a\n2\n", r"a\.csv, line 2: 1 column instead of 2"),
    "encoding": (b"1,a\n2,caf\xe9\n", r"a\.csv, line 2: byte 6 is not UTF-8"),
    "zero": (b"1,a\n\x00\x00", r"a\.csv, line 2: holds a zero byte"),
    "quote": (b'1,a\n2,"b" c\n', r"a\.csv, line 2: not a row of a CSV file"),
    "open quote": (b'1,a\n2,"b\n3,c\n', r"a\.csv, line 2: not a row of a CSV file: unexpected end of data"),
    "empty": (b"", r"a\.csv has no rows"),
    "blank": (b"\n\n", r"a\.csv has no rows"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_what_is_wrong_with_a_file_names_file_and_line(name: str, tmp_path: Path) -> None:
    content, message = BAD_FILES[name]
    with pytest.raises(ConfigError, match=message):
        list(read_rows(written(tmp_path / "a.csv", content)))


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.csv is missing"):
        list(read_rows(tmp_path / "none.csv"))
    with pytest.raises(ConfigError, match="cannot be read"):
        list(read_rows(tmp_path))


# --- words and vocabularies -----------------------------------------------------------------------------------


def test_words_of_a_text() -> None:
    text = "The U.S.A.–based _singer-songwriter_ José's 2nd CD (1863–1931)!"
    assert words(text) == ["the", "u", "s", "a", "based", "singer", "songwriter", "jos", "s", "2nd", "cd", "18631931"]
    assert words("Straße ГОД 東京_x", "unicode") == ["strasse", "год", "東京", "x"]
    assert words("東京 –!") == []


def test_the_vocabulary_has_the_most_frequent_words_ties_by_word() -> None:
    corpus = Corpus.read(["b a b", "c a d", "d"])
    assert corpus.vocabulary(100) == {"a": 2, "b": 3, "d": 4, "c": 5}
    assert corpus.vocabulary(4) == {"a": 2, "b": 3}


def test_texts_are_cut_and_padded() -> None:
    corpus = Corpus.read(["a b c d", "b", "!", "z a"])
    rows = corpus.encode({"a": 2, "b": 3, "c": 4, "d": 5}, 3)
    assert rows.dtype == torch.int32
    assert rows.tolist() == [[2, 3, 4], [3, 0, 0], [1, 0, 0], [1, 2, 0]]
    assert Corpus.read([]).encode({}, 3).shape == (0, 3)


def test_many_texts_are_encoded_chunk_by_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = Corpus.read([" ".join("abcdefg"[: number % 7]) for number in range(50)])
    known = corpus.vocabulary(7)
    expected = corpus.encode(known, 4)
    monkeypatch.setattr("flatfed.data.storage.texts.CHUNK", 8)
    assert torch.equal(corpus.encode(known, 4), expected)


TEXT = st.text(alphabet="abc xyé.", max_size=12)


@given(train=st.lists(TEXT, min_size=1, max_size=8), test=st.lists(TEXT, max_size=8), size=st.integers(3, 9))
def test_encoding_agrees_with_a_naive_one(train: list[str], test: list[str], size: int) -> None:
    counts = Counter(word for text in train for word in words(text))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))[: size - 2]
    known = Corpus.read(train).vocabulary(size)
    assert known == {word: number for number, word in enumerate(ranked, 2)}
    expected = []
    for text in test:
        numbers = [ranked.index(word) + 2 if word in ranked else 1 for word in words(text)] or [1]
        expected.append((numbers + [0] * 5)[:5])
    assert Corpus.read(test).encode(known, 5).tolist() == expected


def test_a_choice_by_keys_is_fixed_and_takes_so_many_of_each_class() -> None:
    labels = np.array([0, 1] * 50 + [2] * 3)
    chosen = keyed_choice(labels, {0: 10, 1: 0, 2: 5}, "test")
    assert np.bincount(labels[chosen]).tolist() == [10, 0, 3]
    assert np.array_equal(chosen, keyed_choice(labels, {0: 10, 1: 0, 2: 5}, "test"))
    assert not np.array_equal(chosen, keyed_choice(labels, {0: 10, 1: 0, 2: 5}, "other"))


def test_the_test_texts_have_no_part_in_the_vocabulary() -> None:
    train, test = Corpus.read(["a b", "b"]), Corpus.read(["c c c", "a"])
    pool = text_pool("mine", (train, [0, 1]), (test, [1, 0]), 2, vocabulary=3, length=5)
    assert pool.test.batch(torch.arange(2))[0].tolist() == [[1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]
    assert dict(pool.facts) == {"vocabulary": 3, "length": 5}
    with pytest.raises(ConfigError, match="mine: vocabulary must be at least 3"):
        text_pool("mine", (train, [0, 1]), (test, [1, 0]), 2, vocabulary=2, length=5)


# --- texts of one's own ---------------------------------------------------------------------------------------

ROWS = [("spam", "cheap cheap pills", "ann"), ("ham", "see you later", "bob")] * 20


def table(path: Path, rows: list[Any], header: str = "", delimiter: str = ",") -> Path:
    lines = ([header] if header else []) + [delimiter.join(f'"{field}"' for field in row) for row in rows]
    return written(path, "\n".join(lines) + "\n")


def test_a_csv_file_with_a_share_for_the_test(tmp_path: Path) -> None:
    table(tmp_path / "mail.csv", ROWS)
    pool = load("texts", tmp_path, path="mail.csv", client=2, length=8)
    assert (len(pool.train), len(pool.test), pool.classes) == (36, 4, 2)
    assert pool.test.targets.bincount().tolist() == [2, 2]
    assert torch.equal(pool.groups["client"], 1 - pool.labels)  # ham (0) is of bob (1)
    assert dict(pool.facts) == {"vocabulary": 2 + 5, "length": 8}
    assert torch.equal(load("texts", tmp_path, path="mail.csv", length=8).test.inputs, pool.test.inputs)


def test_columns_by_name_and_a_test_file(tmp_path: Path) -> None:
    header = "kind\tbody\twho"
    table(tmp_path / "train.tsv", ROWS, header, "\t")
    test = table(tmp_path / "test.tsv", ROWS[:3], header, "\t")
    options = {"label": "kind", "text": "who+body", "delimiter": "tab", "test": str(test), "length": 6}
    pool = load("texts", tmp_path, path="train.tsv", **options)
    assert (len(pool.train), len(pool.test)) == (40, 3)
    assert pool.test.targets.tolist() == [1, 0, 1]
    assert torch.equal(pool.train.inputs[:3], pool.test.inputs)


def test_labels_that_are_numbers_are_sorted_by_size(tmp_path: Path) -> None:
    table(tmp_path / "a.csv", [("10", "ten"), ("9", "nine"), ("x", "no")] * 4)
    pool = load("texts", tmp_path, path="a.csv", length=5)
    assert sorted(pool.labels.tolist() + pool.test.targets.tolist()) == [0] * 4 + [1] * 4 + [2] * 4
    first = load("texts", tmp_path, path="a.csv", test="a.csv", length=5)
    assert first.labels[:3].tolist() == [1, 0, 2]


def test_labels_that_are_the_same_number_keep_an_order(tmp_path: Path) -> None:
    digits = "7" * 5000
    table(tmp_path / "a.csv", [("1", "one"), ("01", "other one"), ("001", "third one"), (digits, "many")] * 3)
    pool = load("texts", tmp_path, path="a.csv", test="a.csv", length=5)
    assert pool.labels[:4].tolist() == [2, 1, 0, 3]


def test_other_scripts(tmp_path: Path) -> None:
    table(tmp_path / "a.csv", [("1", "добрый день"), ("2", "до свидания")] * 4)
    assert load("texts", tmp_path, path="a.csv", script="unicode").facts["vocabulary"] == 6
    assert load("texts", tmp_path, path="a.csv").facts["vocabulary"] == 2


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no path": ({"path": ""}, "name the CSV file of labels and texts, data.path=FILE"),
    "no file": ({"path": "b.csv"}, r"data\.path: there is no file .*b\.csv"),
    "no test": ({"test": "b.csv"}, r"data\.test: there is no file .*b\.csv"),
    "column": ({"label": 7}, "has 3 columns, 0 to 2; there is no 7"),
    "name": ({"label": "kimd"}, "unknown column 'kimd'"),
    "negative": ({"text": -1}, r"a\.csv: unknown column '-1'"),
    "digits": ({"text": "9" * 5000}, r"a\.csv: unknown column '9{40}'"),
    "share": ({"test_share": 1.0}, "test_share must be"),
    "script": ({"script": "utf"}, "script must be one of 'ascii', 'unicode'"),
    "length": ({"length": 0}, "length must be at least 1"),
    "vocabulary": ({"vocabulary": 2}, "vocabulary must be at least 3"),
    "delimiter": ({"delimiter": "ab"}, "delimiter must be one character, or tab"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_options(name: str, tmp_path: Path) -> None:
    table(tmp_path / "a.csv", ROWS)
    changes, message = WRONG[name]
    with pytest.raises(ConfigError, match=message):
        load("texts", tmp_path, **({"path": "a.csv"} | changes))


WRONG_ROWS = {
    "empty text": ([*ROWS, ("ham", " ", "bob")], r"a\.csv, line 41: the text \(column 2\) is empty"),
    "empty label": ([*ROWS, ("", "hello", "bob")], r"a\.csv, line 41: .*column 1\) is empty"),
    "one label": ([("ham", "hello", "bob")] * 3, r"a\.csv: every row has the label 'ham'"),
    "one of each": ([("ham", "hello", "bob"), ("spam", "bye", "ann")], r"a\.csv has one text of each label, none of"),
}


@pytest.mark.parametrize("name", WRONG_ROWS)
def test_wrong_rows(name: str, tmp_path: Path) -> None:
    rows, message = WRONG_ROWS[name]
    table(tmp_path / "a.csv", rows)
    with pytest.raises(ConfigError, match=message):
        load("texts", tmp_path, path="a.csv")


def test_a_label_that_no_training_text_has(tmp_path: Path) -> None:
    table(tmp_path / "a.csv", ROWS)
    table(tmp_path / "b.csv", [*ROWS[:4], ("eggs", "hello", "bob")])
    with pytest.raises(ConfigError, match=r"b\.csv, line 5: no training text has the label 'eggs'"):
        load("texts", tmp_path, path="a.csv", test="b.csv")


def test_names_without_rows(tmp_path: Path) -> None:
    table(tmp_path / "a.csv", ROWS, "kind,body,who")
    table(tmp_path / "b.csv", [], "kind,body,who")
    options = {"label": "kind", "text": "body"}
    with pytest.raises(ConfigError, match=r"b\.csv has a row of names and no others"):
        load("texts", tmp_path, path="b.csv", **options)
    with pytest.raises(ConfigError, match=r"b\.csv has a row of names and no others"):
        load("texts", tmp_path, path="a.csv", test="b.csv", **options)


HEADERS = {
    "label,text,who": ROWS,
    "Category,mail,who": ROWS,
    "what,Text,who": ROWS,
    "what,mail,who": [(str(n % 2), *row[1:]) for n, row in enumerate(ROWS)],
    "score,mail,who": [(f"{n % 2 - 1}.0", *row[1:]) for n, row in enumerate(ROWS)],
}


@pytest.mark.parametrize("header", HEADERS)
def test_a_first_row_that_looks_like_names_is_refused(header: str, tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", HEADERS[header], header)
    with pytest.raises(ConfigError) as refused:
        load("texts", tmp_path, path="a.csv")
    assert str(refused.value) == (
        f"{path}, line 1: the first row looks like names of columns ({header.partition(',')[0]!r} is the label of no "
        "other row); give data.header=true to pass it over, or data.header=false if it is a text"
    )
    assert load("texts", tmp_path, path="a.csv", header=True).classes == 2
    assert load("texts", tmp_path, path="a.csv", header=False).classes == 3
    (failed,) = (finding for finding in check("texts", tmp_path, {"path": "a.csv"}) if finding.state == "wrong")
    assert "data.header=true" in failed.found


@pytest.mark.parametrize(
    "rows",
    [
        [("text", "plain"), ("image", "a picture")] * 3,  # a class that is called text
        [("eggs", "hello there"), *[row[:2] for row in ROWS]],  # a class of one text
        [("7", "hello there"), *[(str(n % 2), "bye") for n in range(8)]],
        [("eggs", "hello there"), ("1", "one"), ("x", "ecks"), ("1", "one"), ("x", "ecks")],
    ],
)
def test_a_first_row_that_may_be_a_text_is_one(rows: list[Any], tmp_path: Path) -> None:
    table(tmp_path / "a.csv", rows)
    pool = load("texts", tmp_path, path="a.csv")
    assert (len(pool.train) + len(pool.test), pool.classes) == (len(rows), len({row[0] for row in rows}))


def test_a_file_here_comes_before_one_of_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    table(tmp_path / "there" / "m.csv", ROWS)
    monkeypatch.chdir(tmp_path / "here")
    assert len(load("texts", tmp_path / "there", path="m.csv").labels) == 36
    table(tmp_path / "here" / "m.csv", ROWS[:20])
    pool = load("texts", tmp_path / "there", path="m.csv")
    assert len(pool.labels) == 18
    (actual,) = (f.found for f in check("texts", tmp_path / "there", {"path": "m.csv"}) if f.what == "train examples")
    assert actual == "18"
    ran = TaskRecipe("texts", 2, {"id": "iid"}, data_dir=str(tmp_path / "there"), data_options={"path": "m.csv"})
    assert torch.equal(ran.pool().labels, pool.labels)
    everywhere = load("texts", tmp_path / "there", path="m.csv", test="m.csv")
    assert len(everywhere.test) == 20


# --- training -------------------------------------------------------------------------------------------------


def test_texts_train_to_the_same_bits_in_workers(tmp_path: Path) -> None:
    table(tmp_path / "a.csv", ROWS)
    options = {"path": "a.csv", "client": 2, "length": 8}
    recipe = TaskRecipe("texts", 4, {"id": "iid"}, data_dir=str(tmp_path), data_options=options)
    changes = {"rounds": 6, "sampling": 4, "lr": 0.5, "batch_size": 4}
    runs = [ff.train(recipe.build(), ff.make("fedsam"), **changes, workers=workers) for workers in (0, 2)]
    assert torch.equal(runs[0].vector, runs[1].vector)
    assert runs[0].history[-1]["test_accuracy"] == runs[1].history[-1]["test_accuracy"] == 1.0
