"""What goes wrong in a cell is a result; all others finish."""

from __future__ import annotations

import json
from pathlib import Path

from cli.command import flatfed
from studies.bench import begin, written

SETTINGS = {
    "fine": {},
    "diverges": {"lr": 1e30},
    "impossible": {"clients": 100_000},
    "kills": {"model": "nets:Killer"},
    "raises": {"model": "nets:Raiser"},
    "leaves": {"model": "nets:Leaver"},
}


def states(out: str) -> dict[str, str]:
    """Return how the only seed of each setting ended."""
    rows = json.loads(out)["rows"]
    return {row["setting"]: row["without"].get("0", "finished") for row in rows}


def test_every_way_to_fail_is_a_result_and_can_be_tried_again(tmp_path: Path) -> None:
    file = written(tmp_path, settings=SETTINGS)
    end = begin(file, "--jobs", "2", "--json").end()
    assert end.returncode == 1, end.stderr
    assert states(end.stdout) == {
        "fine": "finished",
        "diverges": "diverged",
        "impossible": "failed",
        "kills": "failed",
        "raises": "failed",
        "leaves": "failed",
    }
    assert "its process was killed 3 times (signal 9)" in end.stderr
    assert "an error of the model's own" in end.stderr
    assert "its process ended with code 0, and no result" in end.stderr
    assert "printed by the model" in end.stderr
    assert "Traceback" not in end.stderr
    traces = [json.loads(name.read_text())["trace"] for name in (tmp_path / "out" / "failures").glob("*.json")]
    assert any("in act" in trace for trace in traces)

    # Nothing is tried again unasked.
    again = begin(file, "--json").end()
    assert (again.returncode, again.stdout) == (1, end.stdout)
    # Asked for, what is mended finishes, and what is not may be killed as often as before.
    (tmp_path / "spared").touch()
    retried = begin(file, "--json", "--retry-failed").end()
    assert "4 cells that had failed are tried again" in retried.stderr
    found = states(retried.stdout)
    assert (found["kills"], found["raises"]) == ("finished", "finished")
    assert (found["impossible"], found["leaves"], found["diverges"]) == ("failed", "failed", "diverged")
    assert retried.returncode == 1


def test_deaths_are_counted_anew_when_a_cell_is_tried_again(tmp_path: Path) -> None:
    file = written(tmp_path, model="nets:Killer")
    for _ in range(2):
        end = begin(file, "--jobs", "1", "--retry-failed").end()
        assert end.returncode == 1
        assert "its process was killed 3 times" in end.stderr
        assert next((tmp_path / "out").glob("failures/*.deaths")).read_text() == "3"


def test_cells_that_only_diverge_are_no_failure(tmp_path: Path) -> None:
    file = written(tmp_path, settings={"fine": {}, "diverges": {"lr": 1e30}})
    outcome = flatfed("study", "run", file, "--out", tmp_path / "out", "--jobs", 1)
    assert outcome.code == 0, outcome.err
    assert "✗" in outcome.out
    shown = flatfed("study", "show", tmp_path / "out")
    assert (shown.code, shown.out) == (0, outcome.out)


def test_a_failed_cell_whose_setting_is_mended_is_tried_again_by_itself(tmp_path: Path) -> None:
    file = written(tmp_path, settings={"fine": {}, "many": {"clients": 100_000}})
    assert flatfed("study", "run", file, "--out", tmp_path / "out").code == 1
    file = written(tmp_path, settings={"fine": {}, "many": {"clients": 6}})
    outcome = flatfed("study", "run", file, "--out", tmp_path / "out")
    assert outcome.code == 0, outcome.err


def test_a_study_of_which_nothing_can_be_trained_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, lr=-1)
    outcome = flatfed("study", "run", file, "--out", tmp_path / "out")
    assert outcome.code == 2
    assert "fedavg, seed 0: lr" in outcome.err
    assert not (tmp_path / "out").exists()
