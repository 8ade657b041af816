"""Clients on a Ray cluster: what is chosen, and what is checked before anything is started."""

from __future__ import annotations

import importlib.util
import math

from flatfed.core.configuration.checking import Count, Positive
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import PARAMETER, ConfigError
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.engine import Engine
from flatfed.core.round.trainer import Pulse, no_pulse
from flatfed.core.task.task import Task
from flatfed.engines.choice import EngineConfig
from flatfed.engines.ray_cluster.cluster import LOCAL, refuse_silent


class Ray(EngineConfig, id="ray"):
    """Clients in actors of a Ray cluster; the same bits as in worker processes.

    Args:
        address: `"local"` starts Ray on this machine for as long as the engine runs; `"auto"` is the cluster that this
            machine belongs to; otherwise `HOST:PORT` of a head node.
        workers: how many actors; None is as many as the cluster has room for, also while nodes join and leave.
        resources: what each actor takes of its node: `"CPU=1"`, `"CPU=1,GPU=0.5"`.
        minimum: with fewer actors than this the run waits.
        patience: for this many seconds; then it stops, with a checkpoint.
        node_data: each node reads the examples from this directory of its own, and their fingerprint is compared; None
            sends them with the task.
    """

    address: str = LOCAL
    workers: Count | None = None
    resources: str = "CPU=1"
    minimum: Count = 1
    patience: Positive = 120.0
    node_data: str | None = None

    def start(self, task: Task, algorithm: Algorithm, settings: Settings, pulse: Pulse = no_pulse) -> Engine:
        """Connect to the cluster and start the actors."""
        self.check(settings)
        self._refuse_no_origin(task)
        from flatfed.engines.ray_cluster.engine import RayEngine

        return RayEngine(task, algorithm, settings, self, pulse)

    def check(self, settings: Settings) -> None:
        """Refuse what Ray cannot be asked for, and a missing Ray."""
        parsed_resources(self.resources)
        if self.workers is not None and self.minimum > self.workers:
            raise ConfigError(f"ray: minimum={self.minimum} can never be met with {self.workers} workers")
        if importlib.util.find_spec("ray") is None:
            raise ConfigError("the engine ray needs the package ray; install it with: pip install 'flatfed[ray]'")
        self._refuse_part_of_a_path()
        refuse_silent(self.address)

    def _refuse_part_of_a_path(self) -> None:
        """Refuse a directory that depends on where a process was started: nodes have no such place in common."""
        if self.node_data is None or self.node_data.startswith(("/", "~")):
            return
        raise ConfigError(
            f"{PARAMETER} must be a whole path that each node knows, such as /data, not {self.node_data!r:.60}",
            parameter="node_data",
        )

    def _refuse_no_origin(self, task: Task) -> None:
        """Refuse a task whose examples only this process has."""
        if self.node_data is None or task.origin is not None:
            return
        raise ConfigError(
            "this task was not made from a data set by name, so its examples must be sent to the nodes; leave "
            f"{PARAMETER} out",
            parameter="node_data",
        )


def parsed_resources(text: str) -> dict[str, float]:
    """Return `CPU=1,GPU=0.5` as amounts by name."""
    amounts: dict[str, float] = {}
    for part in text.split(","):
        name, sign, amount = part.partition("=")
        name = name.strip()
        if not sign or not name or name in amounts:
            raise _unclear(text)
        amounts[name] = _amount(amount, text)
    return amounts


def _amount(amount: str, text: str) -> float:
    try:
        number = float(amount)
    except ValueError:
        raise _unclear(text) from None
    if not math.isfinite(number) or number < 0:
        raise _unclear(text)
    return number


def _unclear(text: str) -> ConfigError:
    return ConfigError(f"{PARAMETER} must be like CPU=1,GPU=0.5, not {text!r:.60}", parameter="resources")
