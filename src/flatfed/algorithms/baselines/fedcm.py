"""FedCM: client-level momentum from the last global direction."""

from __future__ import annotations

from flatfed.algorithms.bases.client_momentum import ClientMomentum
from flatfed.algorithms.client_optimisers import SGD
from flatfed.core.configuration.checking import Fraction
from flatfed.core.method.algorithm import ClientOptimiser


class FedCM(ClientMomentum, id="fedcm"):
    """Client-level momentum: the last global direction is mixed into every local step.

        q     = alpha g + (1 - alpha) Delta
        Delta <- -mean_S (w_k - w)/(K_k lr)
        w     <- w + mean_S (w_k - w)

    Xu et al., "FedCM: Federated learning with client-level momentum", 2021.
    """

    alpha: Fraction = 0.1
    client_opt: ClientOptimiser = SGD()

    @property
    def fresh(self) -> float:
        """The weight of the fresh gradient, alpha."""
        return self.alpha
