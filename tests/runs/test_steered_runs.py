"""Runs that their own history ends, whose best model it says, and whose rate it lowers: exact, and resumed so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

import flatfed as ff
from engines.bench import assert_same, bits
from flatfed.experiments.running.past import past_of
from flatfed.experiments.running.run import restored
from flatfed.runs.directory import RunDirectory

POPULATION = 5


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(outputs, targets)


def task(**changes: Any) -> ff.Task:
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(60, 4, generator=generator), torch.arange(60) % 3
    model = torch.nn.Linear(4, 3)
    with torch.no_grad():
        model.weight.copy_(torch.randn(3, 4, generator=generator))
        model.bias.zero_()
    clients = [(x[k::POPULATION], y[k::POPULATION]) for k in range(POPULATION)]
    return ff.Task(model, clients, (x, y), **changes)


RULES: dict[str, Any] = {"keep_best": True, "lr_plateau": "factor=0.5, patience=2", "patience": 6, "min_delta": 0.01}
HOW: dict[str, Any] = {"rounds": 40, "lr": 3.0, "sampling": 2, "evaluate_every": 1, "validation": 0.25}


def steered(out: Path | None = None, **changes: Any) -> ff.Run:
    given = {"workers": 0, "out": out} | HOW | RULES | changes
    if given["patience"] is None:
        del given["min_delta"]  # which is patience's
    return ff.train(task(), "feddyn", **given)


@pytest.fixture(scope="module")
def plain() -> ff.Run:
    """The run that nobody disturbs."""
    return steered()


def test_the_example_is_one_in_which_everything_happens(plain: ff.Run) -> None:
    losses = [row["validation_loss"] for row in plain.history]
    assert plain.status == "finished" and 8 <= len(losses) < 30
    assert f"ended early, after round {len(losses)} of 40" in plain.reason
    assert "test" not in plain.reason
    rates = [row["lr"] for row in plain.history]
    assert len(set(rates)) > 2 and rates == sorted(rates, reverse=True)
    assert plain.best is not None
    assert plain.best.value == min(losses) == losses[plain.best.round - 1]
    assert 1 < plain.best.round < len(losses)
    assert plain.summary["accuracy_last_mean"] is not None


def same(run: ff.Run, expected: ff.Run) -> None:
    assert (run.status, run.reason) == (expected.status, expected.reason)
    assert_same(bits(run, POPULATION), bits(expected, POPULATION))
    assert run.best is not None and expected.best is not None
    assert (run.best.round, run.best.value) == (expected.best.round, expected.best.value)
    assert torch.equal(run.best.vector, expected.best.vector)


def test_workers_decide_nothing(plain: ff.Run) -> None:
    same(steered(workers=2), plain)


class Crash(Exception):
    """A process that dies."""


@pytest.mark.parametrize("every", [1, 3])
def test_a_run_that_crashes_again_and_again_ends_in_the_same_round(every: int, plain: ff.Run, tmp_path: Path) -> None:
    path, crashes = tmp_path / "run", iter([2, 4, 5, 7, len(plain.history) - 1])

    def crash_after(round: int | None) -> Iterator[None]:
        def on_round(row: dict[str, Any]) -> None:
            if row["round"] == round:
                raise Crash

        with suppress(Crash):
            if path.exists():
                ff.resume(path, on_round=on_round)
            else:
                steered(path, on_round=on_round, checkpoint_every=every)
        yield

    for round in crashes:
        next(crash_after(round))
    same(ff.resume(path), plain)
    same(ff.load_run(path), plain)
    same(ff.resume(path), plain)  # there is nothing left to do


def test_more_rounds_go_past_the_end_as_if_there_had_been_none(plain: ff.Run, tmp_path: Path) -> None:
    steered(tmp_path / "run")
    longer = ff.resume(tmp_path / "run", rounds=40)
    assert (longer.status, longer.reason, len(longer.history)) == ("finished", "", 40)
    same(longer, steered(patience=None))
    assert len(ff.load_run(tmp_path / "run").history) == 40


def test_the_best_model_is_a_checkpoint_that_stays(plain: ff.Run, tmp_path: Path) -> None:
    path, best = tmp_path / "run", plain.best
    assert best is not None
    steered(path)
    assert best.round in RunDirectory.open(path).checkpoints.rounds()
    then = ff.load_run(path, best=True)
    assert then.round == best.round
    assert torch.equal(then.eval_vector, best.vector)
    assert then.metrics()["validation_loss"] == best.value
    with ff.laboratory(path / "checkpoints" / "best", data="validation") as lab:
        assert lab.surface.loss() == pytest.approx(best.value, rel=1e-6)
    file = path / "checkpoints" / f"round-{best.round:06d}" / "server.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    with pytest.raises(ff.CheckpointError, match="damaged"):
        ff.load_run(path, best=True)


def test_a_run_that_keeps_none_says_how_to_keep_it(tmp_path: Path) -> None:
    run = steered(tmp_path / "run", rounds=2, keep_best=False)
    assert run.best is None
    with pytest.raises(ff.ConfigError, match="keeps no best model; train with keep_best"):
        ff.load_run(tmp_path / "run", best=True)


def test_what_was_before_the_last_round_is_played_again_with_its_rates(tmp_path: Path) -> None:
    """A run that ends early has no checkpoint just before its last round."""
    path = tmp_path / "run"
    run = steered(path, keep_best=False)
    last = len(run.history)
    assert RunDirectory.open(path).checkpoints.rounds() == [last, 0]
    plan, federation = restored(RunDirectory.open(path))
    before = past_of(RunDirectory.open(path), plan, last, lambda text: None, federation.engine)
    expected = steered(keep_best=False, patience=None, stop_when=f"lr>100, update_norm<{-1}")
    assert before.federation.round == last - 1
    assert before.federation.server.lr == run.history[-1]["lr"] < 3.0
    assert expected.history[last - 1]["update_norm"] == pytest.approx(
        float((run.vector - run._layout.to_public(before.federation.server.w)).norm()), rel=1e-5
    )


def test_the_last_model_is_evaluated_also_where_the_round_is_not(tmp_path: Path) -> None:
    run = steered(
        patience=None, keep_best=False, lr_plateau=None, evaluate_every=40, evaluate_last=0, stop_when="train_loss<9"
    )
    assert len(run.history) == 1 and "validation_loss" in run.history[0] and "train_loss<9.0 was met" in run.reason


def test_the_last_model_is_evaluated_also_where_patience_ends_in_between() -> None:
    rare: dict[str, Any] = {"evaluate_every": 40, "evaluate_last": 0, "keep_best": False, "lr_plateau": None}
    run = steered(patience=2, monitor="train_loss:max", stop_when=None, **rare)
    assert run.reason and 2 < len(run.history) < 40
    assert ["validation_loss" in row for row in run.history] == [False] * (len(run.history) - 1) + [True]


def test_a_column_may_say_which_way_is_better() -> None:
    run = steered(monitor="validation_loss:max", patience=None, lr_plateau=None, rounds=4)
    assert run.best is not None and run.best.value == max(row["validation_loss"] for row in run.history)


def test_a_test_column_is_taken_only_by_name_and_says_what_it_does() -> None:
    with pytest.raises(ff.ConfigError, match="patience needs something to go by that is no test"):
        steered(validation=None)
    with pytest.warns(UserWarning, match="patience goes by test_loss: this selects on test data"):
        run = steered(validation=None, monitor="test_loss", keep_best=False, lr_plateau=None)
    assert run.reason.endswith("this selects on test data")


def test_a_task_that_no_file_describes_is_held_out_again(plain: ff.Run, tmp_path: Path) -> None:
    made = task(loss=lambda outputs, targets: loss(outputs, targets))

    def crash(row: dict[str, Any]) -> None:
        if row["round"] == 3:
            raise Crash

    how = {"workers": 0, "checkpoint_every": 1} | HOW | RULES
    with pytest.raises(Crash):
        ff.train(made, "feddyn", out=tmp_path / "run", on_round=crash, **how)
    again = task(loss=made.loss)
    same(ff.resume(tmp_path / "run", task=again), plain)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["validation"] == {
        "share": 0.25,
        "split": "client",
    }


def test_rules_that_decide_nothing_change_no_bit() -> None:
    given = {"patience": None, "keep_best": False, "lr_plateau": None, "rounds": 6}
    expected = bits(steered(**given), POPULATION)
    assert_same(bits(steered(**given, stop_when="validation_loss<0", workers=2), POPULATION), expected)
    assert_same(bits(steered(**given | {"keep_best": True}), POPULATION), expected)


RARE: dict[str, Any] = {"rounds": 30, "evaluate_every": 4, "evaluate_last": 1, "patience": None, "keep_best": False}


@pytest.fixture(scope="module")
def rarely_evaluated() -> ff.Run:
    """A run whose rate is lowered by evaluations that are some rounds apart."""
    return steered(**RARE)


@pytest.mark.parametrize(
    "ended", [{"rounds": 10}, {"stop_when": "update_norm<0.8"}, {"patience": 3, "monitor": "train_loss"}]
)
def test_the_evaluation_that_a_run_had_ended_with_lowers_no_rate(
    ended: dict[str, Any], rarely_evaluated: ff.Run, tmp_path: Path
) -> None:
    by_evaluations = {"lr_plateau": "factor=0.5, patience=2, monitor=validation_loss"}
    short = steered(tmp_path / "run", **RARE | by_evaluations | ended)
    last = len(short.history)
    assert last % 4 != 0 and last < 24 and "validation_loss" in short.history[-1]

    def crash(row: dict[str, Any]) -> None:
        if row["round"] == 25:
            raise Crash

    with pytest.raises(Crash):
        ff.resume(tmp_path / "run", rounds=30, on_round=crash)
    longer = ff.resume(tmp_path / "run")
    assert [row["lr"] for row in longer.history] == [row["lr"] for row in rarely_evaluated.history]
    assert torch.equal(longer.vector, rarely_evaluated.vector)
    assert RunDirectory.open(tmp_path / "run").config["seams"] == [last - 1]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"monitor": "train_loss"}, "monitor is what patience, the best model that is kept or a plateau"),
        ({"min_delta": 0.1, "keep_best": True}, "min_delta has no effect without patience"),
        ({"validation": None, "validation_split": "global"}, "validation_split says how a share for validation"),
        ({"validation": (torch.zeros(3, 4), torch.arange(3)), "validation_split": "global"}, "validation_split says"),
    ],
)
def test_what_would_have_no_effect_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ff.ConfigError, match=words):
        ff.train(task(), "feddyn", workers=0, **HOW | given)


def test_what_has_no_effect_is_refused_by_names_too(tmp_path: Path) -> None:
    with pytest.raises(ff.ConfigError, match="validation_split says how a share for validation is held out"):
        ff.task("digits", clients=5, validation_split="global")
    with pytest.raises(ff.ConfigError, match="min_delta has no effect without patience"):
        ff.compare("digits", ["fedavg"], tmp_path / "c", clients=5, rounds=1, min_delta=0.1)
    assert list(tmp_path.iterdir()) == []
