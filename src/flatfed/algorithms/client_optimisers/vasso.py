"""VaSSO: the ascent along a moving average of gradients."""

from __future__ import annotations

from torch import Tensor

from flatfed.core.configuration.checking import Fraction, NonNegative
from flatfed.core.method.algorithm import ClientOptimiser
from flatfed.core.method.client import Client
from flatfed.core.method.vectors import unit


class VaSSO(ClientOptimiser, id="vasso"):
    """Variance-suppressed SAM: the ascent follows a moving average of gradients; two backprops.

        d <- (1 - theta) d + theta g(w)                         d = g(w) in the first step of a round
        g(w + rho * unit(d))

    Li and Giannakis, "Enhancing sharpness-aware optimization through variance suppression", NeurIPS 2023.
    """

    rho: NonNegative = 0.05
    theta: Fraction = 0.9

    def gradient(self, client: Client) -> Tensor:
        """Return the gradient at the smoothed ascent point."""
        g = client.gradient()
        # A copy, as a gradient's memory is used again by the call after the next.
        d = g.clone() if client.step == 0 else client.memo.d.lerp(g, self.theta)
        client.memo.d = d
        return client.gradient(at=client.w + self.rho * unit(d))
