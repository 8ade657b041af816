"""FedGF: local SAM evaluated between the local and the global ascent point."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from flatfed.algorithms.bases.server_rate import ServerRate
from flatfed.core.configuration.checking import Count, Fraction, NonNegative
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, State, scalar, vector, window
from flatfed.core.method.vectors import unit


class FedGF(ServerRate, id="fedgf"):
    """SAM on the clients, evaluated between the local and the global ascent point.

        w~ = w + rho_global * unit(w_previous - w)              sent from round 1 on
        z  = c w~ + (1 - c) (w_k + rho * unit(g(w_k)))
        q  = g(z)
        c  <- share of the last `window` rounds with mean_S ||w - w_k|| > threshold, unless c is given

    Round 0 is FedSAM. While fewer than `window` rounds have passed, the share is of those seen so far, or of the whole
    window with `share_of="window"`. Lee and Yoon, "Rethinking the flat minima searching in federated learning", ICML
    2024.
    """

    rho: NonNegative = 0.05
    rho_global: NonNegative | None = None
    threshold: NonNegative = 0.2
    window: Count = 30
    c: Fraction | None = None
    share_of: Literal["seen", "window"] = "seen"

    def server_state(self) -> Slots:
        """Declare the previous model, `c`, the flags and how many there are."""
        return {
            "previous": vector(),
            "c": scalar(self.c or 0.0),
            "flags": window(self.window),
            "seen": scalar(),
        }

    def broadcast(self, server: Server) -> Message:
        """Send the model and, from round 1 on, the globally perturbed one with its weight."""
        # There is no previous model yet, and zero in its place would give a direction that means nothing.
        if server.round == 0:
            return Message(w=server.w)
        c = float(server.kept.c) if self.c is None else self.c
        return Message(w=server.w, perturbed=server.w + self._global_ascent(server), c=c)

    def _global_ascent(self, server: Server) -> Tensor:
        radius = self.rho if self.rho_global is None else self.rho_global
        return radius * unit(server.kept.previous - server.w)

    def global_perturbation(self, server: Server, kept: State) -> Tensor | None:
        """Return `rho_global * unit(w_previous - w)`."""
        return self._global_ascent(server) if server.round > 0 else None

    def perturbed_along(self, server: Server, client: int, kept: State, gradient: Tensor) -> Tensor:
        """Return the way to the point between the local and the global ascent."""
        local = self.rho * unit(gradient)
        c = float(server.kept.c) if self.c is None else self.c
        return local.lerp(self._global_ascent(server), c) if server.round > 0 else local

    def gradient(self, client: Client) -> Tensor:
        """Return the gradient at the interpolated point."""
        point = client.w + self.rho * unit(client.gradient())
        if "perturbed" in client.received:
            # Where layers stay on the client, the server's model lacks them: they are the client's own.
            point = point.lerp(client.complete(client.received.perturbed), client.received.scalars["c"])
        return client.gradient(at=point)

    def update(self, server: Server, replies: Replies) -> None:
        """Average, and let the divergence decide on the next `c`."""
        divergence = replies.divergence()
        seen = int(server.kept.seen)
        server.kept.flags[seen % self.window] = float(divergence > self.threshold)
        server.kept.seen = seen + 1
        if self.c is None:
            count = self.window if self.share_of == "window" else min(seen + 1, self.window)
            server.kept.c = float(server.kept.flags.sum()) / count
        else:
            server.kept.c = self.c
        server.watch["c"] = float(server.kept.c)
        server.kept.previous = server.w
        server.w = server.w + replies.mean_update()
