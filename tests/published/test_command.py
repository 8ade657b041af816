"""`flatfed published`, and `flatfed show --published`, as people and programs see them."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.command import flatfed, on_terminal, read_json, refused
from flatfed.published.numbers import papers, values
from records import rewrite

EARLIER = Path(__file__).parents[1] / "runs" / "earlier"
"""Finished runs of fedavg and fedsam over two rounds, on digits, and one of tensors."""


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


def lines_with(text: str, *parts: str) -> list[str]:
    return [line for line in text.splitlines() if all(part in line for part in parts)]


# --- looking up -------------------------------------------------------------------------------------------------------


def test_without_a_choice_the_papers_are_shown() -> None:
    outcome = flatfed("published")
    assert (outcome.code, outcome.err) == (0, "")
    assert lines_with(outcome.out, "fedsam", "1205", "108", "143", "Table 17")
    assert all(paper.title.split()[0] in outcome.out for paper in papers().values())
    assert "--paper, --table, --method" in outcome.out


def test_values_with_their_settings() -> None:
    outcome = flatfed("published", "--paper", "fedgloss", "--table", 3, "--method", "fedgloss+sam")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("fedgloss, Table 3, fedgloss+sam\n")
    assert lines_with(outcome.out, "cifar10, dirichlet 0, cnn, 5 of 100 clients, 10000 rounds", "83.9 ± 0.4")


def test_what_all_rows_share_stands_once_above() -> None:
    outcome = flatfed("published", "--table", 2, "--method", "fedasam+swa", "--dataset", "cifar100")
    above = "fedsam, Table 2, fedasam+swa, accuracy_pct, cifar100, cnn, 20000 rounds, 1 local epoch"
    assert outcome.out.startswith(f"{above}\n")
    assert lines_with(outcome.out, "dirichlet 0, 5 of 100 clients", "42.01")
    assert outcome.out.count("20000 rounds") == 1


def test_what_is_no_plain_number_says_what_it_is() -> None:
    diverged = flatfed("published", "--paper", "fedgloss", "--table", 3, "--method", "feddyn", "--dataset", "cifar100")
    assert len(lines_with(diverged.out, "dirichlet", "cnn", "diverged")) == 2
    chance = flatfed("published", "--paper", "fedwmsam", "--table", 6, "--method", "mofedsam")
    assert lines_with(chance.out, "rho=0.5", "10.00 (chance level)")
    never = flatfed("published", "--paper", "fedgloss", "--table", 5, "--method", "scaffold")
    assert lines_with(never.out, "rounds_to_target (fedavg final accuracy)", "not reached")


def test_uncertain_values_are_marked_and_their_reason_stands_below() -> None:
    outcome = flatfed("published", "--paper", "fedgf", "--table", 4)
    assert lines_with(outcome.out, "dirichlet 10", "24000 ?")
    assert lines_with(outcome.out, "fedgf", "7500") != lines_with(outcome.out, "fedgf", "7500 ?")
    assert len(lines_with(outcome.out, "? alpha=10 pair 240 / 248")) == 1


def test_a_choice_without_values() -> None:
    outcome = flatfed("published", "--paper", "fedvssam", "--method", "fedgloss+sam")
    assert (outcome.code, outcome.out, outcome.err) == (0, "no published value for this choice\n", "")
    assert flatfed("published", "--paper", "fedvssam", "--method", "fedgloss+sam", "--json").json == []


@pytest.mark.parametrize("columns", [80, 100, 140])
@pytest.mark.parametrize(
    "chosen",
    [(), ("--paper", "fedgloss"), ("--metric", "rounds_to_target"), ("--parameters",), ("--dataset", "officehome")],
    ids=str,
)
def test_tables_fit_the_terminal(chosen: tuple[str, ...], columns: int) -> None:
    outcome = on_terminal("published", *chosen, columns=columns)
    assert outcome.code == 0
    assert max(map(len, outcome.out.splitlines())) <= columns


def test_no_number_is_cut_where_a_terminal_is_narrow() -> None:
    outcome = on_terminal("published", "--paper", "fedgloss", "--table", "3", columns=80)
    for value in values():
        if (value.paper, value.table) == ("fedgloss", "Table 3"):
            assert value.printed in outcome.out


def test_everything_as_json() -> None:
    records = flatfed("published", "--json").json
    assert len(records) == len(values())
    (one,) = flatfed("published", "--paper", "fedvssam", "--metric", "accuracy_pct", "--json").json
    assert (one["method"], one["value"], one["std"], one["rounds"], one["clients_total"]) == (
        *("fedvssam", 96.74, None),
        *(400, None),
    )


def test_everything_as_csv() -> None:
    outcome = flatfed("published", "--csv")
    rows = list(csv.DictReader(io.StringIO(outcome.out)))
    assert len(rows) == len(values())
    assert {row["method"] for row in rows if row["algorithm"] == "feddyn"} >= {"feddyn", "feddyn+sam", "feddyn+swa"}


def test_hyperparameters() -> None:
    outcome = flatfed(
        "published", "--parameters", "--paper", "fedgloss", "--method", "fedgloss", "--dataset", "cifar10"
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert lines_with(outcome.out, "cifar10, cnn", "fedgloss", "rho_s", "{0.01,0.1,0.15}", "0.15")
    assert lines_with(outcome.out, "not known")
    records = flatfed("published", "--parameters", "--json").json
    assert len(records) == 345
    rows = list(csv.DictReader(io.StringIO(flatfed("published", "--parameters", "--csv").out)))
    assert rows == records


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--paper", "fedsm"), ("unknown paper 'fedsm'", "'fedsam'")),
        (("--method", "fedglos+sam"), ("'fedglos+sam'", "'fedgloss+sam'")),
        (("--dataset", "cifar11"), ("'cifar11'", "'cifar10'")),
        (("--table", "Table 55"), ("unknown table 'Table 55'", "'Table 5'")),
        (("--partition", "diriclet"), ("'diriclet'", "'dirichlet'")),
        (("--metric", "lambda"), ("unknown metric 'lambda'", "'lambda_max'")),
        (("--parameters", "--method", "fedpox"), ("'fedpox'", "'fedprox'")),
        (("--parameters", "--metric", "lambda_max"), ("--metric chooses values",)),
        (("--json", "--csv"), ("--json or --csv",)),
    ],
    ids=str,
)
def test_bad_names_are_refused_with_the_nearest(arguments: tuple[str, ...], parts: tuple[str, ...]) -> None:
    refused(flatfed("published", *arguments), *parts)


# --- beside runs ------------------------------------------------------------------------------------------------------


@pytest.fixture
def comparison(tmp_path: Path) -> Path:
    """A comparison whose records say that it was one on CIFAR-10 as papers have it, but for two rounds only."""
    copy = Path(shutil.copytree(EARLIER / "comparison", tmp_path / "comparison"))
    for path in copy.glob("*/*/config.json"):
        config = read_json(path)
        as_on_cifar10(config)
        rewrite(path, config)
    return copy


def as_on_cifar10(config: dict[str, Any]) -> None:
    partition = {"id": "dirichlet", "alpha": 0.0, "prior": "uniform", "size_sigma": 0.0}
    config["task"] |= {"dataset": "cifar10", "clients": 100, "model": "cnn", "partition": partition}
    config["setting"]["data"]["name"] = "cifar10"
    config["setting"]["clients"]["count"] = 100
    config["setting"]["partition"] = partition
    config["setting"]["model"]["name"] = "cnn"
    config["setting"]["augmentation"] = {"names": ["crop(padding=4)", "flip(p=0.5)"], "default": True}
    config["sampler"] = {"id": "uniform", "count": 5}
    config["settings"]["lr"] = 0.01


def test_published_values_stand_beside_measured_ones(comparison: Path) -> None:
    outcome = flatfed("show", comparison, "--published")
    assert (outcome.code, outcome.err) == (0, "")
    assert lines_with(outcome.out, "fedavg", "34.17", "59.9 ± 0.4", "fedgloss, Tables 3, 7")
    assert lines_with(outcome.out, "fedsam", "34.44", "70.16", "fedsam, Tables 2, 6, 17")
    assert lines_with(outcome.out, "fedavg", "61.49", "published with local epochs 2, this run 1")
    assert lines_with(outcome.out, "62.26 ?", "published with mixup, this run without")
    assert outcome.out.count("published after 10000 rounds, this run 2") == 1
    assert lines_with(outcome.out, "published for the same setting: accuracy_pct", "last-1 mean")


def test_without_the_option_nothing_is_said_of_papers(comparison: Path) -> None:
    outcome = flatfed("show", comparison)
    assert "published" not in outcome.out
    assert "published" not in flatfed("show", comparison, "--json").json


def test_beside_runs_as_json(comparison: Path) -> None:
    document = flatfed("show", comparison, "--published", "--json").json
    assert document["published"].keys() == {"fedavg", "fedsam"}
    lines = document["published"]["fedsam"]
    first = next(line for line in lines if line["published"]["table"] == "Table 7")
    assert first["measured"] == pytest.approx(34.44, abs=0.01)
    assert (first["published"]["value"], first["published"]["std"]) == (70.2, 0.9)
    rho = "published with rho 0.15, this run 0.05"
    assert first["differences"] == ["published after 10000 rounds, this run 2", rho]
    assert {line["metric"] for line in lines} == {"accuracy_pct"}


def test_beside_runs_on_a_narrow_terminal(comparison: Path) -> None:
    outcome = on_terminal("show", comparison, "--published", columns=80)
    assert max(map(len, outcome.out.splitlines())) <= 80
    assert "59.9 ± 0.4" in outcome.out


def test_a_method_without_a_published_value_beside_one_with(comparison: Path) -> None:
    path = comparison / "fedsam" / "seed-0" / "config.json"
    config = read_json(path)
    config["sampler"]["count"] = 7
    rewrite(path, config)
    outcome = flatfed("show", comparison, "--published")
    assert lines_with(outcome.out, "fedsam", "no published value for this setting")
    assert lines_with(outcome.out, "fedavg", "59.9 ± 0.4")


@pytest.mark.parametrize("name", ["comparison", "tensors"])
def test_runs_without_a_published_value(name: str, tmp_path: Path) -> None:
    run = shutil.copytree(EARLIER / name, tmp_path / name)
    outcome = flatfed("show", run, "--published")
    assert outcome.code == 0
    assert outcome.out.endswith("no published value for this setting\n")
    document = flatfed("show", run, "--published", "--json").json
    assert set(map(str, document["published"].values())) == {"[]"}
