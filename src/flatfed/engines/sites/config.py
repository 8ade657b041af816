"""Where clients run: at sites that keep their data and their states."""

from __future__ import annotations

from typing import ClassVar, cast

from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import ConfigError
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.engine import Engine
from flatfed.core.round.federation import RoundMonitor
from flatfed.core.round.trainer import Pulse, no_pulse
from flatfed.core.task.task import Task
from flatfed.engines.choice import EngineConfig
from flatfed.engines.sites.engine import Correspondence, SitesEngine
from flatfed.engines.sites.evaluation import SiteEvaluation


class AtSites(EngineConfig):
    """The clients of a roster at their sites; it cannot be written down, as sites are called anew for every start."""

    has_examples: ClassVar[bool] = True
    keeps_states: ClassVar[bool] = True

    correspondence: object

    def start(self, task: Task, algorithm: Algorithm, settings: Settings, pulse: Pulse = no_pulse) -> Engine:
        """Return the engine that writes to the sites."""
        return SitesEngine(task, algorithm, settings, cast(Correspondence, self.correspondence), pulse)

    def check(self, settings: Settings) -> None:
        """Refuse what only makes sense where the clients are in reach."""
        if settings.vectorised:
            raise ConfigError("clients at sites are not vectorised; leave vectorised out")

    def monitors(self, algorithm: Algorithm, settings: Settings) -> tuple[RoundMonitor, ...]:
        """Return the evaluation at the sites."""
        return (SiteEvaluation(cast(Correspondence, self.correspondence), algorithm, settings),)
