"""Tasks, methods and comparisons for the tests of engines and run directories."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

import flatfed as ff
from flatfed.algorithms.sharpness_aware.fedsmoo import FedSMOO
from flatfed.core.configuration.settings import Settings
from flatfed.core.method.algorithm import Algorithm, Average
from flatfed.core.method.client import Client
from flatfed.core.method.engine import Engine
from flatfed.core.round.federation import TIMES
from flatfed.core.round.sampling import Uniform
from flatfed.engines.choice import EngineConfig
from flatfed.engines.processes.pool import ProcessEngine
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.running.run import Run
from flatfed.experiments.tasks.recipe import TaskRecipe

PATIENCE = 300.0
"""Seconds after which a poll gives up: a bound for a broken program, never a pace."""


def eventually(condition: Callable[[], Any], what: str) -> Any:
    """Poll until the condition holds and return its value."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, f"never happened: {what}"
        time.sleep(0.005)
    return value


def alive(pid: int) -> bool:
    """Say whether a process runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def shared_directories() -> set[Path]:
    """Return the directories of shared memory that there are now."""
    return set(Path("/dev/shm").glob("flatfed-*"))


# What a run has come to, down to the bits.


def exact(value: Any) -> Any:
    """Return a tensor, a number, or anything made of them in a form whose equality is equality of bits."""
    if isinstance(value, Tensor):
        raw = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return str(value.dtype), tuple(value.shape), raw
    if isinstance(value, dict):
        return {name: exact(value[name]) for name in sorted(value)}
    return value.hex() if isinstance(value, float) else value


def rows_but_seconds(rows: list[dict[str, Any]]) -> list[str]:
    """Return history rows as exact text, without the entries that may differ."""
    return [json.dumps({name: v for name, v in row.items() if name not in TIMES}) for row in rows]


def bits(run: Run, population: int) -> dict[str, Any]:
    """Return everything a run has come to."""
    return {
        "vector": exact(run.vector),
        "eval_vector": exact(run.eval_vector),
        "history": rows_but_seconds(run.history),
        "server_state": exact(run.server_state),
        "client_states": [exact(run.client_state(k)) for k in range(population)],
        "model": exact(dict(run.model().state_dict())),
        "status": run.status,
    }


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Compare part by part, so that a failure names the part and not megabytes of numbers."""
    assert found.keys() == expected.keys()
    assert found["history"] == expected["history"]
    assert [name for name in expected if found[name] != expected[name]] == []


# Tasks and methods.

CLIENTS = 12


@functools.cache
def digits() -> ff.Task:
    """The digits over 12 clients of few classes each, with augmentation and the small CNN."""
    return TaskRecipe("digits", clients=CLIENTS, partition={"id": "dirichlet", "alpha": 0.1}, seed=0).build()


@functools.cache
def normed_digits() -> ff.Task:
    """The same for a CNN with BatchNorm and dropout: it has buffers and draws numbers."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(6 * 16, 10),
        )
    return replace(digits(), model=model)


@functools.cache
def local_digits() -> ff.Task:
    """The same, with BatchNorm's layers kept by the clients."""
    return replace(normed_digits(), local="bn")


@dataclass(frozen=True)
class Case:
    """A method on a task, with a few rounds of settings."""

    task: Callable[[], ff.Task]
    algorithm: Algorithm
    average: Average | None = None
    rounds: int = 3

    def plan(self) -> Plan:
        settings = Settings(
            rounds=self.rounds, lr=0.05, batch_size=32, momentum=0.0, lr_decay=0.9, seed=3, vectorised=False
        )
        return Plan(self.task(), self.algorithm, settings, Uniform(5), self.average, workers=0)

    def play(self, make_engine: Callable[[Plan], Engine]) -> dict[str, Any]:
        """Play all rounds on an engine and return what came of it."""
        plan = self.plan()
        engine = make_engine(plan)
        try:
            federation = plan.federation(engine)
            return bits(Run(federation, list(federation.rounds()), None), plan.task.population)
        finally:
            engine.close()


def on(config: EngineConfig) -> Callable[[Plan], Engine]:
    """Return what starts an engine for a plan."""
    return lambda plan: config.start(plan.task, plan.algorithm, plan.settings)


CASES = {
    "fedsmoo": Case(digits, ff.make("fedsmoo")),
    "fedsmoo, BatchNorm": Case(normed_digits, ff.make("fedsmoo")),
    "scaffold+asam+swa": Case(digits, ff.make("scaffold", client_opt=ff.ASAM()), ff.SWA(start=0.3, cycle=1)),
    "scaffold+asam+swa, BatchNorm": Case(
        normed_digits, ff.make("scaffold", client_opt=ff.ASAM()), ff.SWA(start=0.3, cycle=1)
    ),
    "naivefedgloss+sam, two exchanges": Case(normed_digits, ff.make("naivefedgloss", client_opt=ff.SAM())),
    "mime, two exchanges": Case(digits, ff.make("mime")),
    "fedwmsam+swa, personal parts, local BatchNorm": Case(
        local_digits, ff.make("fedwmsam"), ff.SWA(start=0.3, cycle=1)
    ),
}

DESIGN = (
    "mime, two exchanges",
    "fedwmsam+swa, personal parts, local BatchNorm",
)
"""Cases that have nearly everything once: for engines that take long to start."""


# Code of users that goes wrong.


def is_worker() -> bool:
    """Say whether this runs in a worker: a process of a pool, or an actor."""
    return multiprocessing.parent_process() is not None or is_actor()


def is_actor() -> bool:
    """Say whether this process is an actor of Ray."""
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized() and ray.get_runtime_context().get_actor_id() is not None


def worker_pids(engine: Any) -> list[int]:
    """Return the process ids of the workers of a pool, or of actors on this machine."""
    if isinstance(engine, ProcessEngine):
        return engine.pids
    return [handle.about.pid for handle in engine._pool.workers]


def wait_for_workers(engine: Any, count: int) -> None:
    """Wait until a pool is whole: actors come when they come."""

    def is_whole() -> bool:
        engine._pool.wait((), 0.01)
        return len(engine._pool.workers) == count

    eventually(is_whole, f"{count} workers")


class Deadly(FedSMOO):
    """FedSMOO whose clients in `victims` kill their worker in the middle of their work, so many `times` each."""

    victims: ClassVar[frozenset[int]] = frozenset()
    markers: ClassVar[Path] = Path()
    times: ClassVar[int] = 1

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        if client.id in self.victims and client.step == 1 and is_worker():
            deaths = len(list(self.markers.glob(f"{client.id}-*")))
            if deaths < self.times:
                (self.markers / f"{client.id}-{deaths}").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().direction(client, gradient)


def deadly(victims: Iterable[int], markers: Path, times: int = 1) -> FedSMOO:
    """Return such a method; it carries what it needs to actors, too."""
    own = {"victims": frozenset(victims), "markers": markers, "times": times}
    method: FedSMOO = type("DeadlyHere", (Deadly,), own)()
    return method


def tensors_task(loss: Any = functional.cross_entropy, clients: int = 4) -> ff.Task:
    """A small task of tensors; client k's targets are all k."""
    generator = torch.Generator().manual_seed(1)
    data = [(torch.randn(6, 5, generator=generator), torch.full((6,), k)) for k in range(clients)]
    with torch.random.fork_rng():
        torch.manual_seed(2)
        model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, clients))
    return ff.Task(model=model, clients=data, test=(data[0][0], data[0][1]), loss=loss)


VICTIM = 2


def raising_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy that cannot stand the victim's targets."""
    if bool((targets == VICTIM).any()):
        raise ZeroDivisionError("this target is too much")
    return functional.cross_entropy(outputs, targets)


def deadly_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy that takes the worker down at the victim's targets."""
    if bool((targets == VICTIM).any()) and is_worker():
        os.kill(os.getpid(), signal.SIGKILL)
    return functional.cross_entropy(outputs, targets)


def local_loss() -> Any:
    """Return a loss that no other process can import."""
    return lambda outputs, targets: functional.cross_entropy(outputs, targets)


nameless_loss = lambda outputs, targets: functional.cross_entropy(outputs, targets)  # noqa: E731
