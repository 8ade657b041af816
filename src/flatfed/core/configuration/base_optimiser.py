"""Base optimisers: how the direction of a local step becomes the step. The family, and plain SGD, which is the default.

A method and its client optimiser make the direction; the client clips it; the base optimiser moves the model. What it
holds (momentum, moments) begins at zero in every round, or is `keep`-t between a client's rounds.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from flatfed.core.configuration.config import Config
from flatfed.core.configuration.registry import Registry
from flatfed.core.configuration.values import parse_value

if TYPE_CHECKING:  # the command line's help is made from settings, which are made from this: no torch
    from torch import Tensor

    from flatfed.core.method.client import Client

PREFIX = "base_"
"""What the names begin with under which a client keeps a base optimiser's vectors: `base_m`."""
STEPS = f"{PREFIX}steps"
"""Where a client keeps how many steps these have in them."""


@dataclass(slots=True)
class StepState:
    """What a base optimiser holds while a client takes its steps.

    Args:
        vectors: by name; one that is not there yet is zero.
        steps: how many have been taken, with the current one.
    """

    vectors: dict[str, Tensor] = field(default_factory=dict)
    steps: int = 0

    def vector(self, name: str, like: Tensor) -> Tensor:
        """Return a vector, to change in place; it begins at zero."""
        vector = self.vectors.get(name)
        if vector is None:
            vector = self.vectors[name] = like.new_zeros(like.shape)
        return vector


class BaseOptimiser(Config):
    """Family of base optimisers: each turns the direction of a local step into the step."""

    registry: ClassVar[Registry[BaseOptimiser]] = Registry("base optimiser")
    schedules: ClassVar[bool | frozenset[str]] = True

    row_wise: ClassVar[bool] = True
    """`step` does the same with a client in each row of `w` and `q` as with each client's vectors."""

    keep: bool = dataclasses.field(default=False, kw_only=True)
    """Hold vectors from one of a client's rounds to its next, instead of beginning at zero in each."""

    def vectors(self) -> tuple[str, ...]:
        """Name the vectors that it holds."""
        return ()

    def kept(self) -> tuple[str, ...]:
        """Name the vectors that clients keep between rounds."""
        return self.vectors() if self.keep else ()

    def is_plain(self, momentum: float) -> bool:
        """Say whether its steps are plain ones, `w <- w - lr (q + wd w)`, with this client momentum."""
        return False

    def fault(self, momentum: float) -> str:
        """Return why it cannot be used with this client momentum; empty where it can."""
        return f"{self.id} has a momentum of its own; leave momentum at 0" if momentum > 0 else ""

    def step(self, client: Client, q: Tensor, scale: float, held: StepState) -> None:
        """Move `client.w` in place along `scale * q`, with `client.lr` and `client.weight_decay`.

        `q` is not this method's to change. `scale` is what clipping has come to, nearly always 1.
        """
        raise NotImplementedError

    def __str__(self) -> str:
        """Return it as it is written, without what is default: `adamw(beta2=0.99)`."""
        defaults = {entry.name: entry.default for entry in dataclasses.fields(self)}
        return self._written({name: value for name, value in self._values().items() if value != defaults[name]})

    def recorded(self) -> str:
        """Return it as it is written, with all parameters: a record must not change with a default."""
        return self._written(self._values())

    def _written(self, values: dict[str, Any]) -> str:
        if not values:
            return self.id
        return f"{self.id}({', '.join(f'{name}={_written(value)}' for name, value in values.items())})"


def _written(value: Any) -> str:
    """Return a value as it is written between brackets, and read there again: words as they are, if they stay words."""
    if isinstance(value, Config):  # a schedule, or a base optimiser inside of another
        return str(value)
    if isinstance(value, str) and value.strip() == value and parse_value(value) == value:
        return value
    return json.dumps(value)


class SGDStep(BaseOptimiser, id="sgd"):
    """Gradient descent, with the client momentum of the settings: `b <- momentum b + q + wd w`, `w <- w - lr b`.

    With `nesterov` the step is `w <- w - lr (q + wd w + momentum b)`. Without momentum it is the plain step.
    """

    nesterov: bool = False

    def vectors(self) -> tuple[str, ...]:
        """Name the momentum buffer."""
        return ("b",)

    def is_plain(self, momentum: float) -> bool:
        """Say whether there is no momentum."""
        return momentum == 0

    def fault(self, momentum: float) -> str:
        """Refuse Nesterov's momentum of 0."""
        return "nesterov needs a momentum above 0" if self.nesterov and momentum == 0 else ""

    def step(self, client: Client, q: Tensor, scale: float, held: StepState) -> None:
        """Move along the direction, or along the buffer."""
        w, lr, decay, momentum = client.w, client.lr, client.weight_decay, client.momentum
        if momentum > 0:
            b = held.vector("b", w)
            b.mul_(momentum).add_(q, alpha=scale).add_(w, alpha=decay)
            if self.nesterov:
                # All of it before `w` moves: the decay acts where the step begins.
                ahead = b.mul(momentum).add_(q, alpha=scale).add_(w, alpha=decay)
                w.add_(ahead, alpha=-lr)
            else:
                w.add_(b, alpha=-lr)
            return
        if decay:
            # Before the step: afterwards, the decay would act on the step as well.
            w.mul_(1.0 - lr * decay)
        w.add_(q, alpha=-lr * scale)
