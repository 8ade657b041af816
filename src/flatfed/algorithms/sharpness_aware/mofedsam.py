"""MoFedSAM: FedCM with SAM's gradient."""

from __future__ import annotations

from torch import Tensor

from flatfed.algorithms.bases.client_momentum import ClientMomentum
from flatfed.algorithms.client_optimisers import sam_gradient
from flatfed.core.configuration.checking import Fraction, NonNegative
from flatfed.core.method.client import Client


class MoFedSAM(ClientMomentum, id="mofedsam"):
    """Client-level momentum with SAM's gradient; the ascent follows the raw gradient alone.

        q     = beta g(w_k + rho * unit(g(w_k))) + (1 - beta) Delta
        Delta <- -mean_S (w_k - w)/(K_k lr)
        w     <- w + mean_S (w_k - w)

    Qu et al., "Generalized federated learning via sharpness aware minimization", ICML 2022.
    """

    rho: NonNegative = 0.1
    beta: Fraction = 0.1

    @property
    def fresh(self) -> float:
        """The weight of the fresh gradient, beta."""
        return self.beta

    def gradient(self, client: Client) -> Tensor:
        """Return SAM's gradient."""
        return sam_gradient(client, self.rho)
