"""SCAFFOLD's bookkeeping: control variates on the clients, and their mean on the server."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from torch import Tensor

from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, vector
from flatfed.core.method.vectors import norm


class ControlVariates(Algorithm):
    """Steps corrected for the client's drift; SCAFFOLD and its relatives say along which gradient.

        q   = g - c_k + c
        c_k <- c_k - c - (w_k - w)/(K_k lr)
        w   <- w + mean_S (w_k - w)
        c   <- c + (1/N) sum_S (change of c_k)                  the mean of all c_k

    The change of c_k goes up, as published; with `send_dc=False` the server forms it from the model alone.
    """

    send_dc: bool = dataclasses.field(default=True, kw_only=True)

    uniform: ClassVar[bool] = True
    assumes_plain_steps: ClassVar[bool] = True

    def uploads(self) -> tuple[str, ...]:
        """Name the model and the change of `c_k`."""
        return ("w", "dc") if self.send_dc else ("w",)

    def server_state(self) -> Slots:
        """Declare `c`."""
        return super().server_state() | {"c": vector()}

    def global_direction(self, server: Server) -> Tensor | None:
        """Return the mean control variate."""
        return server.kept.c

    def client_state(self) -> Slots:
        """Declare `c_k`."""
        return super().client_state() | {"c": vector()}

    def broadcast(self, server: Server) -> Message:
        """Send the model and the server's control variate."""
        return super().broadcast(server) | Message(c=server.kept.c)

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        """Correct the gradient for the client's drift."""
        return (gradient - client.kept.c).add_(client.received.c)

    def renewed(self, client: Client) -> Tensor:
        """Return the next `c_k`."""
        # Both differences are new vectors, in which the rest can be done.
        drift = (client.w - client.start).div_(client.steps * client.lr)
        return (client.kept.c - client.received.c).sub_(drift)

    def finish(self, client: Client) -> Message:
        """Renew `c_k` and send its change."""
        c = self.renewed(client)
        # Before the state is assigned, which copies the new vector over the old one.
        dc = c - client.kept.c
        client.kept.c = c
        return super().finish(client) | (Message(dc=dc) if self.send_dc else Message())

    def update(self, server: Server, replies: Replies) -> None:
        """Step along the mean update and renew `c`."""
        super().update(server, replies)
        self.renew(server, replies)

    def renew(self, server: Server, replies: Replies) -> None:
        """Let `c` stay the mean of all `c_k`."""
        N = server.population
        if self.send_dc:
            server.kept.c += replies.combine("dc", [1 / N] * len(replies))
        else:
            server.kept.c += len(replies) / N * (replies.mean_gradient(server.lr) - server.kept.c)
        server.watch["control_norm"] = norm(server.kept.c)
