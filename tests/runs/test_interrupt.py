"""Ctrl-C and SIGTERM: training stops where nothing is half-changed, says how to go on, and goes on to the same bits."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import flatfed as ff
import nursery
from engines.bench import PATIENCE, alive, bits, eventually, is_worker
from flatfed.engines.in_process import InProcessEngine
from flatfed.experiments.running.interruption import Interruption
from flatfed.experiments.tasks.recipe import TaskRecipe
from flatfed.runs.directory import RunDirectory
from flatfed.runs.history import History, read_rows
from runs.bench import POPULATION, ROUNDS, digest, small_model, small_run, small_task

pytestmark = pytest.mark.usefixtures("signals_heard")

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT]


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return digest(small_run(None))


def interrupt_after(round: int, number: int = signal.SIGINT, times: int = 1) -> Callable[[dict[str, Any]], None]:
    def on_round(row: dict[str, Any]) -> None:
        if row["round"] == round:
            for _ in range(times):
                signal.raise_signal(number)

    return on_round


@pytest.mark.parametrize(  # every pair of two of the three
    ("number", "workers", "every"),
    [(signal.SIGINT, 0, 1), (signal.SIGINT, 2, None), (signal.SIGTERM, 0, None), (signal.SIGTERM, 2, 1)],
)
def test_train_returns_the_run_or_raises_with_it_and_resumes_to_the_same_bits(
    number: int,
    workers: int,
    every: int | None,
    tmp_path: Path,
    expected: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Ctrl-C returns it; what asks a program to end goes through it."""
    path = tmp_path / "run"
    if number == signal.SIGINT:
        run = small_run(path, on_round=interrupt_after(1, number), workers=workers, checkpoint_every=every)
        said = capsys.readouterr().err
    else:
        with pytest.raises(ff.RunInterrupted) as caught:
            small_run(path, on_round=interrupt_after(1, number), workers=workers, checkpoint_every=every)
        run, said = caught.value.run, str(caught.value)
    done = len(run.history)
    assert done in ((2, 3) if workers and every is None else (2,)), "workers may have played the next round already"
    assert (run.status, [row["round"] for row in run.history]) == ("interrupted", list(range(done)))
    assert run.vector.isfinite().all()
    assert f"flatfed resume {path}" in said
    assert RunDirectory.open(path).status()["status"] == "interrupted"
    played: list[int] = []
    again = ff.resume(path, on_round=lambda row: played.append(row["round"]))
    assert played == list(range(done, 5)), "an interrupt must not cost a round that was complete"
    assert digest(again) == expected


def test_a_run_can_be_interrupted_after_every_single_round(tmp_path: Path, expected: dict[str, Any]) -> None:
    small_run(tmp_path / "run", on_round=interrupt_after(0))
    for round in range(1, ROUNDS - 1):
        run = ff.resume(tmp_path / "run", on_round=interrupt_after(round))
        assert (run.status, len(run.history)) == ("interrupted", round + 1)
    assert digest(ff.resume(tmp_path / "run")) == expected


def test_an_interrupt_after_the_last_round_is_heard_and_the_run_is_whole(expected: dict[str, Any]) -> None:
    with pytest.raises(ff.RunInterrupted, match="had come to its end") as caught:
        small_run(None, on_round=interrupt_after(ROUNDS - 1))
    assert caught.value.run.status == "finished"
    assert digest(caught.value.run) == expected


ENDS = [(RunDirectory, "release"), (History, "close"), (InProcessEngine, "close")]
"""What is called at the very end of a run, when its rows are written and its status is."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("owner", "name"), ENDS, ids=["room given back", "history closed", "engine closed"])
def test_an_interrupt_while_a_run_is_wound_up_is_heard(
    owner: type, name: str, number: int, tmp_path: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    played, function = [], getattr(owner, name)

    def signalling(self: Any) -> None:
        if len(played) == ROUNDS:
            signal.raise_signal(number)
        function(self)

    monkeypatch.setattr(owner, name, signalling)
    with pytest.raises(ff.RunInterrupted, match="had come to its end") as caught:
        small_run(tmp_path / "run", on_round=played.append)
    monkeypatch.undo()
    assert digest(caught.value.run) == expected
    assert RunDirectory.open(tmp_path / "run").status()["status"] == "finished"
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_an_interrupt_while_the_status_is_written_is_heard(
    tmp_path: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = RunDirectory.set_status

    def set_status(self: RunDirectory, status: str, *rest: Any) -> None:
        write(self, status, *rest)
        if status == "finished":
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(RunDirectory, "set_status", set_status)
    with pytest.raises(ff.RunInterrupted, match="had come to its end") as caught:
        small_run(tmp_path / "run")
    assert digest(caught.value.run) == expected


def test_an_interrupt_of_a_run_that_fails_is_heard_and_tells_the_error() -> None:
    def on_round(row: dict[str, Any]) -> None:
        signal.raise_signal(signal.SIGTERM)
        raise ValueError("no room for a row")

    with pytest.raises(KeyboardInterrupt, match="interrupted; before that: no room for a row") as caught:
        small_run(None, on_round=on_round)
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("place", range(len(SIGNALS)))
def test_an_interrupt_while_handlers_are_put_back_is_heard(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the handler of before hears it or the one that goes, it is an interrupt, and all handlers are back."""
    before = [signal.getsignal(number) for number in SIGNALS]
    change, calls = signal.signal, []

    def disturbed(number: int, handler: Any) -> Any:
        calls.append(number)
        if len(calls) == place + 1:
            signal.raise_signal(signal.SIGINT)
        return change(number, handler)

    with pytest.raises(KeyboardInterrupt), Interruption():
        monkeypatch.setattr(signal, "signal", disturbed)
    monkeypatch.undo()
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_an_interrupted_run_is_usable_and_without_a_directory_it_says_that_nothing_was_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = small_run(None, on_round=interrupt_after(1), average=None)
    assert "no run directory" in capsys.readouterr().err
    two = small_run(None, rounds=2, average=None)
    assert type(run) is ff.Run and run.status == "interrupted"
    assert torch.equal(run.vector, two.vector)
    assert run.summary["rounds"] == 2
    assert run.metrics()["test_loss"] == two.metrics()["test_loss"]
    assert run.model() is not None and run.client_state(0).keys() == two.client_state(0).keys()


def test_a_second_interrupt_stops_at_once_and_the_run_can_still_be_resumed(
    tmp_path: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flatfed.experiments.running.interruption.PATIENCE_SECONDS", -1.0)
    with pytest.raises(KeyboardInterrupt) as caught:
        small_run(tmp_path / "run", on_round=interrupt_after(1, times=2))
    assert not isinstance(caught.value, ff.RunInterrupted)
    assert digest(ff.resume(tmp_path / "run")) == expected


def test_an_impatient_double_press_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flatfed.experiments.running.interruption.PATIENCE_SECONDS", math.inf)
    assert small_run(tmp_path / "run", on_round=interrupt_after(1, times=3)).status == "interrupted"


def test_the_callers_handlers_come_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    small_run(None)
    assert [signal.getsignal(number) for number in SIGNALS] == before
    small_run(None, on_round=interrupt_after(0))
    assert [signal.getsignal(number) for number in SIGNALS] == before


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT])
def test_each_of_the_others_stops_training_too(number: int) -> None:
    with pytest.raises(ff.RunInterrupted):
        small_run(None, on_round=interrupt_after(1, number))


def test_a_handler_of_the_callers_own_and_a_hangup_that_is_ignored_stay(expected: dict[str, Any]) -> None:
    heard: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def on_round(row: dict[str, Any]) -> None:
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGHUP)

    assert digest(small_run(None, on_round=on_round)) == expected
    assert heard == [signal.SIGUSR1] * ROUNDS


def test_hangups_and_a_schedulers_signals_never_insist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that is closed may send several, and a scheduler sends one after the other: each means the same."""
    monkeypatch.setattr("flatfed.experiments.running.interruption.PATIENCE_SECONDS", -1.0)
    with pytest.raises(ff.RunInterrupted):
        small_run(tmp_path / "run", on_round=interrupt_after(1, signal.SIGHUP, times=3))


def test_training_works_outside_the_main_thread(expected: dict[str, Any]) -> None:
    actual: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: actual.append(digest(small_run(None))))
    thread.start()
    thread.join()
    assert actual == [expected]


class InterruptingModel(nn.Module):
    """A model that, once, interrupts the parent of its worker: while it learns, or while it is tested."""

    def __init__(self, marker: Path, in_training: bool) -> None:
        super().__init__()
        self.inner, self.marker, self.in_training = small_model(), marker, in_training

    def forward(self, x: Tensor) -> Tensor:
        if is_worker() and self.training == self.in_training and self.marker.exists():
            self.marker.unlink()
            os.kill(os.getppid(), signal.SIGINT)
        result: Tensor = self.inner(x)
        return result


@pytest.mark.parametrize("in_training", [True, False], ids=["in a client", "in an evaluation"])
def test_an_interrupt_in_the_middle_of_a_round_loses_no_row_and_no_bit(in_training: bool, tmp_path: Path) -> None:
    marker, generator = tmp_path / "marker", torch.Generator().manual_seed(0)
    # Two chunks of 512: after the first answer the parent looks up and stops before the second.
    test = (torch.randn(600, 4, generator=generator), torch.arange(600) % 3)
    task = small_task(model=InterruptingModel(marker, in_training), test=test)
    expected = bits(small_run(None, task), POPULATION)

    def on_round(row: dict[str, Any]) -> None:
        if row["round"] == 1:
            marker.touch()

    assert small_run(tmp_path / "run", task, workers=1, on_round=on_round).status == "interrupted"
    assert not marker.exists()
    run = ff.resume(tmp_path / "run")
    assert [row["round"] for row in run.history] == list(range(ROUNDS))
    assert bits(run, POPULATION) == expected


# The command line.

ARGUMENTS = ["digits", "scaffold+asam+swa", "--rounds", "40", "--clients", "12", "--per-round", "3", "--seed", "4"]
ARGUMENTS += ["--evaluate-last", "2", "--workers", "2"]


def command(*arguments: str, cwd: Path) -> nursery.Fresh:
    """Start `flatfed` in a process group of its own, as a terminal would."""
    return nursery.start("-c", "from flatfed.cli.main import main; main()", *arguments, cwd=cwd)


def interrupted(child: nursery.Fresh, history: Path, rows: int, number: int) -> str:
    """Send a signal to the whole group once the history has this many rows; return what was said."""
    try:
        eventually(lambda: len(read_rows(history)) >= rows or not alive(child.pid), f"{rows} rows of history")
    finally:
        os.killpg(child.pid, number)
        ended = child.end(PATIENCE)
    assert ended.returncode == 130, ended.stderr
    return ended.stderr


def test_a_command_that_is_stopped_twice_and_resumed_comes_to_the_same_bits(tmp_path: Path) -> None:
    """Interrupted, resumed, terminated, resumed; each stop says how to go on."""
    path, history = tmp_path / "run", tmp_path / "run/history.jsonl"
    said = [interrupted(command("run", *ARGUMENTS, "--out", str(path), cwd=tmp_path), history, 3, signal.SIGINT)]
    done = len(read_rows(history))
    assert 3 <= done < 40
    assert RunDirectory.open(path).status()["status"] == "interrupted"
    said.append(interrupted(command("resume", str(path), cwd=tmp_path), history, done + 3, signal.SIGTERM))
    assert done + 3 <= len(read_rows(history)) < 40
    last = command("resume", str(path), cwd=tmp_path).end(PATIENCE)
    assert last.returncode == 0, last.stdout + last.stderr

    task = TaskRecipe("digits", clients=12, partition={"id": "dirichlet"}, seed=4).build()
    settings: dict[str, Any] = {"rounds": 40, "sampling": 3, "lr": 0.1, "evaluate_last": 2, "seed": 4, "workers": 2}
    algorithm = ff.make("scaffold", client_opt=ff.ASAM())
    undisturbed = ff.train(task, algorithm, average=ff.SWA(), **settings)
    assert digest(ff.resume(path), 12) == digest(undisturbed, 12)
    for text in said:
        assert "Traceback" not in text
        assert f"flatfed resume {path}" in text
