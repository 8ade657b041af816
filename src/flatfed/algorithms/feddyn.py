"""FedDyn: dynamic regularisation by accumulated drifts."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from flatfed.algorithms.client_optimisers import SGD
from flatfed.core.algorithm import Algorithm, ClientOptimiser
from flatfed.core.client import Client
from flatfed.core.config import NonNegative
from flatfed.core.messages import Message
from flatfed.core.server import Replies, Server
from flatfed.core.state import Slots, vector


class FedDyn(Algorithm, id="feddyn"):
    """Dynamic regularisation: duals that sum each client's past updates align the clients.

        q   = g + alpha (w_k - w) + alpha h_k
        h_k <- h_k + (w_k - w)
        H   <- H + (1/N) sum_S (w_k - w)                        the mean of all h_k
        w   <- mean_S w_k + H

    Acar et al., "Federated learning based on dynamic regularization", ICLR 2021.
    """

    alpha: NonNegative = 0.01
    client_opt: ClientOptimiser = SGD()

    uniform: ClassVar[bool] = True

    def server_state(self) -> Slots:
        """Declare `H`."""
        return {"H": vector()}

    def client_state(self) -> Slots:
        """Declare `h_i`."""
        return {"h": vector()}

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        """Add the dynamic regulariser's gradient."""
        return gradient + self.alpha * (client.w - client.start + client.kept.h)

    def finish(self, client: Client) -> Message:
        """Add the update to the dual."""
        client.kept.h += client.w - client.start
        return Message(w=client.w)

    def update(self, server: Server, replies: Replies) -> None:
        """Shift the mean by the mean dual of all N clients."""
        update = replies.mean_update()
        server.kept.H += len(replies) / server.population * update
        server.w = server.w + update + server.kept.H
