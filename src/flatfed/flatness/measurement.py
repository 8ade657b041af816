"""The contract of a measurement: what it sees and what it returns. One file per kind in `measurements/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from flatfed.core.algorithm import Algorithm
from flatfed.core.config import Config, Registry
from flatfed.core.errors import ConfigError
from flatfed.core.loop import Federation
from flatfed.flatness.surface import Surface

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
        return {"numbers": dict(self.numbers), "clients": clients, "series": dict(self.series), "verdict": self.verdict}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Reading:
        """Undo `to_dict`."""
        clients = {name: {int(k): value for k, value in by.items()} for name, by in data["clients"].items()}
        return cls(data["numbers"], clients, data["series"], data["verdict"])


class Measurement(Config):
    """Family of measurements: each takes numbers of a model, of its surface or of its clients, and changes nothing."""

    registry: ClassVar[Registry[Measurement]] = Registry("measurement")

    def unfit(self, algorithm: Algorithm) -> str:
        """Say why this means nothing for a method, if so."""
        return ""

    def measure(self, subject: Subject) -> Reading:
        """Take the measurement."""
        raise NotImplementedError
