"""Adam: each entry of the step is divided by the root of a running mean of its square."""

from __future__ import annotations

import math

from torch import Tensor

from flatfed.core.configuration.base_optimiser import BaseOptimiser, StepState
from flatfed.core.configuration.checking import Momentum, NonNegative
from flatfed.core.method.client import Client


def adam_step(w: Tensor, q: Tensor, lr: float, held: StepState, beta1: float, beta2: float, eps: float) -> None:
    """Apply `w <- w - lr m^/(sqrt(v^) + eps)` in place, with the moments `m`, `v` that are held, corrected for bias."""
    m, v = held.vector("m", w), held.vector("v", w)
    m.lerp_(q, 1 - beta1)
    v.mul_(beta2).addcmul_(q, q, value=1 - beta2)
    of_m, of_v = 1 - beta1**held.steps, 1 - beta2**held.steps
    w.addcdiv_(m, v.sqrt().div_(math.sqrt(of_v)).add_(eps), value=-lr / of_m)


def scaled(q: Tensor, scale: float) -> Tensor:
    """Return the clipped direction; itself where nothing was clipped."""
    return q if scale == 1.0 else q * scale


class Adam(BaseOptimiser, id="adam"):
    """Adam; weight decay is added to the direction: `m^/(sqrt(v^) + eps)` of `q + wd w`.

        m <- beta1 m + (1 - beta1) q,   v <- beta2 v + (1 - beta2) q^2
        w <- w - lr (m/(1 - beta1^t))/(sqrt(v/(1 - beta2^t)) + eps)

    Kingma & Ba, "Adam: A method for stochastic optimization", ICLR 2015.
    """

    beta1: Momentum = 0.9
    beta2: Momentum = 0.999
    eps: NonNegative = 1e-8

    def vectors(self) -> tuple[str, ...]:
        """Name both moments."""
        return ("m", "v")

    def step(self, client: Client, q: Tensor, scale: float, held: StepState) -> None:
        """Step along the direction with its weight decay."""
        q = scaled(q, scale)
        if client.weight_decay:
            q = q.add(client.w, alpha=client.weight_decay)
        adam_step(client.w, q, client.lr, held, self.beta1, self.beta2, self.eps)
