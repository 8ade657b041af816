"""FedProx: a proximal pull towards the received model."""

from __future__ import annotations

from torch import Tensor

from flatfed.algorithms.bases.server_rate import ServerRate
from flatfed.algorithms.client_optimisers import SGD
from flatfed.core.configuration.checking import NonNegative
from flatfed.core.method.algorithm import ClientOptimiser
from flatfed.core.method.client import Client


class FedProx(ServerRate, id="fedprox"):
    """FedAvg with a proximal pull towards the received model.

        q = g + mu (w_k - w)                                    of the objective f_k + mu/2 ||w_k - w||^2

    Li et al., "Federated optimization in heterogeneous networks", MLSys 2020.
    """

    mu: NonNegative = 0.1
    client_opt: ClientOptimiser = SGD()

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        """Add the proximal term."""
        return gradient + self.mu * (client.w - client.start)
