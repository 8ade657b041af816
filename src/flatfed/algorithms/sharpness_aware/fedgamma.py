"""FedGAMMA: SCAFFOLD with SAM's gradient."""

from __future__ import annotations

from torch import Tensor

from flatfed.algorithms.bases.control_variates import ControlVariates
from flatfed.algorithms.bases.server_rate import ServerRate
from flatfed.algorithms.client_optimisers import sam_gradient
from flatfed.core.configuration.checking import NonNegative
from flatfed.core.method.client import Client


class FedGAMMA(ServerRate, ControlVariates, id="fedgamma"):
    """SCAFFOLD with SAM's gradient; the ascent follows the raw gradient.

        q   = g(w_k + rho * unit(g(w_k))) - c_k + c
        c_k <- c_k - c - (w_k - w)/(K_k lr)
        w   <- w + mean_S (w_k - w)
        c   <- c + (1/N) sum_S (change of c_k)

    Dai et al., "FedGAMMA: Federated learning with global sharpness-aware minimization", IEEE TNNLS 2023.
    """

    rho: NonNegative = 0.1

    def gradient(self, client: Client) -> Tensor:
        """Return SAM's gradient."""
        return sam_gradient(client, self.rho)
