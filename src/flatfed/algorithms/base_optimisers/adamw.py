"""AdamW: Adam with weight decay of its own, beside the moments."""

from __future__ import annotations

from torch import Tensor

from flatfed.algorithms.base_optimisers.adam import Adam, adam_step, scaled
from flatfed.core.configuration.base_optimiser import StepState
from flatfed.core.method.client import Client


def decay(client: Client) -> None:
    """Apply decoupled weight decay, `w <- (1 - lr wd) w`, in place."""
    if client.weight_decay:
        client.w.mul_(1.0 - client.lr * client.weight_decay)


class AdamW(Adam, id="adamw"):
    """Adam with decoupled weight decay: `w <- (1 - lr wd) w`, then Adam's step of `q` alone.

    Loshchilov & Hutter, "Decoupled weight decay regularization", ICLR 2019.
    """

    def step(self, client: Client, q: Tensor, scale: float, held: StepState) -> None:
        """Decay, then step along the direction."""
        decay(client)
        adam_step(client.w, scaled(q, scale), client.lr, held, self.beta1, self.beta2, self.eps)
