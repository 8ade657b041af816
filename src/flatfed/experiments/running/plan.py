"""A plan: everything that decides a run, in memory and as a configuration file."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from flatfed import __version__
from flatfed.algorithms.spelling import spelling_of
from flatfed.core.configuration.config import Count, Index, build, checked
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import CheckpointError, ConfigError
from flatfed.core.evaluation.statistics import default_statistics, has_batch_norm, has_local_statistics, test_chunks
from flatfed.core.method.algorithm import Algorithm, Average
from flatfed.core.method.server import Server
from flatfed.core.method.state import State
from flatfed.core.model.devices import find_device
from flatfed.core.randomness import preserved_global_state
from flatfed.core.round.engine import Engine
from flatfed.core.round.federation import Federation
from flatfed.core.round.sampling import Sampler, Uniform
from flatfed.core.round.store import ClientStore
from flatfed.core.round.trainer import NoStatistics, Trainer, fresh_client_state, shared_buffers
from flatfed.core.round.vectorising import check_batched, wins_batched
from flatfed.core.task.task import Task
from flatfed.core.threads import single_thread
from flatfed.flatness.monitor import Monitor
from flatfed.runs.metrics import describe_metrics
from flatfed.runs.spilling import SpillingStore

STATE_BUDGET = 2**30
"""Bytes of client state kept in memory; the rest lies in memory-mapped files."""


@dataclass(frozen=True)
class Plan:
    """A task, a method, settings, a sampler, an average, and how to run them."""

    task: Task
    algorithm: Algorithm
    settings: Settings
    sampler: Sampler
    average: Average | None = None
    workers: int | str = "auto"
    checkpoint_every: int | None = None
    task_recipe: dict[str, Any] | None = None
    watch: tuple[Monitor, ...] = ()
    keep_checkpoints: tuple[int, ...] = ()

    def __post_init__(self) -> None:  # so that the record says what was used
        if self.algorithm.pooled:
            object.__setattr__(self, "task", self.task.pooled())
            object.__setattr__(self, "sampler", Uniform(1))
            object.__setattr__(self, "settings", self.settings.replace(min_replies=1))
        if self.settings.eval_stats is None:
            statistics = default_statistics(self.task.layout())
            object.__setattr__(self, "settings", self.settings.replace(eval_stats=statistics))
        if self.settings.batched is None:
            batched = wins_batched(self.task, self.settings, self.sampler.expected(self.task.population))
            object.__setattr__(self, "settings", self.settings.replace(batched=batched))

    def to_config(self) -> dict[str, Any]:
        """Return the resolved configuration, without the task."""
        return {
            "flatfed": __version__,
            "method": spelling_of(self.algorithm, self.average),
            "algorithm": self.algorithm.to_dict(),
            "average": self.average.to_dict() if self.average else None,
            "sampler": self.sampler.to_dict(),
            "settings": {name: value for name, value in self.settings.to_dict().items() if name != "id"},
            "workers": self.workers,
            "checkpoint_every": self.checkpoint_every,
            "keep_checkpoints": list(self.keep_checkpoints),
            "watch": [monitor.to_dict() for monitor in self.watch],
            "model_bytes": self.task.layout().shared * self.settings.torch_dtype.itemsize,
            **describe_metrics(self.task),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], task: Task, rounds: int | None) -> Plan:
        """Undo `to_config`, perhaps with more rounds."""
        try:
            settings = build(Settings, {"batched": False} | config["settings"])  # older runs went client by client
            if rounds is not None:
                settings = settings.replace(rounds=rounds)
            average, kept = config["average"], config.get("keep_checkpoints", ())
            return cls(
                task=task,
                algorithm=Algorithm.registry.from_dict(config["algorithm"]),
                settings=settings,
                sampler=Sampler.registry.from_dict(config["sampler"]),
                average=Average.registry.from_dict(average) if average else None,
                workers=config["workers"],
                checkpoint_every=config["checkpoint_every"],
                task_recipe=config.get("task"),
                watch=tuple(Monitor.from_dict(entry) for entry in config.get("watch", ())),
                keep_checkpoints=tuple(round for round in kept if round <= settings.rounds),  # it may be shorter now
            )
        except KeyError as error:
            raise CheckpointError(f"the run's config.json lacks {error}") from None

    def with_workers(self, workers: int | str | None) -> Plan:
        """Return the plan for another number of workers: the results are the same."""
        return self if workers is None else replace(self, workers=workers)

    def check(self) -> None:
        """Refuse what cannot be played, and warn of what is only approximate."""
        settings, name = self.settings, self.algorithm.id
        self.sampler.check(self.task.population, settings.rounds)
        self._check_checkpoints()
        self._check_statistics()
        find_device(settings.device)
        check_batched(self.task, settings)
        if isinstance(self.sampler, Uniform) and settings.min_replies > self.sampler.count:
            raise ConfigError(f"min_replies={settings.min_replies} can never be met with {self.sampler.count} a round")
        if self.algorithm.assumes_plain_steps and min(self.lr(round) for round in range(settings.rounds)) == 0:
            raise ConfigError(f"{name} divides by the learning rate, which may not be 0 in any round")
        for round in range(settings.rounds if self.algorithm.varying or settings.varying else 0):
            self.algorithm.at(round)
            settings.at(round)
        for monitor in self.watch:
            monitor.sample.count(self.task)
            unfit = monitor.measurement.unfit(self.algorithm)
            if unfit:
                warnings.warn(f"--watch: {unfit}; left out", stacklevel=3)
        if self.algorithm.assumes_plain_steps and any(settings.at(r).momentum > 0 for r in range(settings.rounds)):
            warnings.warn(
                f"{name} divides updates by K * lr, which is exact only without client momentum; "
                f"its formulas are used unchanged with momentum={settings.momentum}",
                stacklevel=3,
            )

    def _check_checkpoints(self) -> None:
        """Refuse checkpoints of rounds that there are not."""
        rounds = self.settings.rounds
        checked(Count | None, self.checkpoint_every, "checkpoint_every")
        for round in self.keep_checkpoints:
            if round > rounds:
                raise ConfigError(
                    f"keep_checkpoints (--keep-checkpoints): {round} is beyond the {rounds} rounds of the run"
                )

    def saves(self, round: int) -> bool:
        """Say whether the state after n rounds is to be saved, whatever the time.

        That before the last round always is: measurements of its local models begin there.
        """
        every = self.checkpoint_every
        is_multiple = every is not None and round % every == 0
        return is_multiple or round in self.keep_checkpoints or round == self.settings.rounds - 1

    def _check_statistics(self) -> None:
        """Refuse an evaluation for which there are no statistics."""
        policy = self.settings.eval_stats
        if policy == "running" and has_local_statistics(self.task.layout()):
            raise ConfigError(
                "the statistics stay on the clients, so there are no running ones to evaluate with; take batch-stats "
                "or recalibrate (--eval-stats, eval_stats)"
            )
        single = [chunk for chunk in test_chunks(self.task) if chunk[2] == 1]
        if policy == "batch-stats" and single and has_batch_norm(self.task.model):
            self._try_evaluation(*single[0])

    def _try_evaluation(self, test: str, first: int, count: int) -> None:
        """Refuse a test set that leaves batches too small to have statistics (a whole picture may be enough)."""
        trainer = Trainer(self.task, self.algorithm, self.settings)
        try:
            with single_thread(), preserved_global_state():
                trainer.measure(trainer.oracle.w[: trainer.layout.shared].clone(), {}, test, first, count)
        except NoStatistics as error:
            raise ConfigError(f"the {test} set: {error}") from None

    def lr(self, round: int) -> float:
        """Return the learning rate of a round."""
        lr = self.settings.decayed_lr(round)
        return self.average.lr(lr, round, self.settings.rounds) if self.average else lr

    def federation(self, engine: Engine) -> Federation:
        """Return the federation before round 0."""
        dtype, first = self.settings.torch_dtype, self.algorithm.at(0)
        layout = self.task.layout()
        model = self.task.fresh_model(dtype)
        initial = layout.read(model)
        buffers = layout.read_buffers(model, dtype)
        shared = initial[: layout.shared].clone()
        server = Server(
            shared,
            State.declared(first.server_state(), shared),
            shared_buffers(buffers, layout),
            self.task.population,
            self.settings.rounds,
            records := self._store(lambda: State.declared(first.records(), shared)),
        )
        clients = self._store(fresh_client_state(first, initial, buffers, layout).copy)
        kept = State.declared(self.average.state(self.settings.rounds), shared) if self.average else None
        federation = Federation(
            self.task,
            self.algorithm,
            self.settings,
            self.sampler,
            engine,
            server,
            clients,
            records,
            self.average,
            kept,
        )
        federation.monitors = self._applicable()
        return federation

    def _applicable(self) -> tuple[Monitor, ...]:
        """Return the monitors that mean something for the method."""
        return tuple(one for one in self.watch if not one.measurement.unfit(self.algorithm))

    def _store(self, fresh: Any) -> ClientStore:
        return SpillingStore(fresh, STATE_BUDGET)


def kept_rounds(rounds: Iterable[int]) -> tuple[int, ...]:
    """Return the rounds whose checkpoints are to be kept, in order, each once."""
    if isinstance(rounds, str) or not isinstance(rounds, Iterable):
        raise ConfigError(f"keep_checkpoints must be a list of rounds such as (400, 800), not {rounds!r:.40}")
    return tuple(sorted({int(checked(Index, round, "keep_checkpoints: a round")) for round in rounds}))


def tensors_of(federation: Federation) -> dict[str, Tensor]:
    """Return the server's tensors for a checkpoint."""
    server = federation.server
    found = {"w": server.w} | {f"buffers/{name}": t for name, t in server.buffers.items()}
    found |= {f"server/{name}": t for name, t in server.kept.tensors().items()}
    return found | {f"average/{name}": t for name, t in federation.average_kept.tensors().items()}


def restore(federation: Federation, round: int, tensors: dict[str, Tensor], states: dict[str, Any]) -> None:
    """Put a checkpoint's contents into a fresh federation."""
    expected = tensors_of(federation)
    for name, tensor in expected.items():
        found = tensors.get(name)
        if found is None or found.shape != tensor.shape or found.dtype != tensor.dtype:
            raise CheckpointError(f"the checkpoint's {name!r} does not fit this task; was the model changed?")
    server = federation.server
    server.w = tensors["w"]
    server.buffers = {name: tensors[f"buffers/{name}"] for name in server.buffers}
    for prefix, state in (("server", server.kept), ("average", federation.average_kept)):
        for name in state:
            setattr(state, name, tensors[f"{prefix}/{name}"])
    for name, store in stores_of(federation).items():
        for client, entries in states.get(name, {}).items():
            store.write(client, State(entries))
        store.take_changed()
    federation.round = round


def stores_of(federation: Federation) -> dict[str, ClientStore]:
    """Return the stores whose clients' states go into a checkpoint."""
    return {"clients": federation.clients, "records": federation.records}
