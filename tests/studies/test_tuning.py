"""Parameters are tuned within ranges: by runs that are not reported, by any number of processes, whoever dies."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

import nursery
from cli.command import flatfed
from flatfed.core.errors import ConfigError
from flatfed.studies.reading import StudyMistakes, study_of
from flatfed.studies.run_study import RunningStudy, Unwatched
from flatfed.studies.tuning.outcome import Tuned, outcome_of, spelled_with
from flatfed.studies.tuning.ranges import fault_of_range, tidy
from flatfed.studies.tuning.trial_book import JOURNAL, TrialBook
from flatfed.studies.tuning.tuner import Tuner
from flatfed.studies.workers.working import play_cell
from studies.bench import COMMAND, digests, small, until, written
from studies.test_shared import kill

RANGES = {"all": {"lr": {"log": [0.001, 1]}}, "fedsam": {"rho": {"log": [0.001, 0.5]}}}
STUDY: dict[str, Any] = {"rounds": 5, "methods": ["fedavg", "fedsam"], "seeds": [0, 1], "tune": RANGES}
TRIALS = 9


def tuned_here(folder: Path, trials: int = TRIALS, variant: str = "fedsam", **changes: Any) -> Tuned:
    """Tune in this process, one run at a time."""
    running = RunningStudy(study_of(small(**STUDY | changes)), folder)
    tuner = Tuner(running, variant, None, trials)
    running.enter()
    tuner.check()
    tuner.work(Unwatched())
    return outcome_of(tuner)


def begin_tuning(file: Path, *options: str) -> nursery.Fresh:
    words = ("study", "tune", file.name, "fedsam", "--trials", str(TRIALS), "--out", "out", "--jobs", "1", *options)
    return nursery.start("-c", COMMAND, *words, cwd=file.parent)


def rows(out: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in out.glob("tuning/fedsam/trial-*/seed-*/history.jsonl"))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Tuned]:
    folder = tmp_path_factory.mktemp("alone") / "out"
    return folder, tuned_here(folder)


def test_the_best_trial_is_the_one_with_the_best_mean_of_a_run_that_is_not_reported(alone: tuple[Path, Tuned]) -> None:
    folder, tuned = alone
    assert [trial.number for trial in tuned.trials] == list(range(TRIALS))
    best = tuned.best
    assert best is not None and best.score is not None
    assert best.score == max(trial.score for trial in tuned.trials if trial.score is not None)
    assert {run.name for run in folder.glob("tuning/fedsam/trial-*/seed-*") if run.is_dir()} == {"seed-1000"}
    assert not (folder / "cells").exists()
    for trial in tuned.trials:
        values = dict(trial.point)
        assert list(values) == ["lr", "rho"]
        assert 0.001 <= values["lr"] <= 1 and 0.001 <= values["rho"] <= 0.5


def test_some_trials_are_pruned_and_their_runs_are_saved_short(alone: tuple[Path, Tuned]) -> None:
    folder, tuned = alone
    assert Counter(trial.outcome for trial in tuned.trials)["finished"] >= 5
    pruned = [trial for trial in tuned.trials if trial.outcome == "pruned"]
    assert pruned
    for trial in pruned:
        assert trial.number >= 5
        assert "below the median" in trial.reason
        history = folder / f"tuning/fedsam/trial-{trial.number}/seed-1000/history.jsonl"
        assert 1 < history.read_bytes().count(b"\n") < STUDY["rounds"]


def test_killed_again_and_again_it_comes_to_the_same_trials(alone: tuple[Path, Tuned], tmp_path: Path) -> None:
    folder, expected = alone
    file = written(tmp_path, **STUDY)
    out = tmp_path / "out"
    draw = random.Random(7)
    for moment in sorted(draw.sample(range(1, 30), 4)):
        process = begin_tuning(file)
        until(lambda moment=moment: rows(out) >= moment)  # type: ignore[misc]
        kill(process, draw.choice([os.kill, os.killpg]))
    end = begin_tuning(file, "--json").end()
    assert end.returncode == 0, end.stderr
    assert json.loads(end.stdout) == expected.to_dict()
    assert digests(out) == digests(folder)


def test_several_at_once_share_the_trials_and_one_that_dies_is_not_missed(tmp_path: Path) -> None:
    file = written(tmp_path, **STUDY)
    out = tmp_path / "out"
    working = [begin_tuning(file, "--json") for _ in range(3)]
    until(lambda: rows(out) >= 6)
    kill(working.pop(), os.killpg)
    ended = [process.end() for process in working]
    assert [end.returncode for end in ended] == [0, 0], [end.stderr for end in ended]
    assert ended[0].stdout == ended[1].stdout
    trials = json.loads(ended[0].stdout)["trials"]
    assert [trial["trial"] for trial in trials] == list(range(TRIALS))
    assert {trial["outcome"] for trial in trials} <= {"finished", "pruned", "diverged"}
    assert not (out / "failures").exists()
    with (out / "tuning/fedsam/trials.csv").open() as lines:
        assert [int(line["trial"]) for line in csv.DictReader(lines)] == list(range(TRIALS))


def test_ctrl_c_saves_and_the_same_command_goes_on(
    alone: tuple[Path, Tuned], tmp_path: Path, signals_heard: None
) -> None:
    file = written(tmp_path, **STUDY)
    process = begin_tuning(file)
    until(lambda: rows(tmp_path / "out") >= 4)
    os.killpg(process.pid, signal.SIGINT)
    end = process.end()
    assert end.returncode == 130
    assert "Go on with: flatfed study tune study.yaml fedsam --trials 9" in end.stderr
    assert "Traceback" not in end.stderr
    again = begin_tuning(file, "--json").end()
    assert json.loads(again.stdout) == alone[1].to_dict()


def test_more_trials_go_on_and_other_ranges_are_refused(tmp_path: Path) -> None:
    before = tuned_here(tmp_path, 2)
    after = tuned_here(tmp_path, 3)
    assert after.trials[:2] == before.trials
    assert len(after.trials) == 3
    with pytest.raises(ConfigError, match="began as something else"):
        tuned_here(tmp_path, 4, tune={"fedsam": {"rho": {"log": [0.1, 0.5]}}})
    with pytest.raises(ConfigError, match="rounds was 5 and is 6"):
        tuned_here(tmp_path, 4, rounds=6)


def test_half_a_line_of_a_journal_is_removed(tmp_path: Path) -> None:
    tuned_here(tmp_path, 1)
    with (tmp_path / "tuning/fedsam" / JOURNAL).open("ab") as journal:
        journal.write(b'{"op_code": 4, "wor')
    assert len(tuned_here(tmp_path, 2).trials) == 2


def test_who_only_reads_the_book_writes_nothing(tmp_path: Path) -> None:
    space = {"lr": {"log": (0.001, 1.0)}}
    book = TrialBook(tmp_path, space)
    with book.locked():
        book.propose(0)
    before = (tmp_path / JOURNAL).read_bytes()
    assert len(TrialBook(tmp_path, space).trials()) == 1
    assert (tmp_path / JOURNAL).read_bytes() == before


def test_a_trial_may_end_while_a_run_with_another_seed_has_just_begun(tmp_path: Path) -> None:
    running = RunningStudy(
        study_of(small(**STUDY | {"rounds": 2, "select": {"seeds": [1000, 1001]}})), tmp_path / "out"
    )
    tuner = Tuner(running, "fedavg", None, 1)
    running.enter()
    with tuner.book.locked():
        trial = tuner.book.propose(0)
    pruned, begun = tuner.cells_of(trial)
    play_cell(tuner.resolver, tuner.folder, pruned, lambda progress: None)
    tuner.folder.prune(pruned, "it promises less")
    tuner.folder.run_of(begun).mkdir()
    for name in ("config.json", "environment.json"):
        shutil.copy(tuner.folder.run_of(pruned) / name, tuner.folder.run_of(begun) / name)
    tuner.work(Unwatched())
    (ended,) = outcome_of(tuner).trials
    assert (ended.outcome, sorted(ended.scores)) == ("pruned", [0, 1])


def test_trials_are_no_runs_that_a_study_has_lost(tmp_path: Path) -> None:
    tuned_here(tmp_path / "out", 1, "fedavg", rounds=1)
    assert RunningStudy(study_of(small(**STUDY)), tmp_path / "out").enter() == []


def test_a_diverged_trial_is_a_result(tmp_path: Path) -> None:
    tune = {"fedavg": {"lr": {"choice": [0.1, 1e30]}}}
    tuned = tuned_here(tmp_path, 6, "fedavg", tune=tune)
    assert {trial.outcome for trial in tuned.trials} == {"finished", "diverged"}
    assert tuned.best is not None
    assert dict(tuned.best.point) == {"lr": 0.1}


def test_a_trial_that_fails_counts_once_and_the_others_go_on(tmp_path: Path) -> None:
    file = written(tmp_path, **STUDY | {"model": "nets:Raiser"})
    outcome = begin_tuning(file, "--json").end()
    assert outcome.returncode == 1
    trials = json.loads(outcome.stdout)["trials"]
    assert [trial["outcome"] for trial in trials] == ["failed"] * TRIALS
    assert "an error of the model's own" in trials[0]["reason"]


def test_held_out_examples_and_several_seeds_decide_by_the_rule_of_grids(tmp_path: Path) -> None:
    select = {"by": "validation", "seeds": [0, 1], "rounds": 3, "metric": "loss"}
    tuned = tuned_here(tmp_path, 2, "fedavg", select=select)
    assert tuned.metric is not None
    assert tuned.metric.column == "validation_loss"
    assert len(list(tmp_path.glob("tuning/fedavg/trial-*/seed-*/config.json"))) == 4
    best = tuned.best
    assert best is not None
    values = [tuned.value(trial) for trial in tuned.trials]
    assert tuned.value(best) == min(value for value in values if value is not None)
    with pytest.raises(ConfigError, match="seed 1 is reported too"):
        tuned_here(tmp_path / "other", select={"seeds": [1]})


def test_the_lines_can_be_pasted(tmp_path: Path) -> None:
    file = written(tmp_path, **STUDY)
    outcome = flatfed("study", "tune", file, "fedsam", "--trials", 1, "--out", tmp_path / "out", "--jobs", 1)
    assert outcome.code == 0, outcome.err
    lines = outcome.out.partition("lines for the study file:\n")[2]
    grid = yaml.safe_load(lines)["grid"]
    point = {name: values[0] for name, values in grid["fedsam"].items()}
    assert f"method: fedsam(rho={point['rho']})" in outcome.out
    study = study_of(small(**STUDY, grid=grid))
    assert study.points("fedsam") == [tuple(point.items())]
    with (tmp_path / "out/tuning/fedsam/trials.csv").open() as text:
        assert float(next(csv.DictReader(text))["lr"]) == point["lr"]


def test_what_a_grid_sets_stays_and_what_it_searches_is_refused(tmp_path: Path) -> None:
    tune = {"fedsam": {"rho": {"log": [0.01, 0.5]}}}
    tuned = tuned_here(tmp_path, 1, tune=tune, grid={"all": {"lr": [0.05]}})
    assert yaml.safe_load(tuned.lines)["grid"]["fedsam"]["lr"] == [0.05]
    config = json.loads((tmp_path / "tuning/fedsam/trial-0/seed-1000/config.json").read_text())
    assert config["settings"]["lr"] == 0.05
    with pytest.raises(ConfigError, match="lr of fedsam is searched by the grid"):
        tuned_here(tmp_path / "other", 1, tune=tune, grid={"all": {"lr": [0.05, 0.1]}})


def test_what_cannot_be_tuned_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"one class": {"alpha": 0}, "mild": {"alpha": 10}}
    file = written(tmp_path, **STUDY, settings=settings)

    def refused(*words: object) -> str:
        outcome = flatfed("study", "tune", file, *words, "--trials", 1, "--out", tmp_path / "out")
        assert outcome.code == 2
        assert "Traceback" not in outcome.err
        assert not (tmp_path / "out").exists()
        return outcome.err

    assert "--setting: one class, mild" in refused("fedsam")
    assert "mild" in refused("fedsam", "--setting", "mid")
    assert "fedsam" in refused("fedsan", "--setting", "mild")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "optuna", None)
        assert "pip install 'flatfed[tune]'" in refused("fedsam", "--setting", "mild")
    file = written(tmp_path, **STUDY | {"tune": {}})
    assert "no ranges are given for fedsam" in refused("fedsam")


@pytest.mark.parametrize(
    "range",
    [
        *({"log": (0, 1)}, {"log": (1, 0.1)}, {"uniform": (1,)}, {"whole": (1, 2.5)}, {"choice": (1,)}),
        *({"choice": (1, 1)}, {"uniform": ("a", "b")}, {}, {"log": (1, 2), "uniform": (1, 2)}, {"cosine": (1, 2)}),
    ],
)
def test_what_is_no_range(range: dict[str, Any]) -> None:
    assert fault_of_range(range)
    content = {kind: list(values) for kind, values in range.items()}
    with pytest.raises(StudyMistakes, match=r"tune\.fedavg\.lr"):
        study_of(small(tune={"fedavg": {"lr": content}}))


def test_values_have_few_digits_and_stay_in_their_range() -> None:
    assert tidy({"log": (0.01, 1)}, 0.0431234567) == 0.04312
    assert tidy({"uniform": (0.12344, 1)}, 0.12344) == 0.12344
    assert tidy({"whole": (1, 100000)}, 12345) == 12345


@pytest.mark.parametrize(
    ("spelling", "point", "expected"),
    [
        ("fedavg", {"lr": 0.1}, "fedavg"),
        ("fedsam", {"rho": 0.1, "lr": 1}, "fedsam(rho=0.1)"),
        ("feddyn+sam", {"client_opt.rho": 0.1}, "feddyn+sam(rho=0.1)"),
        ("fedgloss(admm=false)+sam", {"rho_server": 0.2}, "fedgloss(admm=false, rho_server=0.2)+sam"),
    ],
)
def test_a_method_is_spelled_with_its_parameters(spelling: str, point: dict[str, Any], expected: str) -> None:
    assert spelled_with(spelling, point) == expected
