"""The data set `table`: rows of numbers of the user's own."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli.command import flatfed, read_json, refused
from data.training import same_bits
from flatfed.core.errors import ConfigError
from flatfed.data import Pool, load
from flatfed.data.acquiring.checks import check
from flatfed.data.formats.number_tables import finite_number
from flatfed.experiments.tasks.recipe import TaskRecipe

HEADER = "age,bp,label"


def written(path: Path, lines: list[str], header: str = HEADER) -> str:
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return str(path)


def lines(count: int = 40) -> list[str]:
    return [f"{20 + n},{n / 8},{('well', 'sick')[n % 2]}" for n in range(count)]


def opened(folder: Path, content: list[str] | None = None, header: str = HEADER, **options: Any) -> Pool:
    return load("table", path=written(folder / "t.csv", lines() if content is None else content, header), **options)


def values(pool: Pool) -> list[tuple[float, ...]]:
    """Return the features of the training rows, in their order."""
    return [tuple(row) for row in pool.train.inputs.tolist()]  # type: ignore[attr-defined]


def rows_of(pool: Pool) -> tuple[set[tuple[float, ...]], set[tuple[float, ...]]]:
    """Return the features of training and test rows, without their order."""
    return set(values(pool)), {tuple(row) for row in pool.test.inputs.tolist()}  # type: ignore[attr-defined]


# --- values ---------------------------------------------------------------------------------------------------


def test_features_and_labels_are_those_of_the_file(tmp_path: Path) -> None:
    pool = opened(
        tmp_path, [f"{line},{('train', 'test')[n == 3]}" for n, line in enumerate(lines(6))], HEADER + ",split"
    )
    assert values(pool) == [(20.0, 0.0), (21.0, 0.125), (22.0, 0.25), (24.0, 0.5), (25.0, 0.625)]
    assert pool.labels.tolist() == [1, 0, 1, 1, 0] and list(pool.class_names) == ["sick", "well"]
    inputs, targets = pool.test.batch(torch.tensor([0]))
    assert (inputs.tolist(), targets.tolist(), inputs.dtype) == ([[23.0, 0.375]], [0], torch.float32)
    assert (dict(pool.facts), pool.default_model, pool.classes) == ({"in_features": 2}, "mlp", 2)


def test_columns_are_taken_in_the_order_asked_for(tmp_path: Path) -> None:
    content = [f"x{n},{n},{n % 2},{-n}" for n in range(10)]
    pool = opened(tmp_path, content, "name,a,y,b", label="y", columns="b, a")
    assert all(first == -second for first, second in values(pool))
    assert values(opened(tmp_path, content, "name,a,y,b", label="y", columns=["b"]))[0] == values(pool)[0][:1]
    with pytest.raises(ConfigError, match=r"t\.csv, line 2: the column 'name' holds 'x0', which is not a number"):
        opened(tmp_path, content, "name,a,y,b", label="y")


@given(
    numbers=st.lists(st.floats(-1e30, 1e30, width=64), min_size=8, max_size=20), shown=st.sampled_from(["r", ".17g"])
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_numbers_are_read_to_the_bit(tmp_path: Path, numbers: list[float], shown: str) -> None:
    texts = [repr(number) if shown == "r" else format(number, shown) for number in numbers]
    content = [f"{text},{n % 2},{('train', 'test')[n % 4 > 1]}" for n, text in enumerate(texts)]
    pool = opened(tmp_path, content, "x,label,split")
    expected = np.array([number for n, number in enumerate(numbers) if n % 4 < 2], np.float64).astype(np.float32)
    assert pool.train.inputs.numpy()[:, 0].tobytes() == expected.tobytes()  # type: ignore[attr-defined]


@given(text=st.text(max_size=8))
def test_numbers_are_spelled_with_ascii_digits_and_have_an_end(text: str) -> None:
    number = finite_number(text)
    if number is not None:
        assert float(text) == number and abs(number) < float("inf")
        assert text.isascii() and "_" not in text


# --- scaling --------------------------------------------------------------------------------------------------

SCALING = ["age,37.3,11.7", "bp,0.7,0.3"]


def scaled(folder: Path, agreed: list[str] | None = None, **options: Any) -> Pool:
    path = written(folder / "scaling.csv", SCALING if agreed is None else agreed, "column,mean,std")
    return opened(folder, scaling=path, **options)


def test_scaling_is_that_of_the_file_to_the_bit(tmp_path: Path) -> None:
    plain, pool = opened(tmp_path), scaled(tmp_path)
    raw = np.array([[20.0 + n, n / 8] for n in range(40)])
    expected = ((raw - np.array([37.3, 0.7])) / np.array([11.7, 0.3])).astype(np.float32)
    by_raw = {tuple(before): tuple(after) for before, after in zip(raw.tolist(), expected.tolist(), strict=True)}
    assert [by_raw[row] for row in values(plain)] == values(pool)
    assert np.mean(expected) != pytest.approx(0.0, abs=0.01)  # not by the moments of the data themselves


def test_features_stand_in_the_order_that_was_agreed_on(tmp_path: Path) -> None:
    first = scaled(tmp_path)
    turned = [",".join([line.split(",")[1], line.split(",")[2], line.split(",")[0]]) for line in lines()]
    other = scaled(tmp_path, content=turned, header="bp,label,age")
    assert values(first) == values(other)
    assert values(scaled(tmp_path, columns="bp")) == [row[1:] for row in values(first)]


BAD_SCALING = {
    "no row": (["age,1,1"], r"scaling\.csv has no row for the column 'bp'; add one"),
    "no column": ([*SCALING, "bmi,1,1"], r"t\.csv, line 1: unknown column 'bmi'"),
    "twice": ([*SCALING, "age,1,1"], r"scaling\.csv, line 4: the column age is there already, on line 2"),
    "zero": (["age,1,0", "bp,1,1"], r"scaling\.csv, line 2: the std must be a number greater than 0, not '0'"),
    "word": (["age,1,1", "bp,x,1"], r"scaling\.csv, line 3: the mean must be a number, not 'x'"),
    "endless": (["age,1,inf", "bp,1,1"], r"scaling\.csv, line 2: the std must be"),
    "empty": (["age,,1", "bp,1,1"], r"scaling\.csv, line 2: the mean is empty"),
    "too small": (["age,1,1e-300", "bp,1,1"], r"t\.csv, line 2: the column 'age' holds '20', which is too large for f"),
}


@pytest.mark.parametrize(("agreed", "reason"), BAD_SCALING.values(), ids=BAD_SCALING.keys())
def test_bad_scaling(tmp_path: Path, agreed: list[str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        scaled(tmp_path, agreed)


# --- missing numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", ["", " ", "NA", "n/a", "NaN", "null", "None", "?"])
def test_missing_numbers(tmp_path: Path, cell: str) -> None:
    content = [*lines(), f"{cell},0.5,sick,"[:-1]]
    with pytest.raises(ConfigError, match=r"t\.csv, line 42: the column 'age' has no number; fill it in, remove the"):
        opened(tmp_path, content)
    assert (-7.5, 0.5) in set.union(*rows_of(opened(tmp_path, content, missing=-7.5)))
    filled = scaled(tmp_path, content=content, missing="mean")
    assert any(row[0] == 0.0 for row in set.union(*rows_of(filled)))


def test_what_cannot_stand_for_missing_numbers(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.missing=mean needs the means of data\.scaling"):
        opened(tmp_path, missing="mean")
    for option in ("zero", "nan", True, None, "inf"):
        with pytest.raises(ConfigError, match=r"data\.missing must be refuse, mean or a number, not"):
            opened(tmp_path, missing=option)


# --- classes --------------------------------------------------------------------------------------------------


def labelled(labels: list[str]) -> list[str]:
    return [f"{n},0,{labels[n % len(labels)]}" for n in range(30)]


def test_the_order_of_classes(tmp_path: Path) -> None:
    assert list(opened(tmp_path, labelled(["b", "C", "a"])).class_names) == ["C", "a", "b"]
    assert list(opened(tmp_path, labelled(["10", "9", "100"])).class_names) == ["9", "10", "100"]
    pool = opened(tmp_path, labelled(["b", "a"]), class_names="c,b,a")
    assert (pool.classes, list(pool.class_names), pool.labels.unique().tolist()) == (3, ["c", "b", "a"], [1, 2])
    pool = opened(tmp_path, labelled(["4", "0"]), classes=5)
    assert (pool.classes, list(pool.class_names), pool.labels.unique().tolist()) == (5, [], [0, 4])
    pool = opened(tmp_path, labelled(["2", "0"]), classes=3, class_names=["x", "y", "z"])
    assert (pool.classes, list(pool.class_names), pool.labels.unique().tolist()) == (3, ["x", "y", "z"], [0, 2])


def test_a_site_may_see_one_class_of_several(tmp_path: Path) -> None:
    assert opened(tmp_path, labelled(["b"]), class_names="a,b").labels.unique().tolist() == [1]
    assert opened(tmp_path, labelled(["1"]), classes=2).labels.unique().tolist() == [1]
    with pytest.raises(
        ConfigError, match=r"all training rows have the label 'b'; where others have more classes, name"
    ):
        opened(tmp_path, labelled(["b"]))


BAD_LABELS: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "range": (["0", "3"], {"classes": 3}, r"line 3: the class must be a whole number from 0 to 2, not '3'"),
    "name": (["a", "bb"], {"class_names": "a,b"}, r"line 3: unknown class 'bb'"),
    "empty": (["a", " "], {}, r"line 3: the label is empty"),
    "count": (["0", "1"], {"classes": 3, "class_names": "a,b"}, r"data\.class_names has 2 names for data\.classes=3"),
    "one": (["0", "0"], {"classes": 1}, "needs two classes or more"),
    "one name": (["a", "a"], {"class_names": "a"}, "needs two classes or more"),
    "twice": (["a", "b"], {"class_names": "a,b,a"}, r"data\.class_names has a name twice"),
    "nameless": (["a", "b"], {"class_names": "a,,b"}, r"data\.class_names has an empty name in it: 'a,,b'"),
}


@pytest.mark.parametrize(("labels", "options", "reason"), BAD_LABELS.values(), ids=BAD_LABELS.keys())
def test_bad_labels(tmp_path: Path, labels: list[str], options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        opened(tmp_path, labelled(labels), **options)
    assert "\n" not in str(caught.value)


def test_a_regression_is_refused_as_such(tmp_path: Path) -> None:
    content = [f"{n},0,{n + 0.5}" for n in range(30)]
    with pytest.raises(
        ConfigError, match=r"the column 'label' holds 30 different numbers such as '0\.5'; .*regression"
    ):
        opened(tmp_path, content)
    with pytest.raises(ConfigError, match="regression"):
        opened(tmp_path, content[:6])
    assert opened(tmp_path, labelled(["0.5", "1.5"])).classes == 2  # grades, say
    assert opened(tmp_path, [f"{n},0,{n // 2}" for n in range(60)]).classes == 30


# --- splits and clients ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_test_is_the_same_in_whatever_order_rows_and_columns_stand(tmp_path: Path, seed: int) -> None:
    first = opened(tmp_path)
    shuffled = lines()
    random.Random(seed).shuffle(shuffled)
    assert rows_of(opened(tmp_path, shuffled)) == rows_of(first)
    turned = [",".join(reversed(line.split(","))) for line in shuffled]
    assert rows_of(opened(tmp_path, turned, "label,bp,age", columns="age,bp")) == rows_of(first)
    assert len(first.test) == 4 and first.test.batch(torch.arange(4))[1].bincount().tolist() == [2, 2]


def test_other_columns_do_not_change_the_test(tmp_path: Path) -> None:
    train, test = rows_of(opened(tmp_path))
    assert rows_of(opened(tmp_path, columns="age")) == ({row[:1] for row in train}, {row[:1] for row in test})


@given(data=st.data())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_owner_keeps_a_row_and_every_class_its_share(tmp_path: Path, data: st.DataObject) -> None:
    row = st.tuples(st.integers(0, 5), st.sampled_from("xy"), st.integers(0, 4))
    drawn = data.draw(st.lists(row, min_size=30, max_size=60))
    content = [f"{value},{label},{owner}" for value, label, owner in [*drawn, (0, "x", 0), (0, "y", 0)]]
    header, options = "v,label,who", {"client": "who", "test_share": 0.4}
    pool = opened(tmp_path, content, header, **options)
    assert len(pool.groups["client"].unique()) == len({line.split(",")[2] for line in content})
    shuffled = data.draw(st.permutations(content))
    other = opened(tmp_path, shuffled, header, **options)

    def counted(pool: Pool) -> list[tuple[float, ...]]:
        owned = zip(values(pool), pool.labels.tolist(), pool.groups["client"].tolist(), strict=True)
        return sorted((*row, label, owner) for row, label, owner in owned)

    assert counted(pool) == counted(other)


def test_clients_are_no_features_and_go_with_their_rows(tmp_path: Path) -> None:
    content = [f"{n},{n % 2},h{n % 3},0" for n in range(30)]
    pool = opened(tmp_path, content, "x,label,site,z", client="site")
    assert list(pool.groups) == ["client"] and dict(pool.facts) == {"in_features": 2}
    assert pool.groups["client"].tolist() == [int(row[0]) % 3 for row in values(pool)]


BAD: dict[str, tuple[list[str], str, dict[str, Any], str]] = {
    "no label": (lines(), "age,bp,outcome", {}, r"t\.csv, line 1: unknown column 'label'"),
    "slashes": (
        ["1/2/a"],
        "age/bp/label",
        {},
        r"line 1: no column 'label'; the first line must name the columns, s",
    ),
    "no column": (lines(), HEADER, {"columns": "age,bo"}, r"line 1: unknown column 'bo'; did you mean 'bp'"),
    "column twice": (lines(), HEADER, {"columns": "age,age"}, r"data\.columns has a name twice"),
    "label as feature": (lines(), HEADER, {"columns": "age,label"}, r"the column 'label' is the label; take it out"),
    "no client": (lines(), HEADER, {"client": "site"}, r"line 1: unknown column 'site'"),
    "no split": (lines(), HEADER, {"split": "part"}, r"line 1: unknown column 'part'"),
    "two roles": (lines(), HEADER, {"client": "label"}, "label, client and split must be different columns"),
    "nameless": (lines(), ",bp,label", {}, r"line 1: column 1 has no name; name it, or write the file without it"),
    "names twice": (lines(), "age,age,label", {}, r"line 1: the column 'age' is there twice"),
    "no rows": ([], HEADER, {}, r"t\.csv has a header and no rows"),
    "no features": (["a", "b"], "label", {}, r"has no column of features, only label"),
    "short": ([*lines(), "1,2"], HEADER, {}, r"line 42: 2 columns instead of 3"),
    "word": ([*lines(), "old,2,sick"], HEADER, {}, r"line 42: the column 'age' holds 'old', which is not a number"),
    "comma": ([*lines(), '"1,5",2,sick'], HEADER, {}, r"line 42: .* '1,5', which is not a number such as 12 or 0\.5"),
    "endless": ([*lines(), "inf,2,sick"], HEADER, {}, r"line 42: the column 'age' holds 'inf', which is not a number"),
    "large": ([*lines(), "1e39,2,sick"], HEADER, {}, r"line 42: .* '1e39', which is too large for float32"),
    "underscore": ([*lines(), "1_0,2,sick"], HEADER, {}, r"line 42: .* '1_0', which is not a number"),
    "split": (["1,2,a,train", "1,2,b,tset"], HEADER + ",split", {}, r"line 3: unknown split 'tset'; did you mean 'te"),
    "no test": (["1,2,a,train", "1,2,b,train"], HEADER + ",split", {}, r"no row has the split test"),
    "label of the test": (
        ["1,2,a,train", "1,2,b,train", "1,2,c,test"],
        HEADER + ",split",
        {},
        r"line 4: no training row has the label 'c'",
    ),
    "nothing to test": (["1,2,a", "1,2,b"], HEADER, {}, r"no row can be kept for a test; add rows, or a column split"),
    "share": (lines(), HEADER, {"test_share": 1.0}, r"data\.test_share must be"),
}


@pytest.mark.parametrize(("content", "header", "options", "reason"), BAD.values(), ids=BAD.keys())
def test_mistakes_are_named(
    tmp_path: Path, content: list[str], header: str, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        opened(tmp_path, content, header, **options)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"table: say where the data are, data\.path=table\.csv"):
        load("table")
    with pytest.raises(ConfigError, match=r"none\.csv is missing"):
        load("table", path=str(tmp_path / "none.csv"))
    with pytest.raises(ConfigError, match=r"none\.csv is missing \(data\.scaling"):
        opened(tmp_path, scaling=str(tmp_path / "none.csv"))
    written(tmp_path / "inside.csv", lines())
    assert load("table", tmp_path, path="inside.csv").classes == 2


# --- training and commands ------------------------------------------------------------------------------------

SITES = [f"{n % 7},{n % 5},{('well', 'sick')[n % 7 > n % 5]},h{n % 3}" for n in range(90)]


def test_natural_clients_train_with_the_same_bits_on_workers(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", SITES, "a,b,label,site")
    recipe = TaskRecipe("table", partition={"id": "natural"}, data_options={"path": path, "client": "site"})
    run = same_bits(recipe)
    assert run.history[-1]["test_accuracy"] > 0


def test_it_is_trained_shown_and_checked_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "t.csv", SITES, "a,b,label,site")
    written(tmp_path / "agreed.csv", ["a,3,2", "b,2,1.4"], "column,mean,std")
    data = ("--set", "data.path=t.csv", "--set", "data.client=site", "--set", "data.scaling=agreed.csv")
    quick = ("--partition", "natural", "--workers", "0", "--lr", "0.5", "--batch-size", "8", "--rounds", "12")
    done = flatfed("run", "table", "fedavg", *data, *quick, "--set", "model.hidden=16,8", "--out", "run")
    assert done.code == 0, done.err
    config = read_json(Path("run/config.json"))
    assert config["task"]["clients"] == 3 and config["task"]["model"] == "mlp"
    assert config["task"]["data_options"]["scaling"] == str(tmp_path / "agreed.csv")
    assert config["setting"]["model"]["options"] == {"hidden": "16,8"}
    monkeypatch.chdir("run")  # paths of a run hold from any folder
    measured = flatfed("evaluate", ".", "--workers", "0")
    assert measured.code == 0 and "test_class_accuracy" in measured.out
    monkeypatch.chdir(tmp_path)
    shown = flatfed("data", "show", "table", *data, "--partition", "natural", "--json").json
    assert shown["clients"] == 3 and shown["partition_sha256"] == config["task"]["partition_sha256"]
    assert {finding.state for finding in check("table", None, {"path": "t.csv"} | {"columns": "a,b"})} == {"ok"}
    assert "table is in order" in flatfed("data", "check", "table", *data).out
    assert any(entry["id"] == "table" for entry in flatfed("data", "list", "--json").json["datasets"])
    assert "table" in flatfed("list", "datasets").out
    refused(flatfed("run", "table", "fedavg", "--set", "data.path=t.csv"), "t.csv, line 2: the column 'site'")
    refused(flatfed("run", "table", "fedavg"), "--set data.path=table.csv")
