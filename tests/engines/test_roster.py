"""A server without examples: it knows who there is and how many examples each holds, and asks for no more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

import flatfed as ff
from engines.bench import assert_same, bits, tensors_task
from flatfed.core.configuration.settings import Settings
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.engine import Engine
from flatfed.core.round.trainer import Pulse, no_pulse
from flatfed.engines.in_process import InProcessEngine
from flatfed.engines.processes.pool import ProcessEngine

CLIENTS = 4
SETTINGS: dict[str, Any] = {"rounds": 3, "sampling": 3, "lr": 0.1, "batch_size": 3}


def whole_task(local: str = "") -> ff.Task:
    """What the sites hold."""
    task = tensors_task(clients=CLIENTS)
    if local:
        model = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, CLIENTS))
        task = replace(task, model=model, local=local)
    # Unequal numbers of examples: means are weighted by them.
    sizes = [6, 5, 3, 5]
    data: list[Any] = [task.examples(client) for client in range(CLIENTS)]
    clients = [(one.inputs[:size], one.targets[:size]) for one, size in zip(data, sizes, strict=True)]
    return replace(task, clients=clients)


def server_task(task: ff.Task) -> ff.Task:
    """What the server knows of it."""
    return replace(task, clients=ff.Roster([task.samples(client) for client in range(task.population)]))


class AtTheSites(ff.EngineConfig):
    """An engine that has the examples."""

    has_examples: ClassVar[bool] = True

    whole: ff.Task
    workers: int = 0

    def start(self, task: ff.Task, algorithm: Algorithm, settings: Settings, pulse: Pulse = no_pulse) -> Engine:
        if self.workers:
            return ProcessEngine(self.whole, algorithm, settings, self.workers, pulse)
        return InProcessEngine(self.whole, algorithm, settings, pulse)


def at_the_sites(whole: ff.Task, method: str = "fedavg", **changes: Any) -> ff.Run:
    return ff.train(server_task(whole), method, engine=AtTheSites(whole), **SETTINGS | changes)


@pytest.mark.parametrize("local", ["", "bn", "bn-stats"])
@pytest.mark.parametrize("method", ["scaffold+sam+swa", "fednova", "mime", "fedwmsam"])
def test_a_server_without_examples_ends_with_the_same_bits(method: str, local: str) -> None:
    whole = whole_task(local)
    expected = ff.train(whole, method, workers=0, **SETTINGS)
    assert_same(bits(at_the_sites(whole, method), CLIENTS), bits(expected, CLIENTS))


def test_a_run_on_a_roster_is_recorded_and_resumed(tmp_path: Path) -> None:
    whole = whole_task()
    expected = ff.train(whole, "scaffold", workers=0, **SETTINGS)
    at_the_sites(whole, "scaffold", rounds=2, out=tmp_path / "run")
    run = ff.resume(tmp_path / "run", rounds=3, engine=AtTheSites(whole))
    assert run.status == "finished"
    assert torch.equal(run.vector, expected.vector)
    with pytest.raises(ff.ConfigError, match="the clients' examples are not here"):
        ff.resume(tmp_path / "run", rounds=4)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "vectorised": ({"vectorised": True}, "the examples of the clients are not here; leave it out"),
    "recalibrate": ({"eval_stats": "recalibrate"}, "take running or batch-stats for eval_stats"),
    "a monitor": ({"watch": "lambda_max:1"}, "watch: lambda_max needs the clients' examples"),
    "a monitor of clients": (
        {"watch": "client_divergence:1", "watch_data": "test"},
        "watch: client_divergence needs the clients' examples or models",
    ),
}


@pytest.mark.parametrize(("changes", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_needs_the_examples_on_the_server_is_refused_before_it_begins(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ff.ConfigError, match=reason):
        at_the_sites(whole_task(), out=tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("where", [{"workers": 0}, {"workers": 1}, {"engine": "processes"}], ids=str)
def test_engines_of_this_machine_are_refused(where: dict[str, Any]) -> None:
    with pytest.raises(ff.ConfigError, match="the clients' examples are not here; take an engine that has them"):
        ff.train(server_task(whole_task()), "fedavg", **SETTINGS, **where)


def test_examples_cannot_be_put_together_either() -> None:
    with pytest.raises(ff.ConfigError, match="cannot be put together"):
        at_the_sites(whole_task(), "centralised")


def test_a_monitor_of_the_global_model_on_a_test_set_is_fine() -> None:
    run = at_the_sites(whole_task(), watch="loss:1", watch_data="test")
    assert run.history[-1]["watch"]["loss"] == pytest.approx(run.history[-1]["test_loss"])


def test_measurements_of_the_run_say_where_the_examples_are() -> None:
    run = at_the_sites(whole_task())
    with ff.laboratory(run) as lab, pytest.raises(ff.FlatfedError, match="at its site, and never come here"):
        lab.measure("lambda_max")


def test_a_false_number_of_examples_is_rejected() -> None:
    whole = whole_task()
    false = replace(whole, clients=ff.Roster([6, 5, 3, 99]))
    run = ff.train(false, "fedavg", engine=AtTheSites(whole), **SETTINGS | {"sampling": 4})
    assert run.history[0]["rejected"] == [{"client": 3, "reason": "claims 5 samples, but holds 99"}]


def test_a_client_without_examples_is_never_asked() -> None:
    whole = whole_task()
    clients = [*whole.clients[:3], (torch.zeros(0, 5), torch.zeros(0, dtype=torch.int64))]
    run = at_the_sites(replace(whole, clients=clients), sampling=4)
    assert [row["clients"] for row in run.history] == [[0, 1, 2]] * 3
    assert "rejected" not in run.history[0]


def test_a_roster_is_a_sequence_of_counted_examples() -> None:
    roster = ff.Roster([3, 0, 5])
    assert [len(examples) for examples in roster] == [3, 0, 5]
    assert [len(examples) for examples in roster[1:]] == [0, 5]
    assert len(roster[-1]) == 5
    with pytest.raises(IndexError):
        roster[3]
    with pytest.raises(ff.EngineError, match="the examples of client 2 are at its site"):
        roster[2].batch(torch.arange(1))


@pytest.mark.parametrize("counts", [[-1], [1.5], ["3"], [True]])
def test_what_is_no_number_of_examples_is_refused(counts: list[Any]) -> None:
    with pytest.raises(ff.ConfigError, match="a number of examples"):
        ff.Roster(counts)
