"""FedAvg: the weighted mean of the clients' models."""

from __future__ import annotations

from flatfed.algorithms.client_optimisers import SGD
from flatfed.core.configuration.checking import Positive
from flatfed.core.method.algorithm import Algorithm, ClientOptimiser
from flatfed.core.method.server import Replies, Server


class FedAvg(Algorithm, id="fedavg"):
    """Federated averaging.

        w <- w + server_lr * sum_S p_k (w_k - w)

    McMahan et al., "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017.
    """

    server_lr: Positive = 1.0
    client_opt: ClientOptimiser = SGD()

    def update(self, server: Server, replies: Replies) -> None:
        """Step along the mean update."""
        server.w = server.w + self.server_lr * replies.mean_update()
