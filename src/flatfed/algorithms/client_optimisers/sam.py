"""SAM: the gradient at the ascent point."""

from __future__ import annotations

from torch import Tensor

from flatfed.core.configuration.checking import NonNegative
from flatfed.core.method.algorithm import ClientOptimiser
from flatfed.core.method.client import Client
from flatfed.core.method.vectors import unit


def sam_gradient(client: Client, rho: float) -> Tensor:
    """Return `g(w + rho * unit(g(w)))`, both on one batch."""
    ascent = unit(client.gradient())
    # `unit` has made a new vector, so working in place leaves the gradient as it is.
    return client.gradient(at=ascent.mul_(rho).add_(client.w))


class SAM(ClientOptimiser, id="sam"):
    """Sharpness-aware minimisation: `g(w + rho * unit(g(w)))`, both on one batch; two backprops.

    Foret et al., "Sharpness-aware minimization for efficiently improving generalization", ICLR 2021.
    """

    rho: NonNegative = 0.05

    def gradient(self, client: Client) -> Tensor:
        """Return the gradient at the ascent point."""
        return sam_gradient(client, self.rho)
