"""FedCM's bookkeeping: the last global direction, mixed into every local step."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from flatfed.algorithms.bases.server_rate import ServerRate
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, vector
from flatfed.core.method.vectors import norm


class ClientMomentum(ServerRate):
    """Steps mixed with the last global direction; FedCM and MoFedSAM say how much and along which gradient.

    q     = a g + (1 - a) Delta                             a: `fresh`, the weight of the fresh gradient
    Delta <- -mean_S (w_k - w)/(K_k lr)                     zero at first
    w     <- w + mean_S (w_k - w)
    """

    uniform: ClassVar[bool] = True
    assumes_plain_steps: ClassVar[bool] = True

    @property
    def fresh(self) -> float:
        """The weight of the fresh gradient."""
        raise NotImplementedError

    def server_state(self) -> Slots:
        """Declare `Delta`."""
        return {"momentum": vector()}

    def global_direction(self, server: Server) -> Tensor | None:
        """Return the momentum."""
        return server.kept.momentum

    def broadcast(self, server: Server) -> Message:
        """Send the model and the last direction."""
        return Message(w=server.w, momentum=server.kept.momentum)

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        """Mix the last direction in."""
        return self.fresh * gradient + (1 - self.fresh) * client.received.momentum

    def update(self, server: Server, replies: Replies) -> None:
        """Average, and renew the direction."""
        server.kept.momentum = replies.mean_gradient(server.lr)
        server.w = server.w + replies.mean_update()
        server.watch["momentum_norm"] = norm(server.kept.momentum)
