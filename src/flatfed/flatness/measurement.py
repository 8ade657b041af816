"""The contract of a measurement: what it sees and what it returns. One file per kind in `measurements/`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from flatfed.core.configuration.config import Config
from flatfed.core.configuration.registry import Registry
from flatfed.core.errors import ConfigError
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.model.layout import LOCAL_BUFFERS, LOCAL_COUNTERS, LOCAL_PARAMETERS
from flatfed.core.round.federation import Federation
from flatfed.flatness.sums import Sample, own
from flatfed.flatness.surface import Surface, surface_at
from flatfed.runs.results import finite

LOCAL = (LOCAL_PARAMETERS, LOCAL_BUFFERS, LOCAL_COUNTERS)
PRODUCTS_VERSION = 2
"""Version of measurements made of Hessian products: by tangents their last digits are others than before."""
OnStep = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Subject:
    """What is measured: a model on its surface and, for a run, the federation that it stands in.

    `on_step` hears what is being done: name, pieces done, pieces in all (None while that is not known). Where there is
    no federation, `needs` says what a measurement of clients would need.
    """

    surface: Surface
    federation: Federation | None = None
    on_step: OnStep = lambda name, done, total: None
    needs: str = "a run, not a model alone"

    def run(self, who: str) -> Federation:
        """Return the federation, or say that there is none."""
        if self.federation is None:
            raise ConfigError(f"{who} asks the clients, so it needs {self.needs}")
        return self.federation

    def everywhere(self) -> Surface:
        """Return the surface of the server's own model, which an average may differ from, with fitting statistics."""
        assert self.federation is not None
        return surface_at(self.federation, self.federation.server.w, self.surface.sample)

    def on(self, client: int, of: Surface | None = None, sample: Sample | None = None) -> Surface:
        """Return a global model's loss over a client's own examples, with the parts that it keeps for itself."""
        assert self.federation is not None
        surface = of or self.surface
        examples = sample or own(client)
        kept = self.federation.clients.read(client)
        local = {name: getattr(kept, name) for name in LOCAL if name in kept}
        return surface.over(examples).at(surface.w, {**surface.buffers, **local})

    def counted(
        self, name: str, product: Callable[[Tensor], Tensor], most: int | None = None
    ) -> Callable[[Tensor], Tensor]:
        """Return the product; `on_step` hears of each time it is taken, and how often it is at most."""
        done = 0
        limit = "" if most is None else f" of ≤ {most}"

        def watched(v: Tensor) -> Tensor:
            nonlocal done
            self.on_step(f"{name}: product {done + 1}{limit}", done, None)
            done += 1
            return product(v)

        return watched


@dataclass(frozen=True)
class MeasurementResult:
    """What a measurement gives: numbers by name, numbers by client, lists, and a remark on how well they are known."""

    numbers: Mapping[str, float]
    clients: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    series: Mapping[str, list[float]] = field(default_factory=dict)
    remark: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the same, ready for JSON."""
        parts = {
            "numbers": self.numbers,
            "clients": self.clients_by_text(),
            "series": self.series,
            "remark": self.remark,
        }
        plain: dict[str, Any] = finite(parts)
        return plain

    def clients_by_text(self) -> dict[str, dict[str, float]]:
        """Return the numbers by client; JSON has no keys but text."""
        return {name: {str(k): value for k, value in values.items()} for name, values in self.clients.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MeasurementResult:
        """Undo `to_dict`."""
        clients = {name: _by_client(values) for name, values in data["clients"].items()}
        numbers = {name: _number(value) for name, value in data["numbers"].items()}
        series = {name: list(map(_number, values)) for name, values in data["series"].items()}
        return cls(numbers, clients, series, data["remark"])


def _by_client(values: Mapping[str, float | None]) -> dict[int, float]:
    return {int(client): _number(value) for client, value in values.items()}


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


class Measurement(Config):
    """Family of measurements: each takes numbers of a model, of its surface or of its clients, and changes nothing.

    A monitor measures in the middle of a run, and the run must end with the same bits: a measurement reads the state,
    plays rounds on copies (`core/round/probe.py`) and draws from keys of its own.
    """

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

    def measure(self, subject: Subject) -> MeasurementResult:
        """Take the measurement."""
        raise NotImplementedError


class ClientMeasurement(Measurement):
    """A measurement that asks the clients for more than a round does: their examples, or their models."""
