"""Which engine runs a task's clients: a family of configurations, one class for each kind of engine.

    class Ray(EngineConfig, id="ray"): ...

An engine is chosen by its id (`--engine ray`, `ff.train(engine="ray")`), by a configuration (`engine=ff.Ray(...)`), or,
where none is named, by the number of workers. Results do not depend on it.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast, overload

import flatfed.engines
from flatfed.core.configuration.checking import Count
from flatfed.core.configuration.config import Config, parameters
from flatfed.core.configuration.registry import Registry, import_all
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import PARAMETER, ConfigError
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.engine import Engine
from flatfed.core.round.federation import RoundMonitor
from flatfed.core.round.trainer import Pulse, no_pulse
from flatfed.core.task.task import Task
from flatfed.engines.in_process import InProcessEngine, refuse_without_alarm
from flatfed.engines.processes.pool import ProcessEngine
from flatfed.machine import worker_count
from flatfed.named_code import USER, NamedBy
from flatfed.outside.named_parts import with_ids


class EngineConfig(Config):
    """Family of engines: where clients run, and what it takes to start them there."""

    registry: ClassVar[Registry[EngineConfig]] = Registry("engine")

    has_examples: ClassVar[bool] = False
    """The clients' examples are where it runs them, and are not taken from the task."""

    keeps_states: ClassVar[bool] = False
    """The clients' states stay where it runs them; the server keeps the number of a version for each."""

    def start(self, task: Task, algorithm: Algorithm, settings: Settings, pulse: Pulse = no_pulse) -> Engine:
        """Return a running engine for a task; whoever starts it closes it."""
        raise NotImplementedError

    def check(self, settings: Settings) -> None:
        """Refuse what this engine cannot do, before anything is started."""

    def monitors(self, algorithm: Algorithm, settings: Settings) -> tuple[RoundMonitor, ...]:
        """Return what is measured where the clients are, after some rounds."""
        return ()


Workers = int | str | EngineConfig
"""Where clients run: a number of worker processes, `"auto"`, or an engine's configuration."""


class InProcess(EngineConfig, id="in-process"):
    """Clients one after another in this process: the reference for the others."""

    def start(self, task: Task, algorithm: Algorithm, settings: Settings, pulse: Pulse = no_pulse) -> Engine:
        """Return the engine of this process."""
        return InProcessEngine(task, algorithm, settings, pulse)

    def check(self, settings: Settings) -> None:
        """Refuse a bound on time where no alarm can ring."""
        refuse_without_alarm(settings)


class Processes(EngineConfig, id="processes"):
    """Clients in `workers` processes of this machine, with shared memory; None is the number of usable cores."""

    workers: Count | None = None

    def start(self, task: Task, algorithm: Algorithm, settings: Settings, pulse: Pulse = no_pulse) -> Engine:
        """Start the processes."""
        return ProcessEngine(task, algorithm, settings, worker_count(self.workers or "auto"), pulse)

    def check(self, settings: Settings) -> None:
        """Refuse more processes than a machine has use for."""
        worker_count(self.workers or "auto")


class _BorrowedEngine:
    """An engine that the user made, and closes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def close(self) -> None:
        """Leave it open: it is not ours."""


class OwnEngine(EngineConfig):
    """An engine that the user has made, for this task and method; it cannot be written down."""

    has_examples: ClassVar[bool] = True

    engine: object

    def start(self, task: Task, algorithm: Algorithm, settings: Settings, pulse: Pulse = no_pulse) -> Engine:
        """Return the engine as it is."""
        return cast(Engine, _BorrowedEngine(cast(Engine, self.engine)))


class UnknownEngine(EngineConfig):
    """An engine of a run's record that is not known here: another must be chosen, which gives the same bits."""

    name: str

    def check(self, settings: Settings) -> None:
        """Say what to do."""
        raise ConfigError(
            f"this run was begun on the engine {self.name!r:.40}, which is not known here; choose another for "
            f"{PARAMETER}, such as 'processes': results stay the same",
            parameter="engine",
        )

    def start(self, task: Task, algorithm: Algorithm, settings: Settings, pulse: Pulse = no_pulse) -> Engine:
        """Refuse, as `check` does."""
        self.check(settings)
        raise NotImplementedError


@overload
def chosen(engine: str | EngineConfig | Engine | None, workers: Workers) -> Workers: ...
@overload
def chosen(engine: str | EngineConfig | Engine | None, workers: Workers | None) -> Workers | None: ...
def chosen(engine: str | EngineConfig | Engine | None, workers: Workers | None) -> Workers | None:
    """Return where clients run; an engine that is named by its id takes the number of workers."""
    if engine is None:
        return workers
    if isinstance(engine, EngineConfig):
        return engine
    if isinstance(engine, str):
        return named_engine(engine, workers=workers)
    if hasattr(engine, "exchange") and hasattr(engine, "compute"):
        return OwnEngine(engine)
    raise ConfigError(
        f"{PARAMETER} must be an id such as 'ray', a configuration such as ff.Ray(), or an engine, not {engine!r:.60}",
        parameter="engine",
    )


def named_engine(id: str, by: NamedBy = USER, **values: Any) -> EngineConfig:
    """Return the configuration of an engine by its id or import path, with those of the values that are given."""
    cls = engines().find(with_ids(id, [engines()], by))
    given = {name: value for name, value in values.items() if value not in (None, "auto") or name == "address"}
    given = {name: value for name, value in given.items() if value is not None}
    for name in given.keys() - parameters(cls).keys():
        raise ConfigError(f"the engine {id} has no {PARAMETER}; leave it out", parameter=name)
    return cls(**given)


def engines() -> Registry[EngineConfig]:
    """Return every engine by id."""
    # Here, as the others are made from this file; what they need beyond the core is imported when they start.
    import_all(flatfed.engines.__name__, flatfed.engines.__path__, "engine")
    return EngineConfig.registry


def start_engine(
    task: Task, algorithm: Algorithm, settings: Settings, workers: Workers, pulse: Pulse = no_pulse
) -> Engine:
    """Start the engine that is asked for; 0 workers run clients in this process."""
    return config_of(workers).start(task, algorithm, settings, pulse)


def check_workers(workers: Workers, settings: Settings) -> None:
    """Refuse an engine or a number of workers that cannot be had."""
    config_of(workers).check(settings)


def config_of(workers: Workers) -> EngineConfig:
    """Return the configuration of the engine that is asked for."""
    if isinstance(workers, EngineConfig):
        return workers
    if worker_count(workers) == 0:
        return InProcess()
    return Processes(None if workers == "auto" else int(workers))


def describe_workers(workers: Workers) -> dict[str, Any]:
    """Return where clients run as a record of a run has it."""
    if not isinstance(workers, EngineConfig):
        return {"workers": workers}
    count = getattr(workers, "workers", None) or "auto"
    if not workers.id:  # an engine of the user's own: whoever resumes chooses anew
        return {"workers": count}
    return {"workers": count, "engine": workers.to_dict()}


def recorded_workers(record: dict[str, Any]) -> Workers:
    """Undo `describe_workers`; earlier versions knew numbers only."""
    engine = record.get("engine")
    if engine is None:
        workers: Workers = record["workers"]
        return workers
    if engine["id"] not in engines():
        return UnknownEngine(engine["id"])
    return engines().from_dict(engine)
