"""What a training run leaves."""

from __future__ import annotations

from dataclasses import dataclass, field

from flatfed.testing.naive.model import Vector
from flatfed.testing.naive.swa import average_model
from flatfed.testing.naive.training import Setup


@dataclass
class Outcome:
    """The global model after each round, and what clients and server hold at the end."""

    setup: Setup
    models: list[Vector]
    client: dict[str, list[Vector] | list[float]] = field(default_factory=dict)
    server: dict[str, Vector | float] = field(default_factory=dict)

    @property
    def vector(self) -> Vector:
        """The last global model."""
        return self.models[-1]

    @property
    def eval_vector(self) -> Vector:
        """What is evaluated."""
        return average_model(self.setup, self.models)
