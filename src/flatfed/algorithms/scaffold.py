"""SCAFFOLD: control variates against client drift."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

from flatfed.algorithms.client_optimisers import SGD
from flatfed.core.algorithm import Algorithm, ClientOptimiser
from flatfed.core.client import Client
from flatfed.core.config import Positive
from flatfed.core.messages import Message
from flatfed.core.server import Replies, Server
from flatfed.core.state import Slots, vector


class SCAFFOLD(Algorithm, id="scaffold"):
    """Stochastic controlled averaging: control variates against client drift.

        q   = g - c_k + c
        c_k <- c_k - c - (w_k - w)/(K_k lr)                     option I: the full-batch gradient at w
        w   <- w + server_lr * mean_S (w_k - w)
        c   <- c + (1/N) sum_S (change of c_k)

    Karimireddy et al., "SCAFFOLD: Stochastic controlled averaging for federated learning", ICML 2020.
    """

    server_lr: Positive = 1.0
    option: Literal["I", "II"] = "II"
    client_opt: ClientOptimiser = SGD()

    uniform: ClassVar[bool] = True
    uploads: ClassVar[tuple[str, ...]] = ("w", "dc")
    assumes_plain_steps: ClassVar[bool] = True

    def server_state(self) -> Slots:
        """Declare `c`."""
        return {"c": vector()}

    def client_state(self) -> Slots:
        """Declare `c_i`."""
        return {"c": vector()}

    def broadcast(self, server: Server) -> Message:
        """Send the model and the server's control variate."""
        return Message(w=server.w, c=server.kept.c)

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        """Correct the gradient for the client's drift."""
        return gradient - client.kept.c + client.received.c

    def finish(self, client: Client) -> Message:
        """Renew `c_i` and send its change."""
        if self.option == "I":
            c = client.full_gradient(at=client.start)
        else:
            c = client.kept.c - client.received.c - (client.w - client.start) / (client.steps * client.lr)
        dc = c - client.kept.c
        client.kept.c = c
        return Message(w=client.w, dc=dc)

    def update(self, server: Server, replies: Replies) -> None:
        """Step along the mean update; `c` stays the mean of all `c_i`."""
        server.w = server.w + self.server_lr * replies.mean_update()
        server.kept.c += replies.combine("dc", [1 / server.population] * len(replies))
