"""Which engine runs a task's clients: made here for every command."""

from __future__ import annotations

from collections.abc import Callable

from flatfed.core.configuration.settings import Settings
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.engine import Engine
from flatfed.core.task.task import Task
from flatfed.engines.in_process import InProcessEngine
from flatfed.engines.processes.pool import ProcessEngine
from flatfed.machine import worker_count


def start_engine(
    task: Task,
    algorithm: Algorithm,
    settings: Settings,
    workers: int | str,
    pulse: Callable[[], None] = lambda: None,
) -> Engine:
    """Return an engine with this number of worker processes; 0 runs clients in this one."""
    count = worker_count(workers)
    if count == 0:
        return InProcessEngine(task, algorithm, settings, pulse)
    return ProcessEngine(task, algorithm, settings, count, pulse)
