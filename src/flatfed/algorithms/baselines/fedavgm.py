"""FedAvgM: momentum on the server."""

from __future__ import annotations

from flatfed.algorithms.client_optimisers import SGD
from flatfed.core.configuration.checking import Momentum, Positive
from flatfed.core.method.algorithm import Algorithm, ClientOptimiser
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, vector


class FedAvgM(Algorithm, id="fedavgm"):
    """FedAvg with momentum on the server.

        m <- server_momentum * m + sum_S p_k (w_k - w)          m = 0 at first, no dampening
        w <- w + server_lr * m

    Hsu et al., "Measuring the effects of non-identical data distribution for federated visual classification",
    2019.
    """

    server_momentum: Momentum = 0.9
    server_lr: Positive = 1.0
    client_opt: ClientOptimiser = SGD()

    def server_state(self) -> Slots:
        """Declare the momentum."""
        return {"momentum": vector()}

    def update(self, server: Server, replies: Replies) -> None:
        """Step along the momentum."""
        server.kept.momentum = self.server_momentum * server.kept.momentum + replies.mean_update()
        server.w = server.w + self.server_lr * server.kept.momentum
