"""FedACG: clients start ahead, where the server's momentum will take the model."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from flatfed.algorithms.bases.server_rate import ServerRate
from flatfed.algorithms.client_optimisers import SGD
from flatfed.core.configuration.checking import Momentum, NonNegative
from flatfed.core.method.algorithm import ClientOptimiser
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, vector
from flatfed.core.method.vectors import norm


class FedACG(ServerRate, id="fedacg"):
    """Accelerated client gradient: the lookahead model goes down, at no extra traffic.

        w~ = w + lam m                                          where the clients start
        q  = g + beta (w_k - w~)
        m  <- lam m + mean_S (w_k - w~)                         zero at first
        w  <- w + m

    Kim et al., "Communication-efficient federated learning with accelerated client gradient", CVPR 2024.
    """

    lam: Momentum = 0.85
    beta: NonNegative = 0.001
    client_opt: ClientOptimiser = SGD()

    uniform: ClassVar[bool] = True

    def server_state(self) -> Slots:
        """Declare the momentum."""
        return {"momentum": vector()}

    def broadcast(self, server: Server) -> Message:
        """Send the lookahead model."""
        return Message(w=server.w + self.lam * server.kept.momentum)

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        """Hold the client near the lookahead model."""
        return gradient + self.beta * (client.w - client.start)

    def update(self, server: Server, replies: Replies) -> None:
        """Step along the momentum, from the model itself."""
        server.kept.momentum = self.lam * server.kept.momentum + replies.mean_update()
        server.w = server.w + server.kept.momentum
        server.watch["momentum_norm"] = norm(server.kept.momentum)
