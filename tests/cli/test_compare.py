"""`flatfed compare`: several methods and seeds, one table."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from cli.command import COMPARED, SEEDS, SMALL, fingerprint, flatfed, read_history, read_json
from flatfed.core.method.algorithm import Algorithm
from records import rewrite

TINY = ("--rounds", "1", "--clients", "5", "--per-round", "1", "--workers", "0", "--model", "logreg")


def accuracies(comparison: Path, method: str, seed: int) -> list[float]:
    return [row["test_accuracy"] for row in read_history(comparison / method / f"seed-{seed}")]


def test_each_method_has_a_run_with_each_seed(comparison: Path) -> None:
    for method in COMPARED:
        for seed in SEEDS:
            config = read_json(comparison / method / f"seed-{seed}" / "config.json")
            assert (config["method"], config["settings"]["seed"], config["task"]["seed"]) == (method, seed, seed)
    files = {path.name for path in comparison.iterdir() if path.is_file()}
    assert files >= {"results.csv", "results.json", "report.md", "curves.png", "curves.pdf", "curves.svg"}


def test_means_and_deviations_are_those_of_the_histories(comparison: Path) -> None:
    table = flatfed("show", comparison).out
    for record in read_json(comparison / "results.json")["methods"]:
        runs = [accuracies(comparison, record["method"], seed) for seed in SEEDS]
        line = next(line for line in table.splitlines() if line.split()[:1] == [record["method"]])
        for name, figure in {"final": lambda a: a[-1], "last_mean": np.mean, "best": max}.items():
            values = [figure(run) for run in runs]
            mean, deviation = np.mean(values), np.std(values, ddof=1)
            assert record[f"accuracy_{name}"] == pytest.approx(mean)
            assert record[f"accuracy_{name}_std"] == pytest.approx(deviation)
            assert f"{100 * mean:.2f} ± {100 * deviation:.2f}" in line
        histories = [read_history(comparison / record["method"] / f"seed-{seed}") for seed in SEEDS]
        for name in ("bytes_down", "bytes_up", "backprops", "seconds"):
            assert record[name] == pytest.approx(np.mean([sum(row[name] for row in rows) for rows in histories]))
        assert (record["seeds"], record["status"]) == ([0, 1, 2], "finished")


def test_a_line_per_run_in_the_csv_file(comparison: Path) -> None:
    with (comparison / "results.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["method"], int(line["seed"])) for line in lines] == [(m, s) for m in COMPARED for s in SEEDS]
    for line in lines:
        assert float(line["accuracy_final"]) == accuracies(comparison, line["method"], int(line["seed"]))[-1]


def test_the_same_command_again_trains_nothing(comparison: Path) -> None:
    before = fingerprint(comparison)
    outcome = flatfed("compare", "digits", *COMPARED, "--seeds", "0,1,2", *SMALL, "--out", comparison)
    assert outcome.code == 0, outcome.err
    after = fingerprint(comparison)
    assert {k: v for k, v in after.items() if "/seed-" in k} == {k: v for k, v in before.items() if "/seed-" in k}
    assert all(method in outcome.out for method in COMPARED)


def test_a_comparison_from_before_a_parameter_was_there_is_the_same(tmp_path: Path) -> None:
    command = ("compare", "digits", "fedsam", "fedgloss", "--seeds", "0", *TINY, "--out", tmp_path / "out")
    assert flatfed(*command).code == 0
    file = tmp_path / "out" / "comparison.json"
    written = read_json(file)
    for entry in written["methods"]:
        del entry["algorithm"]["server_lr"]
        entry["algorithm"].update({"dual": "paper"} if "dual" in entry["algorithm"] else {})
    rewrite(file, written)
    again = flatfed(*command)
    assert again.code == 0, again.err
    other = flatfed(*command, "--set", "fedgloss:dual=printed")
    assert (other.code, "another comparison" in other.err) == (2, True)


def test_the_number_of_workers_is_no_part_of_a_comparison(comparison: Path) -> None:
    other = [*SMALL[:6], "--workers", "1", *SMALL[8:]]
    assert flatfed("compare", "digits", *COMPARED, "--seeds", "0,1,2", *other, "--out", comparison).code == 0


@pytest.mark.parametrize("options", [["--lr", "0.2"], ["--seeds", "0,1"], ["--alpha", "0"], ["--set", "rho=0.1"]])
def test_another_comparison_in_the_same_place_is_refused(options: list[str], comparison: Path) -> None:
    before = fingerprint(comparison)
    seeds = [] if "--seeds" in options else ["--seeds", "0,1,2"]
    outcome = flatfed("compare", "digits", *COMPARED, *seeds, *SMALL, *options, "--out", comparison)
    assert outcome.code == 2
    assert "another comparison" in outcome.err
    assert fingerprint(comparison) == before


def test_a_diverging_method_is_a_row(tmp_path: Path) -> None:
    given = ["--set", "fedavg:server_lr=1e38", "--seeds", "0,1"]
    outcome = flatfed("compare", "digits", "fedavg", "feddyn", *given, *SMALL, "--out", "out")
    assert outcome.code == 0, outcome.err
    lines = {line.split()[0]: line for line in outcome.out.splitlines() if line.strip()}
    assert "diverged (round " in lines["fedavg"] and "–" in lines["fedavg"]
    assert lines["feddyn"].split()[-1] == "finished" and "±" in lines["feddyn"]
    diverged, finished = read_json(tmp_path / "out/results.json")["methods"]
    assert diverged["accuracy_final"] is None and diverged["status"].startswith("2 of 2 diverged")
    assert finished["accuracy_final"] > 0 and finished["status"] == "finished"
    reason = read_json(tmp_path / "out/fedavg/seed-0/status.json")["reason"]
    assert "not finite" in reason


def test_divergence_is_reported_when_it_happens() -> None:
    given = ["--set", "fedavg:server_lr=1e38"]
    outcome = flatfed("compare", "digits", "fedavg", "feddyn", *given, *SMALL, "--out", "out")
    assert "fedavg/seed-0" in outcome.err and "diverged" in outcome.err


def test_a_method_that_diverged_stays_so(tmp_path: Path) -> None:
    command = ["compare", "digits", "fedavg", *SMALL, "--set", "server_lr=1e38", "--out", "out"]
    assert flatfed(*command).code == 0
    before = fingerprint(tmp_path / "out/fedavg/seed-0")
    assert flatfed(*command).code == 0
    assert fingerprint(tmp_path / "out/fedavg/seed-0") == before


def test_settings_for_all_and_for_one(tmp_path: Path) -> None:
    given = ["--set", "rho=0.2", "--set", "fedasam+swa:rho=0.3", "--set", "average.cycle=1", "--set", "fedprox:mu=1"]
    methods = ["fedsam", "fedasam+swa", "fedasam", "fedprox", "fedprox+sam"]
    assert flatfed("compare", "digits", *methods, *given, *TINY, "--out", "out").code == 0
    written = read_json(tmp_path / "out/comparison.json")["methods"]
    algorithms = {entry["spelling"]: entry["algorithm"] for entry in written}
    assert [algorithms[name]["rho"] for name in methods[:3]] == [0.2, 0.3, 0.2]
    assert [algorithms[name]["mu"] for name in methods[3:]] == [1.0, 1.0]
    assert written[1]["average"]["cycle"] == 1


def test_a_setting_for_one_goes_before_a_setting_for_all(tmp_path: Path) -> None:
    given = ["--set", "fedsam:rho=0.3", "--set", "rho=0.2"]
    assert flatfed("compare", "digits", "fedsam", "fedasam", *given, *TINY, "--out", "out").code == 0
    written = read_json(tmp_path / "out/comparison.json")["methods"]
    assert [entry["algorithm"]["rho"] for entry in written] == [0.3, 0.2]


def test_all_stands_for_every_algorithm() -> None:
    outcome = flatfed("compare", "digits", "all", *TINY, "--json", "--out", "out")
    assert outcome.code == 0, outcome.err
    assert [method["method"] for method in outcome.json["methods"]] == sorted(Algorithm.registry)


def test_a_broken_run_does_not_stop_the_others(comparison: Path) -> None:
    broken = comparison / "fedavg" / "seed-1" / "config.json"
    broken.write_text("{")
    lost = comparison / "fedsam" / "seed-2"
    lost.rename(comparison.parent / "away")
    outcome = flatfed("compare", "digits", *COMPARED, "--seeds", "0,1,2", *SMALL, "--out", comparison)
    assert "Traceback" not in outcome.err
    assert str(broken) in outcome.err
    assert (lost / "history.jsonl").exists()
    assert broken.read_text() == "{"
