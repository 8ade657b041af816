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
    "Task": "flatfed.core.task.task",
    "Partition": "flatfed.core.task.examples",
    "Local": "flatfed.core.model.layout",
    "Shown": "flatfed.core.task.metrics",
    "Classification": "flatfed.core.task.metrics",
    "Regression": "flatfed.core.task.token_metrics",
    "TokenClassification": "flatfed.core.task.token_metrics",
    "CausalLanguageModel": "flatfed.core.task.token_metrics",
    "Ragged": "flatfed.core.task.ragged",
    "token_cross_entropy": "flatfed.core.task.losses",
    "causal_cross_entropy": "flatfed.core.task.losses",
    "model_loss": "flatfed.core.task.losses",
    "Message": "flatfed.core.method.messages",
    "Algorithm": "flatfed.core.method.algorithm",
    "ClientOptimiser": "flatfed.core.method.algorithm",
    "Average": "flatfed.core.method.algorithm",
    "BaseOptimiser": "flatfed.core.configuration.base_optimiser",
    "Bernoulli": "flatfed.core.round.sampling",
    "Replay": "flatfed.core.round.sampling",
    "Plateau": "flatfed.core.configuration.history_conditions",
    "Schedule": "flatfed.core.configuration.schedules",
    "Uniform": "flatfed.core.round.sampling",
    "EngineConfig": "flatfed.engines.choice",
    "InProcess": "flatfed.engines.choice",
    "Processes": "flatfed.engines.choice",
    "Ray": "flatfed.engines.ray_cluster.config",
    "Roster": "flatfed.core.task.roster",
    "FlatfedError": "flatfed.core.errors",
    "ConfigError": "flatfed.core.errors",
    "CheckpointError": "flatfed.core.errors",
    "EngineError": "flatfed.core.errors",
    "make": "flatfed.algorithms",
    "hugging_face": "flatfed.experiments.tasks.hub_task",
    "train": "flatfed.experiments.running.train",
    "resume": "flatfed.experiments.running.resume",
    "branch": "flatfed.experiments.running.branch",
    "load_run": "flatfed.experiments.running.run",
    "bundle": "flatfed.experiments.bundling.bundle_run",
    "verify": "flatfed.experiments.bundling.verify_bundle",
    "dataset": "flatfed.experiments.scripting.datasets",
    "DataSet": "flatfed.experiments.scripting.datasets",
    "partition": "flatfed.experiments.scripting.datasets",
    "task": "flatfed.experiments.scripting.tasks_by_name",
    "compare": "flatfed.experiments.scripting.compare",
    "Compared": "flatfed.experiments.scripting.compare",
    "Preprocessing": "flatfed.data.tables.preprocessing",
    "laboratory": "flatfed.experiments.measuring.laboratory",
    "Run": "flatfed.experiments.running.run",
    "Callbacks": "flatfed.experiments.running.callbacks",
    "RunInterrupted": "flatfed.experiments.running.interruption",
    "Study": "flatfed.studies.study",
    "Tracker": "flatfed.tracking.tracker",
    "TensorBoard": "flatfed.tracking.tensorboard_events",
    "MLflow": "flatfed.tracking.mlflow_runs",
    "WandB": "flatfed.tracking.wandb_runs",
}

if TYPE_CHECKING:
    from flatfed.algorithms import make as make
    from flatfed.core.configuration.base_optimiser import BaseOptimiser as BaseOptimiser
    from flatfed.core.configuration.history_conditions import Plateau as Plateau
    from flatfed.core.configuration.schedules import Cosine as Cosine
    from flatfed.core.configuration.schedules import Cycle as Cycle
    from flatfed.core.configuration.schedules import CycleFrom as CycleFrom
    from flatfed.core.configuration.schedules import Decay as Decay
    from flatfed.core.configuration.schedules import Poly as Poly
    from flatfed.core.configuration.schedules import Ramp as Ramp
    from flatfed.core.configuration.schedules import Schedule as Schedule
    from flatfed.core.configuration.schedules import Steps as Steps
    from flatfed.core.errors import CheckpointError as CheckpointError
    from flatfed.core.errors import ConfigError as ConfigError
    from flatfed.core.errors import EngineError as EngineError
    from flatfed.core.errors import FlatfedError as FlatfedError
    from flatfed.core.method.algorithm import Algorithm as Algorithm
    from flatfed.core.method.algorithm import Average as Average
    from flatfed.core.method.algorithm import ClientOptimiser as ClientOptimiser
    from flatfed.core.method.messages import Message as Message
    from flatfed.core.model.layout import Local as Local
    from flatfed.core.round.sampling import Bernoulli as Bernoulli
    from flatfed.core.round.sampling import Replay as Replay
    from flatfed.core.round.sampling import Uniform as Uniform
    from flatfed.core.task.examples import Partition as Partition
    from flatfed.core.task.losses import causal_cross_entropy as causal_cross_entropy
    from flatfed.core.task.losses import model_loss as model_loss
    from flatfed.core.task.losses import token_cross_entropy as token_cross_entropy
    from flatfed.core.task.metrics import Classification as Classification
    from flatfed.core.task.metrics import Shown as Shown
    from flatfed.core.task.ragged import Ragged as Ragged
    from flatfed.core.task.roster import Roster as Roster
    from flatfed.core.task.task import Task as Task
    from flatfed.core.task.token_metrics import CausalLanguageModel as CausalLanguageModel
    from flatfed.core.task.token_metrics import Regression as Regression
    from flatfed.core.task.token_metrics import TokenClassification as TokenClassification
    from flatfed.data.tables.preprocessing import Preprocessing as Preprocessing
    from flatfed.engines.choice import EngineConfig as EngineConfig
    from flatfed.engines.choice import InProcess as InProcess
    from flatfed.engines.choice import Processes as Processes
    from flatfed.engines.ray_cluster.config import Ray as Ray
    from flatfed.experiments.bundling.bundle_run import bundle as bundle
    from flatfed.experiments.bundling.verify_bundle import verify as verify
    from flatfed.experiments.measuring.laboratory import laboratory as laboratory
    from flatfed.experiments.running.branch import branch as branch
    from flatfed.experiments.running.callbacks import Callbacks as Callbacks
    from flatfed.experiments.running.interruption import RunInterrupted as RunInterrupted
    from flatfed.experiments.running.resume import resume as resume
    from flatfed.experiments.running.run import Run as Run
    from flatfed.experiments.running.run import load_run as load_run
    from flatfed.experiments.running.train import train as train
    from flatfed.experiments.scripting.compare import Compared as Compared
    from flatfed.experiments.scripting.compare import compare as compare
    from flatfed.experiments.scripting.datasets import DataSet as DataSet
    from flatfed.experiments.scripting.datasets import dataset as dataset
    from flatfed.experiments.scripting.datasets import partition as partition
    from flatfed.experiments.scripting.tasks_by_name import task as task
    from flatfed.experiments.tasks.hub_task import hugging_face as hugging_face
    from flatfed.studies.study import Study as Study
    from flatfed.tracking.mlflow_runs import MLflow as MLflow
    from flatfed.tracking.tensorboard_events import TensorBoard as TensorBoard
    from flatfed.tracking.tracker import Tracker as Tracker
    from flatfed.tracking.wandb_runs import WandB as WandB


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used; methods, optimisers and averages come from their registries."""
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if not name.startswith("_"):
        registered = _registered()
        if name in registered:
            return registered[name]
    raise AttributeError(f"module 'flatfed' has no attribute {name!r}")


def _registered() -> dict[str, Any]:
    """Return methods, optimisers, averages and schedules by class name, those of other packages included."""
    methods: dict[str, Any] = importlib.import_module("flatfed.algorithms").classes()
    schedules = importlib.import_module("flatfed.core.configuration.schedules").Schedule.registry
    return methods | {cls.__name__: cls for cls in schedules.values()}


def __dir__() -> list[str]:
    return sorted([*_HOME, *_registered(), "__version__"])
