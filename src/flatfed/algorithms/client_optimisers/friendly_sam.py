"""Friendly SAM: the ascent without what the batches have in common."""

from __future__ import annotations

from torch import Tensor

from flatfed.core.configuration.checking import Fraction, NonNegative
from flatfed.core.method.algorithm import ClientOptimiser
from flatfed.core.method.client import Client
from flatfed.core.method.vectors import unit


class FriendlySAM(ClientOptimiser, id="fsam"):
    """Friendly SAM: the ascent leaves out what the moving average of gradients explains; two backprops.

        g(w + rho * unit(g(w) - sigma m))                       the first step of a round follows g(w)
        m <- lam m + (1 - lam) g(w)                             m = g(w) after the first step

    Li et al., "Friendly sharpness-aware minimization", CVPR 2024.
    """

    rho: NonNegative = 0.2
    sigma: NonNegative = 1.0
    lam: Fraction = 0.6

    def gradient(self, client: Client) -> Tensor:
        """Return the gradient at the friendly ascent point."""
        g = client.gradient()
        first = client.step == 0
        ascent = unit(g if first else g - self.sigma * client.memo.m)
        # A copy, as a gradient's memory is used again by the call after the next.
        client.memo.m = g.clone() if first else g.lerp(client.memo.m, self.lam)
        return client.gradient(at=client.w + self.rho * ascent)
