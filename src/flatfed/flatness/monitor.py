"""Measurements taken while a run goes on: they read its state, draw from keys of their own, and change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flatfed.core.errors import ConfigError
from flatfed.core.round.federation import Federation

# From the package, whose import registers every measurement: a run that is opened names some of them.
from flatfed.flatness.measurements import Measurement, MeasurementResult, Subject
from flatfed.flatness.sums import Sample
from flatfed.flatness.surface import surface_at


@dataclass(frozen=True)
class Monitor:
    """A measurement of the evaluated model after every n rounds."""

    measurement: Measurement
    every: int
    sample: Sample

    @property
    def looks_back(self) -> bool:
        """Say whether it asks for the local models of the round that was just played."""
        return self.measurement.looks_back

    def due(self, round: int) -> bool:
        """Say whether it is taken after this round."""
        return (round + 1) % self.every == 0

    def read(self, federation: Federation) -> Mapping[str, Any]:
        """Return what goes into the round's row: numbers to `watch`, and those of single clients."""
        result = self._result(federation)
        row: dict[str, Any] = {"watch": dict(result.numbers)}
        by_client = result.clients_by_text()
        if by_client:
            row["clients_watch"] = by_client
        return row

    def _result(self, federation: Federation) -> MeasurementResult:
        """Take the measurement; what cannot be measured (a loss that is not finite, say) is not a number."""
        # A run goes on without a number that cannot be had: a diverging model still has rounds to play.
        try:
            surface = surface_at(federation, federation.evaluated, self.sample)
            return self.measurement.measure(Subject(surface, federation))
        except ConfigError:
            return MeasurementResult({self.measurement.id: float("nan")})

    def to_dict(self) -> dict[str, Any]:
        """Return the same, ready for JSON."""
        sample = {"of": self.sample.of, "most": self.sample.most, "seed": self.sample.seed}
        return {"measurement": self.measurement.to_dict(), "every": self.every, "sample": sample}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Monitor:
        """Undo `to_dict`."""
        measurement = Measurement.registry.from_dict(data["measurement"])
        return cls(measurement, int(data["every"]), Sample(**data["sample"]))
