"""What a check says of a study: by CPU time, with what measuring takes, and what is left out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from cli.command import Outcome, flatfed
from flatfed.studies.cells import Resolver
from flatfed.studies.checking.check_study import check_study
from flatfed.studies.checking.timed_cells import TimedCells
from flatfed.studies.checking.timing import timed
from flatfed.studies.reading import study_of
from studies.bench import small, written


def check(folder: Path, *options: object, **changes: Any) -> Outcome:
    return flatfed("study", "check", written(folder, **changes), "--jobs", 1, *options)


def test_waiting_is_no_work() -> None:
    begun = time.monotonic()
    result, seconds = timed(lambda: (time.sleep(0.2), "done")[1])
    assert result == "done"
    assert 0 <= seconds < time.monotonic() - begun


def test_measurements_are_counted_and_figures_are_said_to_be_left_out(tmp_path: Path) -> None:
    report = {
        "flatness": "lambda_max(most=3), discrepancy",
        "figures": {"around": {"draw": "landscape"}, "eigenvalues": {"draw": "flatness", "measure": "spectrum(k=2)"}},
    }
    found = check(tmp_path, "--json", report=report, watch="client_lambda(most=2):1").json
    assert 0 < found["measuring"] < found["seconds"]
    assert found["not_included"] == ["the figure around"]
    plain = check(tmp_path, "--json").json
    assert (plain["measuring"], plain["not_included"]) == (0, [])
    told = check(tmp_path, report=report)
    assert "of it to measure: by CPU time" in told.out
    assert "not included: the figure around" in told.out


def test_what_cannot_be_tried_is_said(tmp_path: Path) -> None:
    # Without a radius of its own, FedAvg has no such discrepancy.
    found = check(tmp_path, "--json", report={"flatness": "discrepancy(own_rho=true)"}).json
    assert (found["not_included"], found["mistakes"]) == (["discrepancy"], [])


def test_cells_of_which_rounds_take_the_same_time_are_timed_once() -> None:
    known = TimedCells()
    settings = {"a": {"alpha": 0.1}, "b": {"alpha": 10, "lr": 0.5, "rounds": 6}}
    study = study_of(small(methods={"x": "fedsam", "y": "fedsam(rho=0.3)"}, settings=settings))
    first = check_study(Resolver(study), 1, known=known)
    assert len(known._times) == 1
    again = check_study(Resolver(study), 1, known=known)
    assert first.mistakes == again.mistakes == []
    assert first.exchanged == again.exchanged
    check_study(Resolver(study_of(small(methods=["fedavg"], batch_size=32))), 1, known=known)
    assert len(known._times) == 2


def test_the_longest_cell_is_the_least_that_it_takes() -> None:
    known = TimedCells()
    study = study_of(small(seeds=[0, 1]))
    alone, many = (check_study(Resolver(study), jobs, known=known) for jobs in (1, 1000))
    assert alone.seconds / 1000 < many.seconds < alone.seconds


def test_a_metric_that_no_run_has_is_a_mistake_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    text = "dataset: digits\nrounds: 1\nclients: 5\nmodel: logreg\nmethods: [fedavg]\nreport:\n"
    file.write_text(f"{text}  metrics: accuracy, test_los\n")
    outcome = flatfed("study", "check", file)
    assert outcome.code == 2
    assert "line 7: unknown metric 'test_los'; did you mean 'test_loss'" in outcome.err
