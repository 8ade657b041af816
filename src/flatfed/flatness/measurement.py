"""The contract of a measurement: what it sees and what it returns. One file per kind in `measurements/`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from flatfed.core.configuration.config import Config, Registry
from flatfed.core.errors import ConfigError
from flatfed.core.evaluation.evaluations import calibrated
from flatfed.core.evaluation.statistics import has_batch_norm
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.model.layout import LOCAL_BUFFERS, LOCAL_COUNTERS, LOCAL_PARAMETERS
from flatfed.core.round.federation import Federation
from flatfed.flatness.sample import Sample, own
from flatfed.flatness.surface import Surface
from flatfed.runs.results import finite

LOCAL = (LOCAL_PARAMETERS, LOCAL_BUFFERS, LOCAL_COUNTERS)
OnStep = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Subject:
    """What is measured: a model on its surface and, for a run, the federation that it stands in.

    `on_step` hears what is being done: name, pieces done, pieces in all (None while that is not known).
    """

    surface: Surface
    federation: Federation | None = None
    on_step: OnStep = lambda name, done, total: None

    def run(self, who: str) -> Federation:
        """Return the federation, or say that there is none."""
        if self.federation is None:
            raise ConfigError(f"{who} asks the clients, so it needs a run, not a model alone")
        return self.federation

    def everywhere(self) -> Surface:
        """Return the surface of the server's own model, which an average may differ from, with fitting statistics."""
        assert self.federation is not None
        return surface_at(self.federation, self.federation.server.w, self.surface.sample)

    def on(self, client: int, of: Surface | None = None, sample: Sample | None = None) -> Surface:
        """Return a global model's loss over a client's own examples, with the parts that it keeps for itself."""
        assert self.federation is not None
        surface = of or self.surface
        kept = self.federation.clients.read(client)
        local = {name: getattr(kept, name) for name in LOCAL if name in kept}
        return surface.over(sample or own(client)).at(surface.w, {**surface.buffers, **local})

    def counted(self, name: str, product: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """Return the product, telling each time it is done."""
        done = 0

        def watched(v: Tensor) -> Tensor:
            nonlocal done
            self.on_step(f"{name}: product {done + 1}", done, None)
            done += 1
            return product(v)

        return watched


@dataclass(frozen=True)
class Reading:
    """What was found: numbers by name, numbers by client, lists, and remarks on how well they are known."""

    numbers: Mapping[str, float]
    clients: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    series: Mapping[str, list[float]] = field(default_factory=dict)
    verdict: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the same, ready for JSON."""
        clients = {name: {str(k): value for k, value in by.items()} for name, by in self.clients.items()}
        told = {"numbers": self.numbers, "clients": clients, "series": self.series, "verdict": self.verdict}
        plain: dict[str, Any] = finite(told)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Reading:
        """Undo `to_dict`."""
        clients = {name: {int(k): _number(v) for k, v in by.items()} for name, by in data["clients"].items()}
        numbers = {name: _number(value) for name, value in data["numbers"].items()}
        series = {name: [_number(value) for value in values] for name, values in data["series"].items()}
        return cls(numbers, clients, series, data["verdict"])


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def surface_at(federation: Federation, w: Tensor, sample: Sample) -> Surface:
    """Return the loss of a global model, with the statistics that evaluation would use."""
    task, engine, buffers = federation.task, federation.engine, federation.server.buffers
    surface = Surface(engine, task, w, dict(buffers), sample, task.layout())
    if federation.settings.eval_stats == "recalibrate" and has_batch_norm(task.model):
        return surface.at(w, calibrated(engine, task, w, buffers))
    return surface


class Measurement(Config):
    """Family of measurements: each takes numbers of a model, of its surface or of its clients, and changes nothing."""

    registry: ClassVar[Registry[Measurement]] = Registry("measurement")

    version: ClassVar[int] = 1
    """Raised when the same parameters come to mean something else: results that were kept before do not count."""

    @property
    def looks_back(self) -> bool:
        """Say whether it asks for the local models of the last round."""
        return False

    def unfit(self, algorithm: Algorithm) -> str:
        """Say why this means nothing for a method, if so."""
        return ""

    def measure(self, subject: Subject) -> Reading:
        """Take the measurement."""
        raise NotImplementedError
