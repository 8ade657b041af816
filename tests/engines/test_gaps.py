"""Workers without a client go on with what can be done meanwhile: the evaluation of the round before."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import flatfed as ff
from engines.bench import eventually, wait_for_workers
from engines.table import rows_of
from flatfed.core.configuration.settings import Settings
from flatfed.core.evaluation.evaluator import Evaluator
from flatfed.core.method.engine import Job
from flatfed.core.method.messages import Message
from flatfed.core.method.state import State
from flatfed.core.round.federation import TIMES
from flatfed.runs.directory import RunDirectory

ITEMS = 6


def marked(evaluator: Evaluator, given: Mapping[str, Tensor], directory: str, number: int) -> dict[str, Tensor]:
    """Leave a mark, then add."""
    (Path(directory) / f"{number}").touch()
    return {"sum": given["x"].sum() + number}


def deadly_once(evaluator: Evaluator, given: Mapping[str, Tensor], directory: str, number: int) -> dict[str, Tensor]:
    mark = Path(directory) / f"{number}"
    if number == 0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"sum": given["x"].sum() + number}


def deadly(evaluator: Evaluator, given: Mapping[str, Tensor], directory: str, number: int) -> dict[str, Tensor]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def faulty(evaluator: Evaluator, given: Mapping[str, Tensor], directory: str, number: int) -> dict[str, Tensor]:
    raise ValueError("no such number")


def task(clients: int = 3) -> ff.Task:
    generator = torch.Generator().manual_seed(0)
    data = [(torch.randn(20, 4, generator=generator), torch.arange(20) % 2) for _ in range(clients)]
    torch.manual_seed(0)
    return ff.Task(torch.nn.Linear(4, 2), data, test=data[0], test_batch=4)


@pytest.fixture(scope="module", params=rows_of(needs="has_gaps", without="starts_slowly"))
def shared(request: pytest.FixtureRequest) -> Iterator[Any]:
    """One for all tests, some of which kill its workers: starting one may take seconds."""
    settings = Settings(rounds=1, lr=0.1, vectorised=False)
    made = request.param.config(2).start(task(), ff.make("fedavg"), settings)
    yield made
    made.close()


@pytest.fixture
def engine(shared: Any) -> Any:
    wait_for_workers(shared, 2)
    return shared


def one_client(engine: Any) -> list[Any]:
    """An exchange with one client leaves one of two workers without work."""
    message = Message.of({"w": torch.zeros(10)}, {})
    return list(engine.exchange(message, [Job(0, 0, 0, 0.1, State({}))]))


def begin(engine: Any, piece: Any, directory: Path) -> Iterator[tuple[int, dict[str, Tensor]]]:
    return engine.compute(piece, {"x": torch.ones(3)}, [(str(directory), number) for number in range(ITEMS)])


SUMS = {number: 3.0 + number for number in range(ITEMS)}


def sums(results: Iterator[tuple[int, dict[str, Tensor]]]) -> dict[int, float]:
    return {number: float(found["sum"]) for number, found in results}


def test_a_computation_goes_on_while_a_client_is_trained(engine: Any, tmp_path: Path) -> None:
    results = begin(engine, marked, tmp_path)
    assert not list(tmp_path.iterdir())
    assert len(one_client(engine)) == 1
    # Nobody asks for the results yet: only in the gap can it have been given work.
    eventually(lambda: list(tmp_path.iterdir()), "the idle worker does something")
    assert sums(results) == SUMS


def test_given_tensors_are_those_of_the_beginning(engine: Any, tmp_path: Path) -> None:
    x = torch.ones(3)
    results = engine.compute(marked, {"x": x}, [(str(tmp_path), 0)])
    x.zero_()
    one_client(engine)
    assert sums(results) == {0: 3.0}


def test_several_computations_may_be_open_and_are_taken_in_any_order(engine: Any, tmp_path: Path) -> None:
    first, second = begin(engine, marked, tmp_path), begin(engine, marked, tmp_path)
    one_client(engine)
    assert sums(second) == SUMS
    assert sums(first) == SUMS
    assert sums(begin(engine, marked, tmp_path)) == SUMS


def test_a_worker_that_dies_in_a_gap_is_replaced(engine: Any, tmp_path: Path) -> None:
    results = begin(engine, deadly_once, tmp_path)
    assert len(one_client(engine)) == 1
    assert sums(results) == SUMS


def test_work_that_fails_is_named(engine: Any, tmp_path: Path) -> None:
    check_impossible(faulty, "faulty of .*ValueError: no such number", engine, tmp_path)


def test_work_that_kills_its_workers_is_named(engine: Any, tmp_path: Path) -> None:
    check_impossible(deadly, "deadly of .* 3 times", engine, tmp_path)


def check_impossible(piece: Any, message: str, engine: Any, tmp_path: Path) -> None:
    """The clients' replies come all the same; the error comes when the results are asked for."""
    results = begin(engine, piece, tmp_path)
    for _ in range(5):
        assert len(one_client(engine)) == 1
    with pytest.raises(ff.EngineError, match=message):
        list(results)
    assert len(one_client(engine)) == 1
    assert sums(begin(engine, marked, tmp_path)) == SUMS


def test_an_abandoned_exchange_leaves_what_was_begun_in_a_gap_to_do(engine: Any, tmp_path: Path) -> None:
    results = begin(engine, marked, tmp_path)
    message, jobs = Message.of({"w": torch.zeros(10)}, {}), [Job(k, 0, 0, 0.1, State({})) for k in range(3)]
    exchange = engine.exchange(message, jobs)
    next(exchange)
    exchange.close()
    assert sums(results) == SUMS


SETTINGS: dict[str, Any] = {"rounds": 6, "sampling": 1, "lr": 0.1, "evaluate_every": 1, "vectorised": False}


def rows(run: ff.Run) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in TIMES} for row in run.history]


@pytest.mark.parametrize("checkpoint_every", [None, 1, 2, 3])
def test_rows_are_whole_in_order_and_the_same(checkpoint_every: int | None, tmp_path: Path) -> None:
    plain = ff.train(task(), ff.make("fedavg"), workers=0, **SETTINGS)
    told: list[int] = []
    run = ff.train(
        task(),
        ff.make("fedavg"),
        workers=2,
        out=tmp_path / "run",
        checkpoint_every=checkpoint_every,
        on_round=lambda row: told.append(row["round"]) if "test_loss" in row else None,
        **SETTINGS,
    )
    assert told == list(range(6))
    assert rows(run) == rows(plain)
    assert RunDirectory.open(tmp_path / "run").checkpoints.rounds()[0] == 6


@pytest.mark.usefixtures("signals_heard")
@pytest.mark.parametrize("stop", [0, 2, 3, 5])
def test_a_run_that_is_stopped_anywhere_keeps_whole_rows_and_goes_on(stop: int, tmp_path: Path) -> None:
    """The interrupt key is pressed when a row is told: a round that was played and waits must not be lost."""
    plain = ff.train(task(), ff.make("fedavg"), workers=0, **SETTINGS)

    def press(row: dict[str, Any]) -> None:
        if row["round"] == stop:
            os.kill(os.getpid(), signal.SIGINT)

    if stop == 5:  # it has come to its end: what comes after it must not go on either
        with pytest.raises(ff.RunInterrupted):
            ff.train(task(), ff.make("fedavg"), workers=2, out=tmp_path / "run", on_round=press, **SETTINGS)
    else:
        ff.train(task(), ff.make("fedavg"), workers=2, out=tmp_path / "run", on_round=press, **SETTINGS)
    directory = RunDirectory.open(tmp_path / "run")
    kept = directory.rows
    assert all("test_loss" in row for row in kept)
    assert directory.checkpoints.rounds()[0] == len(kept) > stop
    assert rows(ff.resume(tmp_path / "run")) == rows(plain)
