"""A plan: everything that decides a run, in memory and as a file, and what is checked before it is played."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from flatfed import __version__
from flatfed.algorithms.spelling import spelling_of
from flatfed.core.configuration.checking import Count, Index, checked
from flatfed.core.configuration.config import build
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import PARAMETER, CheckpointError, ConfigError, ConfigWarning
from flatfed.core.evaluation.evaluator import (
    Evaluator,
    NoStatistics,
    default_statistics,
    has_batch_norm,
    has_local_statistics,
    test_chunks,
)
from flatfed.core.method.algorithm import Algorithm, Average, client_slots
from flatfed.core.method.engine import Engine
from flatfed.core.method.server import Server
from flatfed.core.method.state import State
from flatfed.core.model.devices import find_device, single_thread
from flatfed.core.model.precision_check import check_precision
from flatfed.core.model.vectorising import check_vectorised, wins_vectorised
from flatfed.core.randomness import preserved_global_state
from flatfed.core.round.federation import Federation
from flatfed.core.round.sampling import Sampler, Uniform
from flatfed.core.round.trainer import fresh_client_state, shared_buffers
from flatfed.core.steering.history_columns import HistoryColumns
from flatfed.core.steering.steering import ON_TEST, Steering
from flatfed.core.task.task import VALIDATION, Task
from flatfed.core.task.validation import HeldOut, hold_out
from flatfed.engines.choice import (
    Workers,
    check_workers,
    config_of,
    describe_workers,
    recorded_workers,
    start_engine,
)
from flatfed.engines.sites.versions import handle
from flatfed.experiments.planning.local_steps import check_steps
from flatfed.flatness.measurement import ClientMeasurement
from flatfed.flatness.monitor import Monitor
from flatfed.named_code import USER, NamedBy
from flatfed.outside.origins import changed_parts, enter_recorded
from flatfed.runs.metrics import describe_metrics
from flatfed.runs.states.cohort import CohortMemory
from flatfed.runs.states.store import StateStore
from flatfed.tracking.tracker import Tracker

SEAMS = "seams"
STATE_BUDGET = 2**30
"""At most this number of bytes of client state is kept in memory; the rest lies in files."""


@dataclass(frozen=True)
class Plan:
    """A task, a method, settings, a sampler, an average, and how to run them."""

    task: Task
    algorithm: Algorithm
    settings: Settings
    sampler: Sampler
    average: Average | None = None
    workers: Workers = "auto"
    checkpoint_every: int | None = None
    task_recipe: dict[str, Any] | None = None
    watch: tuple[Monitor, ...] = ()
    keep_checkpoints: tuple[int, ...] = ()
    named_by: NamedBy = USER
    """Whose word the recipe of the task is, where it names code."""
    track: tuple[Tracker, ...] = ()
    """Where the run is sent while it trains; it decides nothing, and is no part of the run's record."""
    validation: HeldOut | None = None
    """What was held out of a task of Python's; the recipe of one of the catalogue says it itself."""
    seams: tuple[int, ...] = ()
    """Rounds, from 0, that were evaluated because the run had ended with them, before it was given more rounds."""

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
        if self.settings.monitor is None and self.settings.monitors and VALIDATION in self.task.test_sets:
            self._set(settings=self.settings.replace(monitor=f"{VALIDATION}_loss"))

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
            **describe_workers(self.workers),
            "checkpoint_every": self.checkpoint_every,
            "keep_checkpoints": list(self.keep_checkpoints),
            "watch": [monitor.to_dict() for monitor in self.watch],
            "model_bytes": self.task.layout().shared * self.settings.torch_dtype.itemsize,
            **describe_metrics(self.task),
            **({} if self.validation is None else {VALIDATION: self.validation.to_dict()}),
            **({SEAMS: list(self.seams)} if self.seams else {}),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], task: Task, rounds: int | None, by: NamedBy) -> Plan:
        """Undo `to_config`, perhaps with more rounds; `by` says whose word it is."""
        try:
            return cls._from_config(config, task, rounds, by)
        except ConfigError as error:
            changes = changed_parts(config)
            if not changes:
                raise
            raise ConfigError(f"{error}; since the run was made, {changes}") from error
        except KeyError as error:
            raise CheckpointError(f"the run's config.json lacks {error}") from None

    @classmethod
    def _from_config(cls, config: dict[str, Any], task: Task, rounds: int | None, by: NamedBy) -> Plan:
        enter_recorded(config, by)
        settings = build(Settings, {"vectorised": False} | config["settings"])  # older runs went client by client
        if rounds is not None:
            settings = settings.replace(rounds=rounds)
        average, held = config["average"], config.get(VALIDATION)
        validation = None if held is None else HeldOut(**held)
        if validation is not None and VALIDATION not in task.test_sets:
            # The user gave the task as it was before.
            task = hold_out(task, validation)
        kept = config.get("keep_checkpoints", ())
        return cls(
            task=task,
            algorithm=Algorithm.registry.from_dict(config["algorithm"]),
            settings=settings,
            sampler=Sampler.registry.from_dict(config["sampler"]),
            average=None if average is None else Average.registry.from_dict(average),
            workers=recorded_workers(config),
            checkpoint_every=config["checkpoint_every"],
            task_recipe=config.get("task"),
            watch=tuple(Monitor.from_dict(entry) for entry in config.get("watch", ())),
            keep_checkpoints=tuple(round for round in kept if round <= settings.rounds),  # it may be shorter now
            named_by=by,
            validation=validation,
            seams=tuple(config.get(SEAMS, ())),
        )

    def engine(self, pulse: Callable[[], None] = lambda: None) -> Engine:
        """Start the engine that the plan's workers ask for."""
        return start_engine(self.task, self.algorithm, self.settings, self.workers, pulse)

    def with_workers(self, workers: Workers | None) -> Plan:
        """Return the plan for another number of workers, or another engine: the results are the same."""
        return self if workers is None else replace(self, workers=workers)

    def with_memory(self, memory: str | int | None) -> Plan:
        """Return the plan for another `cohort_memory`: the results are the same."""
        return self if memory is None else replace(self, settings=self.settings.replace(cohort_memory=memory))

    def check(self) -> None:
        """Refuse what cannot be played, and warn of what is only approximate."""
        check_plan(self)

    def going_on(self, round: int) -> Plan:
        """Return the plan of a run that had ended after n rounds and goes on from there."""
        if round == 0 or self.settings.evaluates(round - 1) or round - 1 in self.seams:
            return self
        return replace(self, seams=(*self.seams, round - 1))

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

    def federation(self, engine: Engine, scratch: Path | None = None) -> Federation:
        """Return the federation before round 0; `scratch` is where replies wait for which there is no memory."""
        # The method of round 0: a declaration may need a parameter's number (FedGF's `c`), and a schedule is none.
        dtype, first = self.settings.torch_dtype, self.algorithm.at(0)
        layout = self.task.layout()
        model = self.task.fresh_model(dtype)
        initial = layout.read(model)
        buffers = layout.read_buffers(model, dtype)
        shared = initial[: layout.shared].clone()
        # The server's vectors are of the shared part alone; a client's are as long as its whole model.
        tensors = layout.shared_tensors
        records = StateStore(lambda: State.declared(first.records(), shared, tensors), self.state_bytes)
        server = Server(
            shared,
            State.declared(first.server_state(), shared, tensors),
            shared_buffers(buffers, layout),
            self.task.population,
            self.settings.rounds,
            records,
            tensors,
        )
        # Made once: what a new client keeps is a copy of it.
        fresh = fresh_client_state(first, self.settings.at(0).base_opt, initial, buffers, layout)
        if config_of(self.workers).keeps_states:
            fresh = handle()
        clients = StateStore(fresh.copy, self.state_bytes)
        stores = clients, records
        memory = CohortMemory(
            self.settings.cohort_bytes, lambda: sum(store.bytes_in_memory for store in stores), scratch
        )
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
            memory=memory,
        )
        federation.steering = self.steering()
        federation.monitors = (*self._applicable(), *config_of(self.workers).monitors(self.algorithm, self.settings))
        return federation

    def steering(self) -> Steering | None:
        """Return what the rows of the run decide, before the first; None where they decide nothing."""
        steering = Steering(self.settings, HistoryColumns.of(self.task, self.average is not None), self.seams)
        return steering if steering.is_active else None

    @property
    def state_bytes(self) -> int:
        """Bytes of client state kept in memory: at most half of what there is for a round, which needs the rest."""
        bound = self.settings.cohort_bytes
        return STATE_BUDGET if bound is None else min(STATE_BUDGET, bound // 2)

    def _applicable(self) -> tuple[Monitor, ...]:
        """Return the monitors that mean something for the method."""
        return tuple(monitor for monitor in self.watch if not monitor.measurement.unfit(self.algorithm))


def kept_rounds(rounds: Iterable[int]) -> tuple[int, ...]:
    """Return the rounds whose checkpoints are to be kept, in order, each once."""
    if isinstance(rounds, str) or not isinstance(rounds, Iterable):
        raise ConfigError(f"keep_checkpoints must be a list of rounds such as (400, 800), not {rounds!r:.40}")
    return tuple(sorted({int(checked(Index, round, "keep_checkpoints: a round")) for round in rounds}))


def check_plan(plan: Plan) -> None:
    """Refuse what cannot be played, and warn of what is only approximate."""
    check_workers(plan.workers, plan.settings)
    _check_roster(plan)
    plan.sampler.check(plan.task.population, plan.settings.rounds)
    _check_checkpoints(plan)
    _check_statistics(plan)
    find_device(plan.settings.device)
    check_precision(plan.task, plan.settings)
    check_vectorised(plan.task, plan.settings)
    plan.algorithm.check_model(plan.task.model)
    _check_states(plan)
    _check_replies(plan)
    _check_learning_rate(plan)
    _check_schedules(plan)
    _check_monitors(plan)
    _check_steering(plan)
    check_steps(plan.algorithm, plan.settings)


def _check_roster(plan: Plan) -> None:
    """Refuse what needs the clients' examples on a server that does not have them."""
    if plan.task.holds_examples:
        return
    if not config_of(plan.workers).has_examples:
        raise ConfigError(
            f"the clients' examples are not here; take an engine that has them for {PARAMETER}", parameter="engine"
        )
    if plan.settings.eval_stats == "recalibrate":
        raise ConfigError(
            f"recalibrate needs the clients' examples, which are not here; take running or batch-stats for {PARAMETER}",
            parameter="eval_stats",
        )
    for monitor in plan.watch:
        if monitor.sample.of not in plan.task.test_sets or isinstance(monitor.measurement, ClientMeasurement):
            raise ConfigError(
                f"{PARAMETER}: {monitor.measurement.id} needs the clients' examples or models, which are not here; "
                "measure the global model on a test set, or afterwards where the examples are",
                parameter="watch",
            )


def _check_checkpoints(plan: Plan) -> None:
    """Refuse checkpoints of rounds that there are not."""
    rounds = plan.settings.rounds
    checked(Count | None, plan.checkpoint_every, "checkpoint_every")
    for round in plan.keep_checkpoints:
        if round > rounds:
            raise ConfigError(
                f"{PARAMETER}: {round} is beyond the {rounds} rounds of the run", parameter="keep_checkpoints"
            )


def _check_statistics(plan: Plan) -> None:
    """Refuse an evaluation for which there are no statistics."""
    policy = plan.settings.eval_stats
    if policy == "running" and has_local_statistics(plan.task.layout()):
        raise ConfigError(
            "the statistics stay on the clients, so there are no running ones to evaluate with; take batch-stats or "
            f"recalibrate for {PARAMETER}",
            parameter="eval_stats",
        )
    if policy == "batch-stats" and has_batch_norm(plan.task.model):
        _try_single_examples(plan)


def _try_single_examples(plan: Plan) -> None:
    """Refuse a test set that leaves a batch of one example without statistics (a whole picture may be enough)."""
    single = [chunk for chunk in test_chunks(plan.task) if chunk[2] == 1]
    if not single:
        return
    test, first, count = single[0]
    evaluator = Evaluator(plan.task, plan.settings)
    shared = evaluator.oracle.w[: evaluator.layout.shared].clone()
    try:
        with single_thread(), preserved_global_state():
            evaluator.measure(shared, {}, test, first, count)
    except NoStatistics as error:
        raise ConfigError(f"the {test} set: {error}") from None


def _check_states(plan: Plan) -> None:
    """Refuse parameters from which no first state can be made, such as squares beyond the type's numbers."""
    first = plan.algorithm.at(0)
    one = torch.zeros(1, dtype=plan.settings.torch_dtype)
    try:
        for slots in (first.server_state(), first.records(), client_slots(first, plan.settings.at(0).base_opt)):
            State.declared(slots, one)
    except OverflowError as error:
        raise ConfigError(f"{plan.algorithm.id}: a parameter is too large: {error}") from None
    except ConfigError as error:
        raise ConfigError(f"{plan.algorithm.id}: {error}; a parameter is too large") from None


def _check_replies(plan: Plan) -> None:
    needed = plan.settings.min_replies
    if isinstance(plan.sampler, Uniform) and needed > plan.sampler.count:
        raise ConfigError(f"min_replies={needed} can never be met with {plan.sampler.count} clients per round")


def _check_learning_rate(plan: Plan) -> None:
    if not plan.algorithm.assumes_plain_steps:
        return
    # Every round: a schedule, or the cycle of SWA, may come down to 0 in some of them.
    if any(plan.lr(round) == 0 for round in range(plan.settings.rounds)):
        raise ConfigError(f"{plan.algorithm.id} divides by the learning rate, which may not be 0 in any round")


def _check_schedules(plan: Plan) -> None:
    """Try every round's numbers: together they may be refused, though each is within its range."""
    if not plan.algorithm.varying and not plan.settings.varying:
        return
    for round in range(plan.settings.rounds):
        plan.algorithm.at(round)
        plan.settings.at(round)


def _check_monitors(plan: Plan) -> None:
    for monitor in plan.watch:
        # For its refusal alone, of examples that the task does not have.
        monitor.sample.count(plan.task)
        unfit = monitor.measurement.unfit(plan.algorithm)
        if unfit:
            warnings.warn(ConfigWarning(f"{PARAMETER}: {unfit}; left out", parameter="watch"), stacklevel=4)


def _check_steering(plan: Plan) -> None:
    """Refuse columns that the history will not have, and say where something is selected on test data."""
    steering = plan.steering()
    if steering is None:
        return
    for name, column in steering.columns():
        if column.of_test:
            text = f"{PARAMETER} goes by {column.name}: {ON_TEST}, so its values are no estimate for new data"
            warnings.warn(ConfigWarning(text, parameter=name), stacklevel=4)
