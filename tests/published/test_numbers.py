"""The shipped numbers: every row is read, a bad one is named with file and line, and they are what was collected."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import FrozenInstanceError
from importlib.resources import files
from pathlib import Path

import pytest

from flatfed.core.errors import ConfigError
from flatfed.published.numbers import papers, parameters, read_papers, read_parameters, read_values, values

COLLECTED = Path(__file__).parents[3] / "shared" / "published"
"""Where the numbers were collected, if that lies beside the repository."""

SHIPPED = files("flatfed.published") / "files"

COLUMNS = (
    "paper,table,dataset,model,partition,partition_value,clients_total,clients_per_round,rounds,local_epochs,"
    "algorithm,client_opt,extras,metric,target,value,std,status,source,reason"
)
GOOD = "fedgloss,Table 3,cifar10,cnn,dirichlet,0,100,5,10000,1,fedgloss,sam,,accuracy_pct,,83.9,0.4,,paper_text,"


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def shipped(name: str) -> list[dict[str, str]]:
    return rows_of((SHIPPED / name).read_text(encoding="utf-8"))


def collected(name: str) -> list[dict[str, str]]:
    if not COLLECTED.is_dir():
        pytest.skip("the numbers were collected elsewhere")
    return rows_of((COLLECTED / name).read_text(encoding="utf-8"))


def test_every_row_is_read() -> None:
    assert len(values()) == len(shipped("results.csv")) == 2746
    assert len(parameters()) == len(shipped("hyperparameters.csv")) == 345
    assert len(papers()) == len(shipped("papers.csv")) == 5


def test_how_many_there_are_of_each_paper() -> None:
    certain = Counter(value.paper for value in values() if value.is_certain)
    uncertain = Counter(value.paper for value in values() if not value.is_certain)
    assert certain == {"fedgloss": 716, "fedsam": 1097, "fedwmsam": 287, "fedvssam": 248, "fedgf": 287}
    assert uncertain == {"fedsam": 108, "fedgf": 3}


def test_what_is_read_is_what_is_written() -> None:
    for value, row in zip(values(), shipped("results.csv"), strict=True):
        assert value.printed == " ± ".join(filter(None, (row["value"], row["std"])))
        assert ";".join(value.extras) == row["extras"]
        assert value.value == (float(row["value"]) if row["value"] else None)
        for name in ("clients_total", "clients_per_round", "rounds", "local_epochs"):
            assert getattr(value, name) == (int(row[name]) if row[name] else None)
        for name in ("paper", "table", "dataset", "model", "partition", "partition_value", "metric", "status"):
            assert getattr(value, name) == row[name]
    assert [vars(entry) for entry in parameters()] == shipped("hyperparameters.csv")


def test_every_number_belongs_to_a_known_paper() -> None:
    assert {value.paper for value in values()} == papers().keys()
    assert {entry.paper for entry in parameters()} == papers().keys()


def test_no_certain_value_is_there_twice() -> None:
    keys = Counter(tuple(row.items())[:15] for row in shipped("results.csv") if not row["reason"])
    assert max(keys.values()) == 1


def test_a_value_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        values()[0].value = 1.0  # type: ignore[misc]


def test_a_paper_is_cited() -> None:
    assert papers()["fedgf"].reference == (
        'T. Lee, S. W. Yoon, "Rethinking the Flat Minima Searching in Federated Learning", ICML 2024'
    )


def test_what_a_paper_does_not_state_is_left_out_of_its_citation() -> None:
    (paper,) = read_papers("papers.csv", "id,title,authors,venue,year,read_from\nx,On X,,,,paper\n")
    assert (paper.year, paper.reference) == (None, '"On X"')


# --- the collected files ---------------------------------------------------------------------------------------------


def test_the_values_are_those_that_were_collected() -> None:
    certain = [row | {"reason": ""} for row in collected("results.csv")]
    # Both were read from the text of a paper; the collection has two names for that.
    uncertain = [row | {"source": "paper_text"} for row in collected("results_uncertain.csv")]
    assert shipped("results.csv") == certain + uncertain


def test_the_parameters_are_those_that_were_collected() -> None:
    assert shipped("hyperparameters.csv") == collected("hyperparameters.csv")


# --- bad rows ---------------------------------------------------------------------------------------------------------


def read(*rows: str) -> list[object]:
    return list(read_values("results.csv", "\n".join([COLUMNS, *rows]) + "\n"))


def changed(name: str, text: str) -> str:
    cells = dict(zip(COLUMNS.split(","), GOOD.split(","), strict=True))
    return ",".join((cells | {name: text}).values())


def test_the_good_row_is_good() -> None:
    assert len(read(GOOD)) == 1


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("paper", "", "paper must not be empty"),
        ("metric", "", "metric must not be empty"),
        ("rounds", "10k", "rounds must be a whole number from 1 on, not '10k'"),
        ("rounds", "0", "rounds must be a whole number from 1 on, not '0'"),
        ("clients_total", "-5", "clients_total must be a whole number from 1 on, not '-5'"),
        ("value", "8x", "value must be a number, not '8x'"),
        ("value", "nan", "value must be finite, not 'nan'"),
        ("value", "", "value '' does not go with status ''"),
        ("std", "-0.1", "std '-0.1' must be a deviation of a value"),
        ("status", "divergd", "unknown status 'divergd'; did you mean 'diverged'?"),
        ("status", "diverged", "value '83.9' does not go with status 'diverged'"),
        ("source", "hearsay", "unknown source 'hearsay'; known: paper_text, poster_image"),
        ("extras", "swa;;mixup", "extras must be words with semicolons between them, not 'swa;;mixup'"),
        ("table", " Table 3", "table must have no spaces around it, not ' Table 3'"),
    ],
)
def test_a_bad_row_is_named_with_file_and_line(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(GOOD, GOOD, changed(name, text))
    assert str(error.value) == f"results.csv, line 4: {message}"


def test_a_row_of_another_length() -> None:
    with pytest.raises(ConfigError, match=r"results\.csv, line 2: 21 cells, where there are 20 columns"):
        read(f"{GOOD},")


def test_other_columns() -> None:
    with pytest.raises(ConfigError, match=r"hyperparameters\.csv, line 1: the columns must be paper,dataset,"):
        list(read_parameters("hyperparameters.csv", "paper,data\n"))


def test_a_file_that_is_no_csv() -> None:
    with pytest.raises(ConfigError, match=r"results\.csv, line 2: "):
        read('"open')
