"""The engine of a Ray cluster: a pool whose workers are actors, on one node or many."""

from __future__ import annotations

import functools

from flatfed.core.configuration.settings import Settings
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.round.trainer import Pulse, no_pulse
from flatfed.core.task.task import Task
from flatfed.engines.pool.engine import PoolEngine
from flatfed.engines.ray_cluster.cluster import Cluster
from flatfed.engines.ray_cluster.config import Ray, parsed_resources
from flatfed.engines.ray_cluster.pool import ActorPool


class RayEngine(PoolEngine):
    """Runs clients in actors of a cluster; the same bits as `InProcessEngine`, whichever node does what."""

    def __init__(
        self, task: Task, algorithm: Algorithm, settings: Settings, config: Ray, pulse: Pulse = no_pulse
    ) -> None:
        cpus = parsed_resources(config.resources).get("CPU", 0.0)
        cluster = Cluster(config.address, cpus * (config.workers or 0))
        try:
            self._actors = ActorPool(cluster, task, algorithm, settings, config)
            super().__init__(self._actors, settings, pulse)
            self._actors.wait_for_the_first(pulse)
        except BaseException:
            cluster.leave()
            raise

    @functools.cached_property
    def description(self) -> str:
        """Where clients run, for people."""
        return self._actors.description
