"""A plan: everything that decides a run, in memory and as a configuration file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from flatfed import __version__
from flatfed.algorithms.spelling import spelling_of
from flatfed.core.configuration.checking import checked
from flatfed.core.configuration.config import build
from flatfed.core.configuration.ranges import Index
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import CheckpointError, ConfigError
from flatfed.core.evaluation.statistics import default_statistics
from flatfed.core.method.algorithm import Algorithm, Average
from flatfed.core.method.engine import Engine
from flatfed.core.method.server import Server
from flatfed.core.method.state import State
from flatfed.core.round.federation import Federation
from flatfed.core.round.sampling import Sampler, Uniform
from flatfed.core.round.trainer import fresh_client_state, shared_buffers
from flatfed.core.round.vectorising import wins_vectorised
from flatfed.core.task.task import Task
from flatfed.engines.factory import start_engine
from flatfed.experiments.planning.checks import check_plan
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

    def __post_init__(self) -> None:
        # What was left open is decided here, so that the record of a run says what was used.
        # This first: the rest is decided for the task that is really trained.
        if self.algorithm.pooled:
            self._set(task=self.task.pooled(), sampler=Uniform(1))
            # There is one client, so more replies than one would never come.
            self._set(settings=self.settings.replace(min_replies=1))
        if self.settings.eval_stats is None:
            statistics = default_statistics(self.task.layout())
            self._set(settings=self.settings.replace(eval_stats=statistics))
        if self.settings.vectorised is None:
            vectorised = wins_vectorised(self.task, self.settings, self.sampler.expected(self.task.population))
            self._set(settings=self.settings.replace(vectorised=vectorised))

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)  # the one way around a frozen dataclass

    def to_config(self) -> dict[str, Any]:
        """Return the resolved configuration, without the task."""
        return {
            "flatfed": __version__,
            "method": spelling_of(self.algorithm, self.average),
            "algorithm": self.algorithm.to_dict(),
            "average": None if self.average is None else self.average.to_dict(),
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
            return cls._from_config(config, task, rounds)
        except KeyError as error:
            raise CheckpointError(f"the run's config.json lacks {error}") from None

    @classmethod
    def _from_config(cls, config: dict[str, Any], task: Task, rounds: int | None) -> Plan:
        settings = build(Settings, {"vectorised": False} | config["settings"])  # older runs went client by client
        if rounds is not None:
            settings = settings.replace(rounds=rounds)
        average = config["average"]
        kept = config.get("keep_checkpoints", ())
        return cls(
            task=task,
            algorithm=Algorithm.registry.from_dict(config["algorithm"]),
            settings=settings,
            sampler=Sampler.registry.from_dict(config["sampler"]),
            average=None if average is None else Average.registry.from_dict(average),
            workers=config["workers"],
            checkpoint_every=config["checkpoint_every"],
            task_recipe=config.get("task"),
            watch=tuple(Monitor.from_dict(entry) for entry in config.get("watch", ())),
            keep_checkpoints=tuple(round for round in kept if round <= settings.rounds),  # it may be shorter now
        )

    def engine(self, pulse: Callable[[], None] = lambda: None) -> Engine:
        """Start the engine that the plan's workers ask for."""
        return start_engine(self.task, self.algorithm, self.settings, self.workers, pulse)

    def with_workers(self, workers: int | str | None) -> Plan:
        """Return the plan for another number of workers: the results are the same."""
        return self if workers is None else replace(self, workers=workers)

    def check(self) -> None:
        """Refuse what cannot be played, and warn of what is only approximate."""
        check_plan(self)

    def saves(self, round: int) -> bool:
        """Say whether the state after n rounds is to be saved, whatever the time.

        That before the last round always is: measurements of its local models begin there.
        """
        if round in self.keep_checkpoints or round == self.settings.rounds - 1:
            return True
        return self.checkpoint_every is not None and round % self.checkpoint_every == 0

    def lr(self, round: int) -> float:
        """Return the learning rate of a round."""
        lr = self.settings.decayed_lr(round)
        if self.average is None:
            return lr
        return self.average.lr(lr, round, self.settings.rounds)

    def federation(self, engine: Engine) -> Federation:
        """Return the federation before round 0."""
        # The method of round 0: a declaration may need a parameter's number (FedGF's `c`), and a schedule is none.
        dtype, first = self.settings.torch_dtype, self.algorithm.at(0)
        layout = self.task.layout()
        model = self.task.fresh_model(dtype)
        initial = layout.read(model)
        buffers = layout.read_buffers(model, dtype)
        shared = initial[: layout.shared].clone()
        # The server's vectors are of the shared part alone; a client's are as long as its whole model.
        records = SpillingStore(lambda: State.declared(first.records(), shared), STATE_BUDGET)
        server = Server(
            shared,
            State.declared(first.server_state(), shared),
            shared_buffers(buffers, layout),
            self.task.population,
            self.settings.rounds,
            records,
        )
        # Made once: what a new client keeps is a copy of it.
        clients = SpillingStore(fresh_client_state(first, initial, buffers, layout).copy, STATE_BUDGET)
        kept = None if self.average is None else State.declared(self.average.state(self.settings.rounds), shared)
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
        return tuple(monitor for monitor in self.watch if not monitor.measurement.unfit(self.algorithm))


def kept_rounds(rounds: Iterable[int]) -> tuple[int, ...]:
    """Return the rounds whose checkpoints are to be kept, in order, each once."""
    if isinstance(rounds, str) or not isinstance(rounds, Iterable):
        raise ConfigError(f"keep_checkpoints must be a list of rounds such as (400, 800), not {rounds!r:.40}")
    return tuple(sorted({int(checked(Index, round, "keep_checkpoints: a round")) for round in rounds}))
