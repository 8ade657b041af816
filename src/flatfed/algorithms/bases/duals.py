"""FedDyn's bookkeeping: duals that sum each client's past updates, and their mean on the server."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from flatfed.algorithms.bases.server_rate import ServerRate
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, vector
from flatfed.core.method.vectors import norm


class Duals(ServerRate):
    """Clients aligned by duals; FedDyn and its relatives say how strongly (`penalty`, a) and along which gradient.

    q   = g + a (w_k - w + h_k)
    h_k <- h_k + (w_k - w)
    H   <- H + (1/N) sum_S (w_k - w)                        the mean of all h_k
    w   <- mean_S w_k + H
    """

    uniform: ClassVar[bool] = True

    @property
    def penalty(self) -> float:
        """The weight of the regulariser."""
        raise NotImplementedError

    @property
    def regularised(self) -> bool:
        """Whether there is a regulariser at all; without one there are no duals, and the mean is plain."""
        return True

    def server_state(self) -> Slots:
        """Declare `H`."""
        # What is not declared is neither kept nor saved, so plain averaging costs no memory for duals.
        return super().server_state() | ({"H": vector()} if self.regularised else {})

    def client_state(self) -> Slots:
        """Declare `h_k`."""
        return super().client_state() | ({"h": vector()} if self.regularised else {})

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        """Add the dynamic regulariser's gradient."""
        if not self.regularised:
            return super().direction(client, gradient)
        # The difference is a new vector, in which the rest can be done without another.
        return (client.w - client.start).add_(client.kept.h).mul_(self.penalty).add_(gradient)

    def finish(self, client: Client) -> Message:
        """Add the update to the dual."""
        if self.regularised:
            client.kept.h += client.w - client.start
        return super().finish(client)

    def update(self, server: Server, replies: Replies) -> None:
        """Shift the mean by the mean dual of all N clients."""
        if not self.regularised:
            super().update(server, replies)
            return
        update = replies.mean_update()
        # `update` is the mean over the m clients that replied, so m/N of it is their sum over N.
        server.kept.H += len(replies) / server.population * update
        server.w = server.w + update + server.kept.H
        server.watch["dual_norm"] = norm(server.kept.H)
