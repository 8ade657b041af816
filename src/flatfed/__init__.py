"""flatfed: sharpness-aware federated learning.

>>> import flatfed as ff
>>> run = ff.train(task, ff.make("fedgloss"), rounds=100, sampling=5, lr=0.01)

Names are loaded when first used, so that importing the package (and `flatfed --help`) is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Task": "flatfed.core.task",
    "Partition": "flatfed.core.examples",
    "Local": "flatfed.core.layout",
    "Shown": "flatfed.core.metrics",
    "Message": "flatfed.core.messages",
    "Algorithm": "flatfed.core.algorithm",
    "ClientOptimiser": "flatfed.core.algorithm",
    "Average": "flatfed.core.algorithm",
    "Bernoulli": "flatfed.core.sampling",
    "Replay": "flatfed.core.sampling",
    "Schedule": "flatfed.core.sampling",
    "Uniform": "flatfed.core.sampling",
    "Ramp": "flatfed.core.courses",
    "Cosine": "flatfed.core.courses",
    "Poly": "flatfed.core.courses",
    "Decay": "flatfed.core.courses",
    "Cycle": "flatfed.core.courses",
    "CycleFrom": "flatfed.core.courses",
    "Steps": "flatfed.core.courses",
    "FlatfedError": "flatfed.core.errors",
    "ConfigError": "flatfed.core.errors",
    "CheckpointError": "flatfed.core.errors",
    "EngineError": "flatfed.core.errors",
    "make": "flatfed.algorithms",
    "train": "flatfed.experiments.train",
    "resume": "flatfed.experiments.resume",
    "branch": "flatfed.experiments.branch",
    "load_run": "flatfed.experiments.loading",
    "laboratory": "flatfed.experiments.laboratory",
    "Run": "flatfed.experiments.run",
    "RunInterrupted": "flatfed.experiments.interruption",
}

if TYPE_CHECKING:
    from flatfed.algorithms import make as make
    from flatfed.core.algorithm import Algorithm as Algorithm
    from flatfed.core.algorithm import Average as Average
    from flatfed.core.algorithm import ClientOptimiser as ClientOptimiser
    from flatfed.core.courses import Cosine as Cosine
    from flatfed.core.courses import Cycle as Cycle
    from flatfed.core.courses import CycleFrom as CycleFrom
    from flatfed.core.courses import Decay as Decay
    from flatfed.core.courses import Poly as Poly
    from flatfed.core.courses import Ramp as Ramp
    from flatfed.core.courses import Steps as Steps
    from flatfed.core.errors import CheckpointError as CheckpointError
    from flatfed.core.errors import ConfigError as ConfigError
    from flatfed.core.errors import EngineError as EngineError
    from flatfed.core.errors import FlatfedError as FlatfedError
    from flatfed.core.examples import Partition as Partition
    from flatfed.core.layout import Local as Local
    from flatfed.core.messages import Message as Message
    from flatfed.core.metrics import Shown as Shown
    from flatfed.core.sampling import Bernoulli as Bernoulli
    from flatfed.core.sampling import Replay as Replay
    from flatfed.core.sampling import Schedule as Schedule
    from flatfed.core.sampling import Uniform as Uniform
    from flatfed.core.task import Task as Task
    from flatfed.experiments.branch import branch as branch
    from flatfed.experiments.interruption import RunInterrupted as RunInterrupted
    from flatfed.experiments.laboratory import laboratory as laboratory
    from flatfed.experiments.loading import load_run as load_run
    from flatfed.experiments.resume import resume as resume
    from flatfed.experiments.run import Run as Run
    from flatfed.experiments.train import train as train


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used; methods, optimisers and averages come from their registries."""
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if not name.startswith("_"):
        registered = importlib.import_module("flatfed.algorithms").classes()
        if name in registered:
            return registered[name]
    raise AttributeError(f"module 'flatfed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_HOME, *importlib.import_module("flatfed.algorithms").classes(), "__version__"])
