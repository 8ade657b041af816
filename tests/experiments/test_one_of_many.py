"""A comparison goes on whatever one of its methods raises: that run is shown as failed, with the reason."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import flatfed as ff
from cli.command import SMALL, flatfed, read_json
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.client import Client
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flatfed.reports.write.draw_curves", lambda *_, **__: None)


@pytest.fixture
def broken() -> Iterator[dict[str, type[Algorithm]]]:
    """Methods of the user's own, each of which raises at another place."""

    class InPlan(ff.FedAvg, id="broken-plan"):
        def server_state(self) -> Slots:
            raise RecursionError("a plan without end")

    class InUpdate(ff.FedAvg, id="broken-update"):
        def update(self, server: Server, replies: Replies) -> None:
            raise MemoryError("no room")

    class InClient(ff.FedAvg, id="broken-client"):
        def direction(self, client: Client, gradient: Tensor) -> Tensor:
            raise KeyError("nothing there")

    class Late(ff.FedAvg, id="broken-late"):
        def server_state(self) -> Slots:
            Late.calls += 1
            if Late.calls > 1:  # when it is checked all is well
                raise TypeError("not twice")
            return {}

        calls = 0

    made: dict[str, type[Algorithm]] = {cls.id: cls for cls in (InPlan, InUpdate, InClient, Late)}
    yield made
    for id in made:
        del Algorithm.registry[id]


def test_the_others_are_trained(broken: dict[str, type[Algorithm]]) -> None:
    methods = [*broken, "fedavg"]
    outcome = flatfed("compare", "digits", *methods, *SMALL, "--rounds", "2", "--out", "out", "--json")
    assert outcome.code == 1, outcome.err
    assert "Traceback" not in outcome.err
    shown = {run["method"]: run for run in outcome.json["runs"]}
    assert {method: run["status"] for method, run in shown.items()} == dict.fromkeys(broken, "failed") | {
        "fedavg": "finished"
    }
    reasons = {"broken-plan": "a plan without end", "broken-update": "no room"}
    reasons |= {"broken-client": "nothing there", "broken-late": "not twice"}
    for method, reason in reasons.items():
        assert reason in shown[method]["reason"]
        assert reason in outcome.err
    report = Path("out/report.md").read_text()
    assert all(method in report for method in methods)
    # The same command again tries what failed once more, and leaves what is finished alone.
    before = Path("out/fedavg/seed-0/history.jsonl").read_bytes()
    again = flatfed("compare", "digits", *methods, *SMALL, "--rounds", "2", "--out", "out")
    assert again.code == 1
    assert "failed" in again.out
    assert Path("out/fedavg/seed-0/history.jsonl").read_bytes() == before


def test_a_mistake_is_refused_before_anything_is_trained() -> None:
    outcome = flatfed("compare", "digits", "fedavg", "fedadam", *SMALL, "--set", "fedadam:tau=1e30", "--out", "out")
    assert outcome.code == 2
    assert "fedadam" in outcome.err and "too large" in outcome.err
    assert not Path("out").exists()


def test_an_interrupt_stops_everything(broken: dict[str, type[Algorithm]]) -> None:
    def stop(self: Any, server: Server, replies: Replies) -> None:
        raise KeyboardInterrupt

    broken["broken-update"].update = stop  # type: ignore[method-assign]
    outcome = flatfed("compare", "digits", "broken-update", "fedavg", *SMALL, "--out", "a place")
    assert outcome.code == 130
    assert f"flatfed resume {shlex.quote('a place')}" in outcome.err
    assert not Path("a place/fedavg").exists()


def memory_task() -> ff.Task:
    """A task that no file can describe: its loss is made on the spot."""
    data = [(torch.randn(6, 4), torch.arange(6) % 3) for _ in range(2)]
    return ff.Task(model=nn.Linear(4, 3), clients=data, loss=lambda outputs, targets: (outputs**2).mean())


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.usefixtures("signals_heard")
def test_hints_to_resume_can_be_followed(in_memory: bool, capsys: pytest.CaptureFixture[str]) -> None:
    task = memory_task() if in_memory else ff.Task(nn.Linear(4, 3), [(torch.randn(6, 4), torch.arange(6) % 3)])
    place = Path("it's a place")

    def stop(row: dict[str, Any]) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    ff.train(task, ff.make("fedavg"), rounds=3, lr=0.1, sampling=ff.Uniform(1), workers=0, out=place, on_round=stop)
    hint = capsys.readouterr().err.strip().rpartition("Continue with: ")[2]
    with pytest.raises(ff.ConfigError) as taken:
        ff.train(task, ff.make("fedavg"), rounds=3, lr=0.1, sampling=ff.Uniform(1), workers=0, out=place)
    assert f"`{hint}` continues it" in str(taken.value)
    if in_memory:
        run = eval(hint, {"ff": ff, "task": task})
        assert run.status == "finished"
    else:
        words = shlex.split(hint)
        assert words[0] == "flatfed" and flatfed(*words[1:]).code == 0
    assert read_json(place / "status.json")["status"] == "finished"
