"""A Ray that flatfed starts itself: the work is really done by its actors, and nobody else can reach it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import flatfed as ff
from engines.bench import alive, eventually, tensors_task, worker_pids
from engines.table import rows_of
from flatfed.core.configuration.settings import Settings
from flatfed.core.round.sampling import Uniform
from flatfed.engines.choice import OwnEngine
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.running.model_metrics import SMALL

CLIENTS = 4


@dataclass(frozen=True)
class MarkingLoss:
    """Cross-entropy that leaves a mark with the process that it is computed in."""

    directory: Path

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        (self.directory / str(os.getpid())).touch()
        return functional.cross_entropy(outputs, targets)


def marking_task(directory: Path) -> ff.Task:
    """A task with enough test examples and enough examples of clients to be evaluated by workers."""
    generator = torch.Generator().manual_seed(3)

    def examples(count: int) -> tuple[Tensor, Tensor]:
        return torch.randn(count, 5, generator=generator), torch.arange(count) % CLIENTS

    clients = [examples(SMALL // CLIENTS) for _ in range(CLIENTS)]
    return replace(tensors_task(MarkingLoss(directory)), clients=clients, test=examples(SMALL))


@dataclass(frozen=True)
class Played:
    """A run on two actors that are still there, and the marks that its work has left."""

    run: ff.Run
    engine: Any
    marks: Path

    def where(self, compute: Callable[[], object]) -> set[int]:
        """Return the processes in which something is computed."""
        for mark in self.marks.iterdir():
            mark.unlink()
        compute()
        return {int(mark.name) for mark in self.marks.iterdir()}


@pytest.fixture(scope="module", params=rows_of("ray"))
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    marks = tmp_path_factory.mktemp("marks")
    settings = Settings(rounds=2, lr=0.1, batch_size=250, evaluate_every=1, vectorised=False)
    plan = Plan(marking_task(marks), ff.make("fedavg"), settings, Uniform(CLIENTS), workers=0)
    engine = request.param.start(plan)
    federation = plan.federation(engine)
    yield Played(ff.Run(federation, [], None), engine, marks)
    engine.close()


def test_clients_and_evaluations_are_spread_over_the_actors(played: Played) -> None:
    actors = set(worker_pids(played.engine))
    assert len(actors) == 2
    federation = played.run._federation
    assert played.where(lambda: list(federation.rounds())) == actors
    there = OwnEngine(played.engine)
    found: list[Any] = []
    assert played.where(lambda: found.append(played.run.metrics(there))) == actors
    assert played.where(lambda: found.append(played.run.client_metrics(there))) == actors
    assert found == [played.run.metrics(0), played.run.client_metrics(0)]


def test_measurements_are_spread_over_the_actors(played: Played) -> None:
    def curvature(**where: Any) -> dict[str, Any]:
        with ff.laboratory(played.run, **where) as laboratory:
            return laboratory.measure("lambda_max")["lambda_max"].to_dict()

    found: list[dict[str, Any]] = []
    places = played.where(lambda: found.append(curvature(engine=played.engine)))
    assert places == set(worker_pids(played.engine))
    assert found == [curvature(workers=0)]


# --- who can reach it --------------------------------------------------------------------------------------------


def family(pid: int) -> set[int]:
    """Return a process with all that it, and those it has started, have started."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):  # it has just ended
            continue
    members = {pid}
    while grown := {child for child, parent in parents.items() if parent in members} - members:
        members |= grown
    return members


def sockets_of(pid: int) -> set[str]:
    """Return the numbers of a process's sockets."""
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:  # closed meanwhile
            continue
        if target.startswith("socket:["):
            found.add(target.removeprefix("socket:[").rstrip("]"))
    return found


def listening() -> dict[str, str]:
    """Return at which address each socket listens, by its number."""
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                found[words[9]] = address_of(words[1].partition(":")[0])
    return found


def address_of(text: str) -> str:
    """Return an address from the kernel's spelling: words of four bytes, each in the machine's order."""
    data = bytes.fromhex(text)
    raw = b"".join(data[start : start + 4][::-1] for start in range(0, len(data), 4))
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the sockets of a process are read as Linux has them")
def test_it_listens_on_the_loopback_alone(played: Played) -> None:
    """Its processes are below this one, actors too; this one listens for them."""
    members = family(os.getpid())
    assert set(worker_pids(played.engine)) <= members
    places = listening()
    addresses = {}
    for pid in members:
        try:
            own = sockets_of(pid)
        except OSError:  # it has ended, as idle workers do
            continue
        addresses[pid] = {places[number] for number in own if number in places}
    assert all(addresses[pid] for pid in (os.getpid(), *worker_pids(played.engine)))
    others = set().union(*addresses.values()) - {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert not others


def test_nothing_is_left_of_the_actors_after_the_end(played: Played) -> None:
    pids = worker_pids(played.engine)
    assert all(map(alive, pids))
    played.engine.close()
    for pid in pids:
        eventually(lambda pid=pid: not alive(pid), f"the end of actor {pid}")
    played.engine.close()  # once more is no error
