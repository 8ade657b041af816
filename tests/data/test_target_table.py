"""The data set `table` with a target: numbers, categories, missing values; all that is learnt is of training rows."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import flatfed as ff
from cli.command import flatfed, refused
from data.training import same_bits
from flatfed.core.errors import ConfigError
from flatfed.core.task.token_metrics import Regression
from flatfed.data import Pool, load
from flatfed.data.tables.number_cells import number_of
from flatfed.data.tables.preprocessing import Preprocessing
from flatfed.experiments.tasks.recipe import TaskRecipe

HEADER = "age,sex,ward,hospital,days,risk"


def rows(count: int = 60) -> list[list[str]]:
    draw = random.Random(3)
    made = []
    for number in range(count):
        age, sex, ward = draw.uniform(20, 90), draw.choice("fm"), draw.choice(["icu", "er", "gp"])
        days = age / 10 + 3 * (ward == "icu") + draw.uniform(0, 1)
        risk = "high" if age + 20 * (sex == "m") > 60 else "low"
        made.append([f"{age:.2f}", sex, ward, "abc"[number % 3], f"{days:.3f}", risk])
    return made


def written(path: Path, content: list[list[str]] | None = None, header: str = HEADER, between: str = ",") -> str:
    lines = [header.replace(",", between), *(between.join(row) for row in (rows() if content is None else content))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def opened(
    folder: Path, content: list[list[str]] | None = None, header: str = HEADER, between: str = ",", **options: Any
) -> Pool:
    path = written(folder / "t.csv", content, header, between)
    return load("table", path=path, **{"target": "risk", "drop": "days", "client": "hospital", **options})


def record(pool: Pool) -> Preprocessing:
    return Preprocessing.from_dict(pool.preprocessing)


def inputs(pool: Pool) -> torch.Tensor:
    return torch.cat([pool.train.inputs, pool.test.inputs])  # type: ignore[attr-defined]


# --- what is learnt, and from whom ----------------------------------------------------------------------------


def with_split(content: list[list[str]], tested: int = 10) -> list[list[str]]:
    return [[*row, "test" if number < tested else "train"] for number, row in enumerate(content)]


def test_numbers_are_scaled_by_training_rows_and_categories_are_one_of_theirs(tmp_path: Path) -> None:
    content = with_split(rows())
    content[0][2] = "morgue"  # in the test alone
    pool = opened(tmp_path, content, HEADER + ",split")
    ages = np.array([float(row[0]) for row in content])
    expected = (ages - ages[10:].mean()) / ages[10:].std()
    tested = pool.test.inputs.numpy()  # type: ignore[attr-defined]
    assert np.abs(tested[:, 0] - expected[:10]).max() < 1e-6
    assert record(pool).names == ["age", "sex=f", "sex=m", "ward=er", "ward=gp", "ward=icu"]
    assert tested[0, 3:].tolist() == [0.0, 0.0, 0.0]
    assert tested[1:, 3:].sum(axis=1).tolist() == [1.0] * 9
    assert (pool.facts["in_features"], pool.class_names, pool.default_model) == (6, ("high", "low"), "mlp")
    assert pool.is_estimated


def test_what_test_rows_hold_changes_nothing_that_is_learnt(tmp_path: Path) -> None:
    content = with_split(rows())
    before = opened(tmp_path, content, HEADER + ",split")
    for row in content[:10]:
        row[0] = "1e6"
        row[1] = "other"
    after = opened(tmp_path, content, HEADER + ",split")
    assert before.preprocessing == after.preprocessing
    assert torch.equal(before.train.inputs, after.train.inputs)  # type: ignore[attr-defined]


def test_the_order_of_rows_and_columns_does_not_matter(tmp_path: Path) -> None:
    first = opened(tmp_path)
    turned = [row[::-1] for row in reversed(rows())]
    second = opened(tmp_path, turned, ",".join(reversed(HEADER.split(","))), columns="age,sex,ward", drop="")
    assert first.preprocessing == second.preprocessing
    assert sorted(first.test.inputs.tolist()) == sorted(second.test.inputs.tolist())  # type: ignore[attr-defined]


@pytest.mark.parametrize("rule", ["mean", "median", -1.5])
def test_missing_values_are_filled_by_training_rows(tmp_path: Path, rule: Any) -> None:
    content = with_split(rows())
    content[0][0], content[20][0], content[21][1], content[1][2] = "", "NA", "?", "null"
    with pytest.raises(ConfigError, match=r"line 2: the column 'age' is empty, as are 1 more cells"):
        opened(tmp_path, content, HEADER + ",split")
    pool = opened(tmp_path, content, HEADER + ",split", missing=rule)
    known = np.array([float(row[0]) for row in content[10:] if row[0] != "NA"])
    stand_in = {"mean": known.mean(), "median": np.median(known), -1.5: -1.5}[rule]
    filled = (stand_in - known.mean()) / known.std()
    for part, place in ((pool.test, 0), (pool.train, 10)):
        assert part.inputs[place, 0].item() == pytest.approx(filled, abs=1e-6)  # type: ignore[attr-defined]
    assert record(pool).names[1:4] == ["sex=f", "sex=m", "sex missing"]
    assert pool.train.inputs[11, 1:4].tolist() == [0.0, 0.0, 1.0]  # type: ignore[attr-defined]
    assert pool.test.inputs[1, 4:].tolist() == [0.0, 0.0, 0.0]  # type: ignore[attr-defined]


def test_a_column_that_is_the_same_everywhere_is_left_out(tmp_path: Path) -> None:
    content = [[*row, "7", "x"] for row in rows()]
    pool = opened(tmp_path, content, HEADER + ",floor,kind")
    assert record(pool).names == record(opened(tmp_path)).names
    with pytest.raises(ConfigError, match="no column of features differs between training rows"):
        opened(tmp_path, content, HEADER + ",floor,kind", columns="floor,kind")


def test_without_scaling_numbers_stay_as_they_are(tmp_path: Path) -> None:
    ages = sorted(np.float32(float(row[0])) for row in rows())
    assert sorted(inputs(opened(tmp_path, scaling="none"))[:, 0].tolist()) == pytest.approx(ages)


def test_numbers_may_be_categories(tmp_path: Path) -> None:
    content = [[*row, str(number % 3 + 9)] for number, row in enumerate(rows())]
    assert "code" in record(opened(tmp_path, content, HEADER + ",code")).names
    names = record(opened(tmp_path, content, HEADER + ",code", categories="code")).names
    assert names[-3:] == ["code=9", "code=10", "code=11"]


# --- files ----------------------------------------------------------------------------------------------------


def test_files_of_other_countries(tmp_path: Path) -> None:
    plain = opened(tmp_path)
    comma = [[cell.replace(".", ",") for cell in row] for row in rows()]
    assert torch.equal(inputs(opened(tmp_path, between=";")), inputs(opened(tmp_path, between="\t")))
    other = opened(tmp_path, comma, between=";")
    # The test is chosen by the content of rows, which is another one here.
    assert sorted(record(other).names) == sorted(record(plain).names)
    expected = sorted(float(row[0]) for row in rows())
    unscaled = inputs(opened(tmp_path, comma, between=";", scaling="none"))
    assert sorted(unscaled[:, 0].tolist()) == pytest.approx(expected)
    quoted = [[f'"{cell}"' for cell in row] for row in comma]
    with pytest.raises(ConfigError, match=r"holds '[0-9,]+'; say what the comma is: data\.decimal=comma"):
        opened(tmp_path, quoted)
    assert inputs(opened(tmp_path, quoted, decimal="comma")).shape == (60, 6)
    comma[5][4] = "1.5"
    comma[6][0] = "61.5"
    with pytest.raises(ConfigError, match="the column 'age' holds"):
        opened(tmp_path, comma, between=";")


def test_points_here_and_commas_there_are_refused(tmp_path: Path) -> None:
    content = [[row[0], f"{number},5", *row[2:]] for number, row in enumerate(rows())]
    with pytest.raises(ConfigError, match="'age' has decimal points and 'sex' decimal commas"):
        opened(tmp_path, content, between=";")


def test_a_byte_order_mark_and_gzip(tmp_path: Path) -> None:
    plain = opened(tmp_path)
    data = b"\xef\xbb\xbf" + (tmp_path / "t.csv").read_bytes().replace(b"\n", b"\r\n")
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(data))
    options = {"target": "risk", "drop": "days", "client": "hospital"}
    assert torch.equal(inputs(load("table", path=str(packed), **options)), inputs(plain))
    packed.write_bytes(gzip.compress(data)[:-20])
    with pytest.raises(ConfigError, match=r"t\.csv\.gz is no whole gzip file"):
        load("table", path=str(packed), **options)


def test_a_number_has_one_decimal_sign() -> None:
    assert [number_of(cell, "comma") for cell in ("1,5", "-,5", "7", "1.5", "1,5,0", "1.000,5")] == [
        *(1.5, -0.5, 7.0),
        *(None, None, None),
    ]


REFUSED: dict[str, tuple[Any, str, dict[str, Any], str]] = {
    "date": (lambda n: f"2024-01-{n % 28 + 1:02d}", "x", {}, r"the column 'x' holds dates such as '2024-01-01'; write"),
    "name": (lambda n: f"patient {n}", "x", {}, r"holds 54 different words in 54 training rows, .*data\.drop=x"),
    "row number": (lambda n: str(n + 1), "x", {}, r"has another whole number in each row and looks like an id"),
    "id": (lambda n: str(7 * n), "case_id", {}, r"looks like an id; leave it out: data\.drop=case_id"),
    "word": (lambda n: "<5" if n == 9 else str(n / 8), "x", {}, r"line 11: the column 'x' holds '<5' among 59 numbers"),
    "empty": (lambda n: "", "x", {"missing": "mean"}, r"no training row has a number in the column 'x'"),
    "huge": (lambda n: "1e300" if n == 9 else str(n / 8), "x", {"scaling": "none"}, "too large for float32"),
    "twice": (lambda n: str(n), "age", {}, r"line 1: the column 'age' is there twice"),
    "target": (lambda n: str(n), "x", {"target": "risks"}, r"unknown column 'risks'"),
    "dropped": (lambda n: str(n / 8), "x", {"drop": "days,x", "columns": "x"}, "named as a feature and as something"),
    "roles": (lambda n: str(n / 8), "x", {"client": "risk"}, "target, client and split must be different columns"),
    "scaling": (lambda n: str(n / 8), "x", {"scaling": "s.csv"}, r"data\.scaling is train or none"),
    "missing": (lambda n: str(n / 8), "x", {"missing": "zero"}, "must be refuse, mean, median or a number"),
}


@pytest.mark.parametrize(("cell", "name", "options", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(tmp_path: Path, cell: Any, name: str, options: dict[str, Any], reason: str) -> None:
    content = [[*row, cell(number)] for number, row in enumerate(rows())]
    with pytest.raises(ConfigError, match=reason):
        opened(tmp_path, content, f"{HEADER},{name}", **options)


def test_a_header_alone(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has a header and no rows"):
        opened(tmp_path, [])


# --- targets and clients --------------------------------------------------------------------------------------


def test_rows_without_target_or_client_are_refused_or_left_out(tmp_path: Path) -> None:
    content = rows()
    content[4][5], content[5][3], content[6][5] = "", "NA", "nan"
    with pytest.raises(
        ConfigError, match=r"line 6: the target 'risk' is empty \(2 of 60 rows\); .*data\.unusable=drop"
    ):
        opened(tmp_path, content)
    pool = opened(tmp_path, content, unusable="drop")
    assert len(pool.train) + len(pool.test) == 57
    assert pool.classes == 2 and set(pool.groups["client"].tolist()) == {0, 1, 2}


def test_what_is_a_class_and_what_a_quantity(tmp_path: Path) -> None:
    def kind(cells: list[str], **options: Any) -> int:
        content = [[*row[:5], cell] for row, cell in zip(rows(), cells, strict=True)]
        return opened(tmp_path, content, **options).classes

    few, many = [str(n % 4) for n in range(60)], [str(n) for n in range(60)]
    assert kind(few) == 4
    assert kind(few, kind="regression") == 1
    assert kind(many) == 1
    assert kind([f"{n % 4 + 0.5}" for n in range(60)]) == 1
    assert kind([f"c{n % 4}" for n in range(60)]) == 4
    assert kind(few, classes=6) == 6
    with pytest.raises(ConfigError, match="60 different words in 60 rows, which are no classes"):
        kind([f"c{n}" for n in range(60)])
    with pytest.raises(ConfigError, match="all training rows have 'a'"):
        kind(["a"] * 60)
    with pytest.raises(ConfigError, match="there is nothing to learn"):
        kind(["1.5"] * 60)


def test_a_class_with_one_row_is_trained_on(tmp_path: Path) -> None:
    content = rows()
    content[7][5] = "unknown"
    pool = opened(tmp_path, content)
    assert pool.class_names == ("high", "low", "unknown") and (pool.labels == 2).sum() == 1


def test_one_row_per_client(tmp_path: Path) -> None:
    content = [[*row[:3], f"h{number}", *row[4:]] for number, row in enumerate(rows())]
    pool = opened(tmp_path, content)
    owners = pool.groups["client"].tolist()
    assert len(set(owners)) == len(owners) == len(pool.train) == 60 - len(pool.test)


def test_a_client_column_makes_the_clients(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv")
    options = ["--set", f"data.path={path}", "--set", "data.target=risk", "--set", "data.drop=days", "--workers", "0"]
    command = ["run", "table", "fedavg", "--rounds", "1", "--dry-run", "--json", *options]
    assert flatfed(*command, "--set", "data.client=hospital").json["task"]["partition"] == {"id": "natural", "by": ""}
    outcome = flatfed(*command, "--clients", "3")
    assert outcome.json["task"]["partition"]["id"] == "dirichlet"


def test_a_mistake_is_a_sentence(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv")
    outcome = flatfed("run", "table", "fedavg", "--set", f"data.path={path}", "--set", "data.target=riks")
    refused(outcome, "unknown column 'riks'; did you mean 'risk'")
    outcome = flatfed("run", "table", "fedavg", "--set", f"data.path={path}", "--set", "data.kind=regression")
    refused(outcome, "data.kind needs data.target, the column to predict")


# --- regression -----------------------------------------------------------------------------------------------


def quantity(folder: Path, **options: Any) -> TaskRecipe:
    data = {"path": written(folder / "t.csv"), "target": "days", "drop": "risk", "client": "hospital", **options}
    return TaskRecipe("table", partition={"id": "natural"}, data_options=data)


def test_metrics_of_a_quantity_are_in_its_own_unit(tmp_path: Path) -> None:
    run = same_bits(quantity(tmp_path), sampling=3, rounds=15, lr=0.1)
    pool = quantity(tmp_path).pool()
    days = torch.tensor(record(pool).outputs(pool.test.targets), dtype=torch.float64)  # type: ignore[attr-defined]
    guesses = torch.tensor(record(pool).outputs(run.model()(pool.test.inputs)), dtype=torch.float64)  # type: ignore[attr-defined]
    assert set(np.round(days.numpy(), 3)) <= {float(row[4]) for row in rows()}
    row = run.history[-1]
    squares = (days - guesses).square()
    assert row["test_mse"] == pytest.approx(squares.mean().item(), rel=1e-5)
    assert row["test_mae"] == pytest.approx((days - guesses).abs().mean().item(), rel=1e-5)
    assert row["test_r2"] == pytest.approx(1 - (squares.sum() / (days - days.mean()).square().sum()).item(), rel=1e-5)
    assert row["test_r2"] > 0.5 and "test_accuracy" not in row


def test_r2_against_a_closed_form_and_of_equal_targets() -> None:
    metrics = Regression(scale=3.0)
    outputs, targets = torch.tensor([[1.0], [2.0], [5.0]]), torch.tensor([[0.0], [2.0], [4.0]])
    values = metrics.summarise(metrics.measure(outputs, targets))
    assert values == {"mae": pytest.approx(2.0), "mse": pytest.approx(6.0), "r2": pytest.approx(1 - 2 / 8)}
    assert metrics.summarise(metrics.measure(outputs, torch.full((3, 1), 0.1)))["r2"] is None


# --- the record -----------------------------------------------------------------------------------------------


def test_the_record_is_kept_with_the_run_and_treats_other_rows_alike(tmp_path: Path) -> None:
    path, out = written(tmp_path / "t.csv"), tmp_path / "run"
    names = {"path": path, "target": "risk", "drop": "days", "client": "hospital"}
    chosen = [word for name, value in names.items() for word in ("--set", f"data.{name}={value}")]
    flatfed("run", "table", "fedavg", "--rounds", "2", "--workers", "0", "--out", str(out), *chosen)
    kept = Preprocessing.load(out)
    pool = load("table", **names)
    assert kept == record(pool) == ff.load_run(out).preprocessing
    asked = [{"age": 33.5, "sex": "f", "ward": "icu"}, {"age": "33.5", "sex": "m", "ward": "elsewhere"}]
    number = (33.5 - kept.columns[0].mean) / kept.columns[0].std  # type: ignore[union-attr]
    made = kept.inputs(asked)
    assert made[0].tolist() == pytest.approx([number, 1.0, 0.0, 0.0, 0.0, 1.0])
    assert made[1].tolist() == pytest.approx([number, 0.0, 1.0, 0.0, 0.0, 0.0])
    assert kept.outputs(torch.tensor([[0.1, 0.2], [0.3, 0.2]])) == ["low", "high"]
    assert torch.equal(kept.read(path), torch.from_numpy(kept.encoded(_columns(path))))
    with pytest.raises(ConfigError, match="the column 'age' is empty"):
        kept.inputs([{"sex": "f", "ward": "er"}])


def _columns(path: str) -> Any:
    from flatfed.data.tables.text_columns import TextColumns

    return TextColumns.read(Path(path), ",")


def test_a_record_that_was_agreed_on_takes_the_place_of_the_rows(tmp_path: Path) -> None:
    agreed = tmp_path / "agreed.json"
    everyone = opened(tmp_path)
    record(everyone).save(agreed)
    some = [row for row in rows() if row[3] == "a" and row[2] != "gp"]
    part = opened(tmp_path, some, preprocessing=str(agreed))
    assert part.preprocessing == everyone.preprocessing and not part.is_estimated
    assert {tuple(row) for row in inputs(part).tolist()} <= {tuple(row) for row in inputs(everyone).tolist()}
    with pytest.raises(ConfigError, match=r"data\.preprocessing has decided data\.missing"):
        opened(tmp_path, some, preprocessing=str(agreed), missing="mean")
    with pytest.raises(ConfigError, match="is for the target 'risk', not 'sex'"):
        opened(tmp_path, some, preprocessing=str(agreed), target="sex")


BROKEN: dict[str, tuple[Any, str]] = {
    "version": ({"version": 9}, "it has version 9"),
    "number": ({"columns": [{"kind": "number", "name": "a", "mean": 0, "std": 0}]}, "must be greater than 0"),
    "endless": ({"columns": [{"kind": "number", "name": "a", "mean": "x", "std": 1}]}, "'x' is no number"),
    "kind": ({"columns": [{"kind": "date", "name": "a"}]}, "kind is number or category"),
    "values": ({"columns": [{"kind": "category", "name": "a", "values": ["x", "x"]}]}, "needs different values"),
    "twice": ({"columns": [{"kind": "category", "name": "a", "values": ["x"]}] * 2}, "each once"),
    "none": ({"columns": []}, "it must name its columns"),
    "target": ({"target": {"kind": "classes", "name": "y", "classes": ["one"]}}, "two different classes or more"),
    "decimal": ({"decimal": "dot"}, "point or comma"),
    "list": ([], "is no record of preprocessing"),
}


@pytest.mark.parametrize(("changes", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_records(tmp_path: Path, changes: Any, reason: str) -> None:
    good = dict(record(opened(tmp_path)).to_dict())
    assert Preprocessing.from_dict(json.loads(json.dumps(good))).to_dict() == good
    file = tmp_path / "agreed.json"
    file.write_text(json.dumps({**good, **changes} if isinstance(changes, dict) else changes))
    with pytest.raises(ConfigError, match=rf"agreed\.json.*{reason}"):
        Preprocessing.load(file)
