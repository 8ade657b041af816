"""The figures of a federation's model: on its test sets, and on each client's own examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.evaluation.evaluations import Evaluation, Evaluations
from flatfed.core.evaluation.metrics import figures
from flatfed.core.evaluation.statistics import has_batch_norm
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.randomness import preserved_global_state
from flatfed.core.round.engine import Engine
from flatfed.core.round.federation import Federation
from flatfed.core.round.trainer import NoStatistics, Trainer
from flatfed.core.task.task import Task
from flatfed.core.threads import single_thread
from flatfed.engines.in_process import InProcessEngine
from flatfed.engines.processes import ProcessEngine
from flatfed.machine.cores import worker_count

SMALL = 5_000
"""So few examples are evaluated in this process: workers would take longer to start."""

GROUP, GROUPS = 2_000, 10
"""Clients are measured in groups of at least so many examples, and about so many groups: progress is told between."""

OnClients = Callable[[int, int], None]


def start_engine(
    task: Task,
    algorithm: Algorithm,
    settings: Settings,
    workers: int | str,
    pulse: Callable[[], None] = lambda: None,
) -> Engine:
    """Return an engine with so many workers."""
    count = worker_count(workers)
    if count == 0:
        return InProcessEngine(task, algorithm, settings, pulse)
    return ProcessEngine(task, algorithm, settings, count, pulse)


def measure_tests(federation: Federation, workers: int | str = 0) -> dict[str, Any]:
    """Return the figures on every test set, as an evaluation round has them: `global_...` where models differ."""
    task, settings, server = federation.task, federation.settings, federation.server
    count = sum(len(examples) for examples in task.test_sets.values())
    with _engine(federation, task, settings, workers if count >= SMALL else 0) as engine:
        return dict(Evaluations(engine, task, settings, federation.evaluated, server.w, server.buffers).figures())


def measure_clients(
    federation: Federation, workers: int | str = 0, on_clients: OnClients = lambda done, total: None
) -> list[dict[str, Any]]:
    """Return the figures of the evaluated model on each client's own examples.

    `on_clients` is called with how many clients are done, of how many.
    """
    task = federation.task
    clients = [client for client in range(task.population) if len(task.examples(client))]
    groups = _one_by_one(federation, clients) if _apart(federation) else _grouped(federation, clients, workers)
    found: list[dict[str, Any]] = []
    on_clients(0, len(clients))
    for group in groups:
        found += group
        on_clients(len(found), len(clients))
    return found


def statistics_of(federation: Federation) -> Mapping[str, Tensor]:
    """Return the buffers that go with the evaluated model: the server's, or calibrated ones."""
    if federation.settings.eval_stats != "recalibrate":
        return federation.server.buffers
    trainer = Trainer(federation.task, federation.algorithm, federation.settings)
    with single_thread(), preserved_global_state():
        return trainer.calibrated(federation.evaluated, federation.server.buffers)


def _apart(federation: Federation) -> bool:
    """Say whether a client needs a model of its own, or may be too small for its batch's statistics."""
    layout = federation.task.layout()
    local = layout.shared < layout.size or any(piece.local for piece in (*layout.buffers, *layout.counters))
    return local or (federation.settings.eval_stats == "batch-stats" and has_batch_norm(federation.task.model))


def _one_by_one(federation: Federation, clients: list[int]) -> Iterator[list[dict[str, Any]]]:
    """Measure each client with its own local parts; without figures where a batch has no statistics."""
    trainer = Trainer(federation.task, federation.algorithm, federation.settings)
    with single_thread(), preserved_global_state():
        buffers = trainer.calibrated(federation.evaluated, federation.server.buffers)
    for client in clients:
        found = _about(federation, client)
        with single_thread(), preserved_global_state(), suppress(NoStatistics):
            totals = trainer.measure_client(federation.evaluated, buffers, federation.clients.read(client), client)
            found |= figures(federation.task.metrics, totals)
        yield [found]


def _grouped(federation: Federation, clients: list[int], workers: int | str) -> Iterator[list[dict[str, Any]]]:
    """Measure the one model on the examples of many clients, as if each client's were a test set."""
    task, buffers = federation.task, statistics_of(federation)
    settings = federation.settings.replace(eval_stats="running")  # the buffers are those to evaluate with
    total = sum(len(task.examples(client)) for client in clients)
    for group in _groups(task, clients, max(GROUP, total // GROUPS)):
        tests = {f"client{client}": task.examples(client) for client in group}
        own = replace(task, test=None, tests=tests)
        with _engine(federation, own, settings, workers if total >= SMALL else 0) as engine:
            found = Evaluation(engine, own, settings, federation.evaluated, buffers).figures()
        yield [
            _about(federation, client)
            | {n.partition("_")[2]: value for n, value in found.items() if n.startswith(f"client{client}_")}
            for client in group
        ]


def _groups(task: Task, clients: list[int], size: int) -> Iterator[list[int]]:
    """Yield the clients in groups of at least `size` examples, but for the last."""
    group, count = list[int](), 0
    for client in clients:
        group.append(client)
        count += len(task.examples(client))
        if count >= size:
            yield group
            group, count = [], 0
    if group:
        yield group


def _about(federation: Federation, client: int) -> dict[str, Any]:
    return {"client": client, "samples": len(federation.task.examples(client))}


def _engine(federation: Federation, task: Task, settings: Settings, workers: int | str) -> closing[Engine]:
    return closing(start_engine(task, federation.algorithm, settings, workers))
