"""Checkpoints of named rounds: written exactly then, never forgotten, with and without workers."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from engines.bench import assert_same, bits
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.running.run import Run, restored
from flatfed.named_code import USER
from flatfed.runs.directory import RunDirectory
from runs.bench import POPULATION, litter, small_run, small_task

ROUNDS = 9


def kept_run(out: Path | None, **changes: Any) -> ff.Run:
    """Nine rounds that are saved at the end only, but for what is asked for."""
    return small_run(out, **{"rounds": ROUNDS, "average": None, "checkpoint_every": None, **changes})


def rounds_in(path: Path) -> list[int]:
    return sorted(RunDirectory.open(path).checkpoints.rounds())


def state_after(path: Path, round: int) -> dict[str, Any]:
    """All that the checkpoint of a round holds."""
    _, federation = restored(RunDirectory.open(path), small_task(), round=round)
    federation.status = "finished"
    return bits(Run(federation, [], None), POPULATION) | {"round": federation.round}


def state_of(run: ff.Run) -> dict[str, Any]:
    return bits(run, POPULATION) | {"history": [], "round": len(run.history)}


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("workers", [0, 2])
def test_named_rounds_are_written_exactly_then_and_stay(workers: int, every: int, tmp_path: Path) -> None:
    """Whether or not the round is evaluated, whose row would otherwise come a round later."""
    out = tmp_path / "run"
    kept_run(out, keep_checkpoints=(2, 3, 5), evaluate_every=every, evaluate_last=1, workers=workers)
    assert rounds_in(out) == [2, 3, 5, ROUNDS - 1, ROUNDS]
    assert json.loads((out / "config.json").read_text())["keep_checkpoints"] == [2, 3, 5]
    for round in (2, 3, 5):
        assert_same(state_after(out, round), state_of(kept_run(None, rounds=round)))
    assert litter(out) == []


@pytest.mark.parametrize("workers", [0, 2])
def test_the_state_before_the_last_round_is_always_saved(workers: int, tmp_path: Path) -> None:
    """Measurements of the last round's local models begin there."""
    kept_run(tmp_path / "run", evaluate_every=1, workers=workers)
    assert rounds_in(tmp_path / "run") == [ROUNDS - 1, ROUNDS]
    assert_same(state_after(tmp_path / "run", ROUNDS - 1), state_of(kept_run(None, rounds=ROUNDS - 1)))


@pytest.mark.parametrize("workers", [0, 2])
def test_kept_ones_stay_besides_the_last_two(workers: int, tmp_path: Path) -> None:
    kept_run(tmp_path / "run", keep_checkpoints=[4, 0, 1, 4], checkpoint_every=1, workers=workers)
    assert rounds_in(tmp_path / "run") == [0, 1, 4, ROUNDS - 1, ROUNDS]
    assert_same(state_after(tmp_path / "run", 4), state_of(kept_run(None, rounds=4)))


def test_keeping_changes_no_bit(tmp_path: Path) -> None:
    plain = bits(kept_run(None), POPULATION)
    assert_same(bits(kept_run(tmp_path / "run", keep_checkpoints=(2, 7), workers=2), POPULATION), plain)


@pytest.mark.parametrize("stop", [1, 4, 6])
def test_a_resumed_run_keeps_them_too(stop: int, tmp_path: Path) -> None:
    def press(row: dict[str, Any]) -> None:
        if row["round"] == stop:
            signal.raise_signal(signal.SIGINT)

    stopped = kept_run(tmp_path / "run", keep_checkpoints=(3, 6), on_round=press, workers=2)
    assert stopped.status == "interrupted"
    ff.resume(tmp_path / "run", task=small_task())
    assert {3, 6, ROUNDS} <= set(rounds_in(tmp_path / "run"))
    assert_same(state_after(tmp_path / "run", 6), state_of(kept_run(None, rounds=6)))


def test_a_longer_run_keeps_what_it_had(tmp_path: Path) -> None:
    kept_run(tmp_path / "run", keep_checkpoints=(3, ROUNDS), checkpoint_every=1)
    ff.resume(tmp_path / "run", rounds=ROUNDS + 4)
    assert rounds_in(tmp_path / "run") == [3, ROUNDS, ROUNDS + 3, ROUNDS + 4]


@pytest.mark.parametrize("evaluated", [1, 2, 5])
@pytest.mark.parametrize("workers", [0, 2])
def test_every_n_rounds_are_saved_with_workers_too(workers: int, evaluated: int, tmp_path: Path) -> None:
    """Only two are there at the end, so they are looked at after every round."""
    multiples = (0, 2, 4, 6, 8)
    changes = {"every": evaluated, "evaluate_last": 1, "workers": workers, "checkpoint_every": 2}
    saved: set[int] = set()
    out = tmp_path / "run"

    def look(row: dict[str, Any]) -> None:
        saved.update(rounds_in(out))

    kept_run(out, on_round=look, **changes)
    saved.update(rounds_in(out))
    assert saved == {*multiples, ROUNDS}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"keep_checkpoints": (3, 10)}, "^keep_checkpoints: 10 is beyond the 9 rounds"),
        ({"keep_checkpoints": (-1,)}, "keep_checkpoints: a round must be at least 0"),
        ({"keep_checkpoints": (1.5,)}, "keep_checkpoints: a round must be a whole number"),
        ({"keep_checkpoints": 4}, r"keep_checkpoints must be a list of rounds such as \(400, 800\), not 4"),
        ({"keep_checkpoints": "4,5"}, "keep_checkpoints must be a list of rounds"),
        ({"checkpoint_every": 0}, "checkpoint_every must be at least 1"),
    ],
)
def test_rounds_that_there_are_not_are_refused(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(ff.ConfigError, match=reason):
        kept_run(tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_runs_without_the_entry_are_read(tmp_path: Path) -> None:
    kept_run(tmp_path / "run")
    config = RunDirectory.open(tmp_path / "run").config
    del config["keep_checkpoints"]
    assert Plan.from_config(config, small_task(), None, USER).keep_checkpoints == ()


def test_flatness_of_a_kept_checkpoint_is_measured(tmp_path: Path) -> None:
    kept_run(tmp_path / "run", keep_checkpoints=(4,))
    with ff.laboratory(tmp_path / "run" / "checkpoints" / "round-000004", task=small_task(), workers=0) as lab:
        early = lab.measure("parameter_norm")
    with ff.laboratory(tmp_path / "run", task=small_task(), workers=0) as lab:
        late = lab.measure("parameter_norm")
    assert str(early) != str(late)
