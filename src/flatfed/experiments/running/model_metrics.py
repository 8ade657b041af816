"""The metrics of a federation's model: on its test sets, and on each client's own examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.evaluation.evaluator import Evaluation, Evaluations, Evaluator, NoStatistics
from flatfed.core.evaluation.statistics import has_batch_norm
from flatfed.core.method.engine import Engine
from flatfed.core.model.devices import single_thread
from flatfed.core.randomness import preserved_global_state
from flatfed.core.round.federation import Federation
from flatfed.core.task.metrics import metric_values
from flatfed.core.task.task import Task
from flatfed.engines.choice import Workers, start_engine

SMALL = 5_000
"""Fewer examples than this are evaluated in this process: workers would take longer to start."""

GROUP, GROUPS = 2_000, 10
"""Clients are measured in groups of at least 2,000 examples, about ten groups: progress is shown between them."""

OnClients = Callable[[int, int], None]


def measure_tests(federation: Federation, workers: Workers = 0) -> dict[str, Any]:
    """Return the metrics on every test set, as an evaluation round has them: `global_...` where models differ."""
    task, settings, server = federation.task, federation.settings, federation.server
    count = sum(len(examples) for examples in task.test_sets.values())
    with _engine(federation, task, settings, workers if count >= SMALL else 0) as engine:
        return dict(Evaluations(engine, task, settings, federation.evaluated, server.w, server.buffers).metrics())


def measure_clients(
    federation: Federation, workers: Workers = 0, on_clients: OnClients = lambda done, total: None
) -> list[dict[str, Any]]:
    """Return the metrics of the evaluated model on each client's own examples.

    `on_clients` is called with how many clients are done, of how many.
    """
    task = federation.task
    clients = [client for client in range(task.population) if task.samples(client)]
    if _apart(federation):
        groups = _one_by_one(federation, clients)
    else:
        groups = _grouped(federation, clients, workers)
    metrics: list[dict[str, Any]] = []
    on_clients(0, len(clients))
    for group in groups:
        metrics += group
        on_clients(len(metrics), len(clients))
    return metrics


def statistics_of(federation: Federation) -> Mapping[str, Tensor]:
    """Return the buffers that go with the evaluated model: the server's, or calibrated ones."""
    if federation.settings.eval_stats != "recalibrate":
        return federation.server.buffers
    evaluator = Evaluator(federation.task, federation.settings)
    with single_thread(), preserved_global_state():
        return evaluator.calibrated(federation.evaluated, federation.server.buffers)


def _apart(federation: Federation) -> bool:
    """Say whether a client needs a model of its own, or may be too small for its batch's statistics."""
    layout = federation.task.layout()
    local = layout.shared < layout.size or any(piece.local for piece in (*layout.buffers, *layout.counters))
    return local or (federation.settings.eval_stats == "batch-stats" and has_batch_norm(federation.task.model))


def _one_by_one(federation: Federation, clients: list[int]) -> Iterator[list[dict[str, Any]]]:
    """Measure each client with its own local parts; without metrics where a batch has no statistics."""
    evaluator = Evaluator(federation.task, federation.settings)
    with single_thread(), preserved_global_state():
        buffers = evaluator.calibrated(federation.evaluated, federation.server.buffers)
    for client in clients:
        metrics = _about(federation, client)
        with single_thread(), preserved_global_state(), suppress(NoStatistics):
            totals = evaluator.measure_client(federation.evaluated, buffers, federation.clients.read(client), client)
            metrics |= metric_values(federation.task.metrics, totals)
        yield [metrics]


def _grouped(federation: Federation, clients: list[int], workers: Workers) -> Iterator[list[dict[str, Any]]]:
    """Measure the one model on the examples of many clients, as if each client's were a test set."""
    task, buffers = federation.task, statistics_of(federation)
    settings = federation.settings.replace(eval_stats="running")  # the buffers are those to evaluate with
    total = sum(task.samples(client) for client in clients)
    for group in _groups(task, clients, max(GROUP, total // GROUPS)):
        tests = {f"client{client}": task.examples(client) for client in group}
        # Workers know the task that they were started with, so each group has an engine of its own.
        own = replace(task, test=None, tests=tests)
        with _engine(federation, own, settings, workers if total >= SMALL else 0) as engine:
            metrics = Evaluation(engine, own, settings, federation.evaluated, buffers).metrics()
        yield [_about(federation, client) | _of_test(f"client{client}", metrics) for client in group]


def _of_test(test: str, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of one test set, without its name before theirs."""
    prefix = f"{test}_"
    return {name.removeprefix(prefix): value for name, value in metrics.items() if name.startswith(prefix)}


def _groups(task: Task, clients: list[int], size: int) -> Iterator[list[int]]:
    """Yield the clients in groups of at least `size` examples, but for the last."""
    group, count = list[int](), 0
    for client in clients:
        group.append(client)
        count += task.samples(client)
        if count >= size:
            yield group
            group, count = [], 0
    if group:
        yield group


def _about(federation: Federation, client: int) -> dict[str, Any]:
    return {"client": client, "samples": federation.task.samples(client)}


def _engine(federation: Federation, task: Task, settings: Settings, workers: Workers) -> closing[Engine]:
    return closing(start_engine(task, federation.algorithm, settings, workers))
