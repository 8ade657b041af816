"""A comparison grows in place: more seeds, methods or rounds train what is new and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command import SMALL, fingerprint, flatfed, read_history, read_json, refused, without_time

METHODS = ("fedavg", "scaffold")


def compared(out: Path, *more: str, methods: tuple[str, ...] = METHODS, seeds: str = "0") -> None:
    outcome = flatfed("compare", "digits", *methods, "--seeds", seeds, *SMALL, *more, "--out", out)
    assert outcome.code == 0, outcome.err


def runs(out: Path) -> dict[str, str]:
    return {name: digest for name, digest in fingerprint(out).items() if "/seed-" in name}


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    compared(tmp_path / "out")
    return tmp_path / "out"


def test_one_more_seed_and_one_more_method_leave_the_others_as_they_were(begun: Path) -> None:
    before = runs(begun)
    compared(begun, methods=(*METHODS, "fedsam"), seeds="0,1")
    after = runs(begun)
    assert {name: after[name] for name in before} == before
    results = read_json(begun / "results.json")["methods"]
    assert [(entry["method"], entry["seeds"]) for entry in results] == [
        ("fedavg", [0, 1]),
        ("scaffold", [0, 1]),
        ("fedsam", [0, 1]),
    ]


@pytest.mark.parametrize("command", ["compare", "resume"])
def test_more_rounds_go_on_from_where_the_runs_ended(command: str, begun: Path, tmp_path: Path) -> None:
    if command == "compare":
        compared(begun, "--rounds", "5")
    else:
        outcome = flatfed("resume", begun, "--rounds", "5")
        assert outcome.code == 0, outcome.err
    compared(tmp_path / "whole", "--rounds", "5")
    for method in METHODS:
        extended = read_history(begun / method / "seed-0")
        assert len(extended) == 5
        assert without_time(extended) == without_time(read_history(tmp_path / "whole" / method / "seed-0"))
    assert read_json(begun / "comparison.json")["settings"]["rounds"] == 5


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("--rounds", "2"), "it has 3 rounds, which is more than 2"),
        (("--lr", "0.5"), "its lr is 0.1, not 0.5"),
        (("--alpha", "3"), "its partition: alpha is"),
        (("--set", "scaffold:server_lr=0.5"), "scaffold has other parameters there"),
    ],
)
def test_what_is_no_growth_is_told(change: tuple[str, ...], told: str, begun: Path) -> None:
    before = fingerprint(begun)
    outcome = flatfed("compare", "digits", *METHODS, "--seeds", "0", *SMALL, *change, "--out", begun)
    refused(outcome, str(begun), "holds another comparison", told, "--out")
    assert fingerprint(begun) == before


def test_a_method_or_a_seed_that_is_left_out_is_told(begun: Path) -> None:
    fewer = flatfed("compare", "digits", "fedavg", "--seeds", "0", *SMALL, "--out", begun)
    refused(fewer, "it compares scaffold too; name it")
    other = flatfed("compare", "digits", *METHODS, "--seeds", "1", *SMALL, "--out", begun)
    refused(other, "it has seed 0 too; name it")


def test_an_average_is_laid_out_over_its_rounds(tmp_path: Path) -> None:
    out = tmp_path / "out"
    compared(out, methods=("fedavg+swa",))
    outcome = flatfed("resume", out, "--rounds", "5")
    refused(outcome, "fedavg+swa averages over the planned rounds, so it cannot be made longer")


# --- what there is -----------------------------------------------------------------------------------------------


def test_a_folder_s_runs_are_found(begun: Path, tmp_path: Path) -> None:
    assert flatfed("run", "digits", "fedsam", *SMALL, "--out", tmp_path / "alone").code == 0
    listed = flatfed("list", "runs", tmp_path, "--json").json
    assert [(entry["method"], entry["rounds"], entry["status"]) for entry in listed] == [
        ("fedsam", 3, "finished"),
        ("fedavg", 3, "finished"),
        ("scaffold", 3, "finished"),
    ]
    text = flatfed("list", "runs", tmp_path).out
    assert str(begun / "scaffold/seed-0") in text and "3/3" in text
    shown = flatfed("show", tmp_path)
    assert shown.code == 0 and all(method in shown.out for method in ("fedavg", "scaffold", "fedsam"))


def test_a_damaged_run_and_an_empty_folder_are_no_errors(begun: Path, tmp_path: Path) -> None:
    (begun / "fedavg/seed-0/config.json").write_text("{")
    [first, second] = flatfed("list", "runs", begun, "--json").json
    assert (first["status"], second["status"]) == ("unreadable", "finished")
    (tmp_path / "empty").mkdir()
    assert "holds no run" in flatfed("list", "runs", tmp_path / "empty").out
    refused(flatfed("list", "runs", tmp_path / "missing"), "is not a folder")
    refused(flatfed("list", "models", tmp_path), "a folder is for `flatfed list runs FOLDER`")


# --- files -------------------------------------------------------------------------------------------------------


def test_a_record_is_a_file_of_options(begun: Path, tmp_path: Path) -> None:
    again = flatfed("run", "--config", begun / "scaffold/seed-0/config.json", "--out", tmp_path / "again")
    assert again.code == 0, again.err
    first, second = (read_history(path) for path in (begun / "scaffold/seed-0", tmp_path / "again"))
    assert without_time(first) == without_time(second)
    both = flatfed("compare", "--config", begun / "comparison.json", "--out", tmp_path / "both")
    assert both.code == 0, both.err
    ours, theirs = read_json(tmp_path / "both/comparison.json"), read_json(begun / "comparison.json")
    assert {**ours, "about": 0, "seal": 0} == {**theirs, "about": 0, "seal": 0}


def test_a_record_with_parameters_of_every_kind(tmp_path: Path) -> None:
    given = [
        "--set",
        "rho=0.3",
        "--set",
        "average.cycle=2",
        "--beta",
        "0.5",
        "--bernoulli",
        "0.5",
        "--batch-size",
        "full",
    ]
    small = [word for word in SMALL if word not in ("--per-round", "2")]
    command = ["run", "digits", "fedsam+swa", *small, *given, "--seed", "4"]
    assert flatfed(*command, "--out", tmp_path / "a").code == 0
    outcome = flatfed("run", "--config", tmp_path / "a/config.json", "--out", tmp_path / "b")
    assert outcome.code == 0, outcome.err
    assert without_time(read_history(tmp_path / "a")) == without_time(read_history(tmp_path / "b"))


def test_a_file_names_data_set_and_methods(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("dataset: digits\nmethods: [fedavg, scaffold]\nseeds: 0,1\nrounds: 1\nclients: 5\nper_round: 2\n")
    planned = flatfed("compare", "--config", file, "--dry-run")
    assert planned.code == 0, planned.err
    assert "4 runs, 0 of them there already; nothing was trained" in planned.out
    typed = flatfed("compare", "digits", "fedsam", "--config", file, "--dry-run", "--json").json
    assert [method["spelling"] for method in typed["methods"]] == ["fedsam"]
    file.write_text("dataset: digits\nmethods: [fedavg, scaffold]\n")
    refused(flatfed("run", "--config", file), "several methods")
    file.write_text("rounds: 1\n")
    refused(flatfed("run", "--config", file), "name a DATASET")
    refused(flatfed("compare", "digits", "--config", file), "name at least one ALGORITHM")


def test_a_dry_run_writes_nothing_and_refuses_what_a_run_would(tmp_path: Path) -> None:
    outcome = flatfed("run", "digits", "fedavg", *SMALL, "--out", tmp_path / "out", "--dry-run")
    assert outcome.code == 0 and "logreg" in outcome.out
    assert not (tmp_path / "out").exists()
    refused(flatfed("run", "digits", "fedavg", *SMALL, "--per-round", "50", "--dry-run"), "50")


def test_a_file_that_is_not_there_is_named_once(tmp_path: Path) -> None:
    outcome = flatfed("run", "--config", tmp_path / "nowhere.json")
    refused(outcome, "No such file or directory")
    assert outcome.err.count("nowhere.json") == 1
