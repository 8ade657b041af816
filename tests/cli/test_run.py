"""`flatfed run`: one method, a run directory, a table."""

from __future__ import annotations

import csv
import subprocess
from pathlib import Path

import pytest

from cli.command import PROCESS, SMALL, flatfed, read_history, read_json, strict_json, without_time

RECORDS = ["config.json", "environment.json", "history.jsonl", "status.json"]
REPORT = ["results.csv", "results.json", "report.md", "curves.png", "curves.pdf", "curves.svg"]


def test_everything_is_written(run: Path) -> None:
    assert all((run / name).stat().st_size > 0 for name in [*RECORDS, *REPORT])
    assert list((run / "checkpoints").iterdir())
    assert read_json(run / "status.json")["status"] == "finished"
    assert "torch" in read_json(run / "environment.json")["packages"]
    assert [row["round"] for row in read_history(run)] == [0, 1, 2]
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (run / "curves.svg").read_text()


def test_the_results_are_those_of_the_history(run: Path) -> None:
    rows = read_history(run)
    accuracies = [row["test_accuracy"] for row in rows]
    [record] = read_json(run / "results.json")["runs"]
    assert record["accuracy_final"] == accuracies[-1]
    assert record["accuracy_best"] == max(accuracies)
    assert record["accuracy_last_mean"] == pytest.approx(sum(accuracies) / 3)
    for name in ("bytes_down", "bytes_up", "backprops", "seconds"):
        assert record[name] == pytest.approx(sum(row[name] for row in rows))
    with (run / "results.csv").open(newline="") as file:
        [line] = csv.DictReader(file)
    assert {name: str(value) for name, value in record.items()} == line


def test_a_process_of_its_own_tables_on_output_and_progress_on_error(tmp_path: Path, run: Path) -> None:
    command = [*PROCESS, "run", "digits", "fedsam", *SMALL, "--out", "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    heading, row = (line.split() for line in done.stdout.splitlines() if "method" in line or "finished" in line)
    assert (heading[0], row[0], row[-1]) == ("method", "fedsam", "finished")
    assert "round 3/3" in done.stderr and "out" in done.stderr
    assert "round 3/3" not in done.stdout and "\x1b" not in done.stdout + done.stderr
    assert without_time(read_history(tmp_path / "out")) == without_time(read_history(run))
    assert f"flatfed run digits fedsam {' '.join(SMALL)} --out out" in (tmp_path / "out/report.md").read_text()


def test_json_is_one_document(tmp_path: Path) -> None:
    outcome = flatfed("run", "digits", "fedavg", *SMALL, "--json", "--out", "out")
    assert outcome.code == 0
    document = outcome.json
    assert document == read_json(tmp_path / "out/results.json")
    assert [method["method"] for method in document["methods"]] == ["fedavg"]
    assert document["runs"][0]["path"] == "out"


def test_without_out_a_new_directory_is_taken_each_time(tmp_path: Path) -> None:
    for _ in range(2):
        assert flatfed("run", "digits", "feddyn+sam", *SMALL).code == 0
    made = sorted(path.relative_to(tmp_path).as_posix() for path in Path("runs").resolve().iterdir())
    assert len(made) == 2
    assert all(name.startswith("runs/digits-feddyn+sam") for name in made)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("feddyn+sam", ["client_opt.rho=0.2"]),
        ("fedasam+swa", ["average.cycle=1", "rho=0.3"]),
        ("scaffold+asam+swa", ["option=I"]),
        ("fedavg", ["fedavg:server_lr=0.5"]),
    ],
)
def test_short_spellings(method: str, settings: list[str], tmp_path: Path) -> None:
    given = [text for setting in settings for text in ("--set", setting)]
    outcome = flatfed("run", "digits", method, *SMALL, *given, "--out", "out")
    assert outcome.code == 0, outcome.err
    assert read_json(tmp_path / "out/config.json")["method"] == method
    assert method in outcome.out


def test_clients_that_join_by_chance(tmp_path: Path) -> None:
    small = ["--rounds", "3", "--clients", "5", "--bernoulli", "0.5", "--workers", "0", "--model", "logreg"]
    assert flatfed("run", "digits", "fedavg", *small, "--out", "out").code == 0
    assert read_json(tmp_path / "out/config.json")["sampler"] == {"id": "bernoulli", "p": 0.5}


def test_divergence_is_a_result_with_a_reason(tmp_path: Path) -> None:
    outcome = flatfed("run", "digits", "fedavg", *SMALL, "--set", "server_lr=1e38", "--out", "out")
    assert outcome.code == 1
    assert "diverged (round " in outcome.out
    assert "diverged: " in outcome.err and "not finite" in outcome.err
    assert "Traceback" not in outcome.err
    assert "last-0" not in outcome.out
    strict_json((tmp_path / "out/results.json").read_text())


def test_the_table_and_the_reason_count_rounds_alike() -> None:
    outcome = flatfed("run", "digits", "fedavg", *SMALL, "--set", "server_lr=1e38", "--out", "out")
    reported = outcome.err.partition("diverged: round ")[2].partition(":")[0]
    assert f"diverged (round {reported})" in outcome.out


def test_evaluation_every_so_many_rounds(tmp_path: Path) -> None:
    small = ["--rounds", "7", *SMALL[2:]]
    assert (
        flatfed("run", "digits", "fedavg", *small, "--evaluate-every", "3", "--evaluate-last", "0", "--out", "out").code
        == 0
    )
    rows = read_history(tmp_path / "out")
    assert [row["round"] + 1 for row in rows if "test_accuracy" in row] == [3, 6, 7]
