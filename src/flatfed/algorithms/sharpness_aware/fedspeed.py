"""FedSpeed: FedDyn's duals with a gradient mixed from before and after an ascent."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from flatfed.algorithms.bases.duals import Duals
from flatfed.core.configuration.checking import Fraction, NonNegative, Positive
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots
from flatfed.core.method.vectors import unit


class FedSpeed(Duals, id="fedspeed"):
    """Duals with a gradient mixed from before and after an ascent.

        g1  = g(w_k),  g2 = g(w_k + rho * unit(g1))             normalise=False: ascent rho * g1
        q   = (1 - alpha) g1 + alpha g2 + (w_k - w + h_k)/lam
        h_k <- h_k + (w_k - w)
        w   <- mean_S w_k + (1/N) sum_N h_k                     server_dual="active": mean_S (w_k + h_k)

    Sun et al., "FedSpeed: Larger local interval, less communication round, and higher generalization accuracy",
    ICLR 2023.
    """

    rho: NonNegative = 0.1
    alpha: Fraction = 0.95
    lam: Positive = 100.0
    server_dual: Literal["all", "active"] = "all"
    normalise: bool = True

    @property
    def penalty(self) -> float:
        """The weight of the regulariser, 1/lam."""
        return 1 / self.lam

    def server_state(self) -> Slots:
        """Declare `H`, where the server keeps the mean dual."""
        return super().server_state() if self.server_dual == "all" else {}

    def gradient(self, client: Client) -> Tensor:
        """Return the mixed gradient."""
        g1 = client.gradient()
        g2 = client.gradient(at=client.w + self.rho * (unit(g1) if self.normalise else g1))
        return g1.lerp(g2, self.alpha)

    def finish(self, client: Client) -> Message:
        """Add the update to the dual; for the literal paper, send the model shifted by the dual."""
        reply = super().finish(client)
        return reply if self.server_dual == "all" else Message(w=client.w + client.kept.h)

    def update(self, server: Server, replies: Replies) -> None:
        """Shift the mean by the duals of all clients, or take the mean of the shifted models."""
        if self.server_dual == "all":
            super().update(server, replies)
        else:
            server.w = server.w + replies.mean_update()
