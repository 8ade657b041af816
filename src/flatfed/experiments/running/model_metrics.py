"""The metrics of a federation's model: on its test sets, and on each client's own examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any

from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.evaluation.evaluator import Evaluations, Evaluator, NoStatistics, even_chunks, has_batch_norm
from flatfed.core.method.engine import Engine
from flatfed.core.model.devices import single_thread
from flatfed.core.randomness import key, key_global_generators, preserved_global_state
from flatfed.core.round.federation import Federation
from flatfed.core.task.metrics import Totals, add_up, metric_values
from flatfed.core.task.task import Task
from flatfed.engines.choice import Workers, check_workers, start_engine
from flatfed.engines.in_process import InProcessEngine

SMALL = 5_000
"""Fewer examples than this are evaluated in this process: workers would take longer to start."""

GROUP, GROUPS = 2_000, 10
"""Clients are measured in groups of at least 2,000 examples, about ten groups: progress is shown between them."""

OnClients = Callable[[int, int], None]


def check_asked(workers: Workers | None) -> None:
    """Refuse workers that are asked for and cannot be had, also where too little is measured for any to start."""
    if workers is not None:
        # Nothing is trained: no setting is a reason to refuse them.
        check_workers(workers, Settings(rounds=1, lr=0.1))


def measure_tests(federation: Federation, workers: Workers = 0) -> dict[str, Any]:
    """Return the metrics on every test set, as an evaluation round has them: `global_...` where models differ."""
    task, settings, server = federation.task, federation.settings, federation.server
    count = sum(len(examples) for examples in task.test_sets.values())
    with _engine(federation, workers if count >= SMALL else 0) as engine:
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


def statistics_of(federation: Federation, w: Tensor | None = None) -> Mapping[str, Tensor]:
    """Return the buffers that go with a model, by default the evaluated one: the server's, or calibrated ones."""
    if federation.settings.eval_stats != "recalibrate":
        return federation.server.buffers
    evaluator = Evaluator(federation.task, federation.settings)
    with single_thread(), preserved_global_state():
        return evaluator.calibrated(federation.evaluated if w is None else w, federation.server.buffers)


def _apart(federation: Federation) -> bool:
    """Say whether a client needs a model of its own, or may be too small for its batch's statistics."""
    layout = federation.task.layout()
    local = layout.shared < layout.size or any(piece.local for piece in (*layout.buffers, *layout.counters))
    return local or (federation.settings.eval_stats == "batch-stats" and has_batch_norm(federation.task.model))


def _one_by_one(federation: Federation, clients: list[int]) -> Iterator[list[dict[str, Any]]]:
    """Measure each client with its own local layers; without metrics where a batch has no statistics."""
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
    task, given = federation.task, {"w": federation.evaluated, **statistics_of(federation)}
    total = sum(task.samples(client) for client in clients)
    with _engine(federation, workers if total >= SMALL else 0) as engine:
        for group in _groups(task, clients, max(GROUP, total // GROUPS)):
            totals = _totals(engine, task, given, group)
            yield [_about(federation, client) | metric_values(task.metrics, totals[client]) for client in group]


def _totals(engine: Engine, task: Task, given: Mapping[str, Tensor], clients: list[int]) -> dict[int, Totals]:
    """Return the sums of a model over each client's examples."""
    chunks = [(client, *chunk) for client in clients for chunk in even_chunks(task.samples(client), task.test_batch)]
    results = dict(engine.compute(evaluation_on_client, given, chunks))
    # Results come in any order; added in that of the chunks, their sums do not depend on the workers.
    parts: dict[int, list[Totals]] = {client: [] for client in clients}
    for number, chunk in enumerate(chunks):
        parts[chunk[0]].append(results[number])
    return {client: add_up(each) for client, each in parts.items()}


def evaluation_on_client(
    evaluator: Evaluator, given: Mapping[str, Tensor], client: int, first: int, count: int
) -> Totals:
    """Return the sums of the given model, with the statistics that are given, over some of a client's examples."""
    evaluator.show(given["w"], given)
    # Transforms of a data set draw in tests too: keyed by the chunk, whoever evaluates it.
    key_global_generators(key(evaluator.settings.seed, f"client{client}", first))
    return evaluator.totals(evaluator.task.examples(client), first, count, "running")


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


@contextmanager
def _engine(federation: Federation, workers: Workers) -> Iterator[Engine]:
    """Have workers for a while; where none are asked for, an engine of this process that is there serves."""
    if workers == 0 and isinstance(federation.engine, InProcessEngine):
        yield federation.engine  # another would copy the model
        return
    with closing(start_engine(federation.task, federation.algorithm, federation.settings, workers)) as engine:
        yield engine
