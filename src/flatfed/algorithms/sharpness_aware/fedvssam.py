"""FedVSSAM: one smoothed direction for the perturbation, the local step and the global update."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from flatfed.core.configuration.checking import Fraction, NonNegative, Positive
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, State, vector
from flatfed.core.method.vectors import norm, unit


class FedVSSAM(Algorithm, id="fedvssam"):
    """Variance-suppressed SAM: a direction that the server smooths enters perturbation, step and update.

        e = rho * unit(a_p g(w_k) + (1 - a_p) d)                a_p: mix_perturb, a_u: mix_update; both mix_local
        q = a_u g(w_k + e) + (1 - a_u) d                        unless given
        G = -mean_S (w_k - w)/(K_k lr)
        d <- (1 - mix_global) d + mix_global G                  zero at first
        w <- w - server_lr * lr * K * d                         K: the mean of the clients' K_k

    "FedVSSAM: Mitigating flatness incompatibility in sharpness-aware federated learning", 2026.
    """

    rho: NonNegative = 0.05
    mix_local: Fraction = 0.5
    mix_global: Fraction = 0.5
    mix_perturb: Fraction | None = None
    mix_update: Fraction | None = None
    server_lr: Positive = 1.0

    uniform: ClassVar[bool] = True
    assumes_plain_steps: ClassVar[bool] = True

    def server_state(self) -> Slots:
        """Declare the direction."""
        return {"d": vector()}

    def global_direction(self, server: Server) -> Tensor | None:
        """Return the smoothed direction."""
        return server.kept.d

    def perturbed_along(self, server: Server, client: int, kept: State, gradient: Tensor) -> Tensor:
        """Return the mixed direction."""
        return server.kept.d.lerp(gradient, self.mix_local if self.mix_perturb is None else self.mix_perturb)

    def broadcast(self, server: Server) -> Message:
        """Send the model and the direction."""
        return Message(w=server.w, d=server.kept.d)

    def gradient(self, client: Client) -> Tensor:
        """Return the gradient at the point perturbed along the mixed direction."""
        a = self.mix_local if self.mix_perturb is None else self.mix_perturb
        return client.gradient(at=client.w + self.rho * unit(client.received.d.lerp(client.gradient(), a)))

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        """Mix the direction in."""
        a = self.mix_local if self.mix_update is None else self.mix_update
        return client.received.d.lerp(gradient, a)

    def update(self, server: Server, replies: Replies) -> None:
        """Smooth the direction and step along it, as far as the clients went."""
        steps = sum(reply.steps for reply in replies) / len(replies)
        server.kept.d = server.kept.d.lerp(replies.mean_gradient(server.lr), self.mix_global)
        server.w = server.w - self.server_lr * server.lr * steps * server.kept.d
        server.watch["direction_norm"] = norm(server.kept.d)
