"""FedDyn: dynamic regularisation by accumulated drifts."""

from __future__ import annotations

from flatfed.algorithms.bases.duals import Duals
from flatfed.algorithms.client_optimisers import SGD
from flatfed.core.configuration.checking import NonNegative
from flatfed.core.method.algorithm import ClientOptimiser


class FedDyn(Duals, id="feddyn"):
    """Dynamic regularisation: duals that sum each client's past updates align the clients.

        q   = g + alpha (w_k - w) + alpha h_k
        h_k <- h_k + (w_k - w)
        H   <- H + (1/N) sum_S (w_k - w)                        the mean of all h_k
        w   <- mean_S w_k + H

    Acar et al., "Federated learning based on dynamic regularization", ICLR 2021.
    """

    alpha: NonNegative = 0.01
    client_opt: ClientOptimiser = SGD()

    @property
    def penalty(self) -> float:
        """The weight of the regulariser, alpha."""
        return self.alpha
