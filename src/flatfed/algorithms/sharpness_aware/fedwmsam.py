"""FedWMSAM: one-backprop SAM guided by personalised momentum, with a mix that follows the clients' agreement."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

from flatfed.algorithms.bases.server_rate import ServerRate
from flatfed.core.configuration.checking import Fraction, NonNegative
from flatfed.core.errors import ConfigError
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, State, scalar, vector
from flatfed.core.method.vectors import norm, unit_


class FedWMSAM(ServerRate, id="fedwmsam"):
    """Momentum and SAM in one backprop, weighted by how well the clients agree with the momentum.

        Delta_k = Delta + a/(1 - a) (c - c_k)                   personalised by the server; a starts at alpha
        e       = rho * unit(w + b Delta_k - w_b)               in step b, so none in the first
        q       = a g(w_b + e) + (1 - a) Delta_k
        c_k     <- c_k - c - (w_k - w)/(K_k lr)                 c <- c + (1/N) sum_S (change of c_k)
        a       <- (1 - lam) a + lam clip(mean_S (1 + cos(w_k - w, Delta)), 0.1, 0.9)
        Delta   <- -mean_S (w_k - w)/(K_k lr)
        w       <- w + mean_S (w_k - w)

    The server keeps every c_k. What goes down is (1 - a) Delta_k, which stays finite at a = 1. `reading="poster"` takes
    the poster literally: c_k instead of c - c_k, cos instead of 1 + cos, and c <- c + mean_S (w_k - w)/(K_k lr).
    "A fast and flat federated learning method via weighted momentum and sharpness-aware minimization", NeurIPS 2025.
    """

    rho: NonNegative = 0.01
    alpha: Fraction = 0.1
    lam: Fraction = 0.01
    control: bool = True
    perturb_sign: Literal[1, -1] = 1
    reading: Literal["code", "poster"] = "code"

    schedules: ClassVar[bool | frozenset[str]] = frozenset({"rho", "lam", "server_lr"})  # alpha: only where it starts
    uniform: ClassVar[bool] = True
    assumes_plain_steps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha == 1 and self.rho != 0:
            raise ConfigError("fedwmsam: alpha=1 leaves no momentum to perturb along; take alpha < 1, or rho=0")

    def server_state(self) -> Slots:
        """Declare the momentum, the mix and, with control variates, their mean."""
        return {"momentum": vector(), "alpha": scalar(self.alpha)} | ({"c": vector()} if self.control else {})

    def global_direction(self, server: Server) -> Tensor | None:
        """Return the momentum."""
        return server.kept.momentum

    def records(self) -> Slots:
        """Declare each client's control variate, which the server keeps."""
        return {"c": vector()} if self.control else {}

    def broadcast(self, server: Server) -> Message:
        """Send the model and the mix."""
        return Message(w=server.w, alpha=float(server.kept.alpha))

    def personal(self, server: Server, client: int) -> Message:
        """Send the client its own momentum, times 1 - a."""
        return Message(pull=self._pull(server, client))

    def _pull(self, server: Server, client: int) -> Tensor:
        a = float(server.kept.alpha)
        pull = (1 - a) * server.kept.momentum
        if self.control:
            own = server.recall(client).c
            pull = pull + a * (own if self.reading == "poster" else server.kept.c - own)
        return pull

    def perturbed_along(self, server: Server, client: int, kept: State, gradient: Tensor) -> Tensor:
        """Return the way to the point that the client's momentum predicts."""
        return self.perturb_sign * self._pull(server, client)

    def gradient(self, client: Client) -> Tensor:
        """Return the gradient at the point perturbed along the momentum; one backprop."""
        if self.rho == 0:
            return client.gradient()
        # The divisor is never 0: the mix begins below 1, and what enters it is at most 0.9.
        # The quotient is a new vector, which may be changed; what was received may not.
        momentum = client.received.pull / (1 - client.received.scalars["alpha"])
        ahead = momentum.mul_(client.step).add_(client.start).sub_(client.w)
        return client.gradient(at=unit_(ahead).mul_(self.perturb_sign * self.rho).add_(client.w))

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        """Mix the momentum in."""
        return (client.received.scalars["alpha"] * gradient).add_(client.received.pull)

    def update(self, server: Server, replies: Replies) -> None:
        """Renew the control variates, the mix and the momentum, and average."""
        kept = server.kept
        if self.control:
            self._renew(server, replies)
        # Before the momentum is renewed: clients are compared with the one that they were sent.
        agreement = sum(self._similarity(r.message.w - replies.sent.w, kept.momentum) for r in replies) / len(replies)
        kept.alpha = (1 - self.lam) * float(kept.alpha) + self.lam * min(max(agreement, 0.1), 0.9)
        kept.momentum = replies.mean_gradient(server.lr)
        server.w = server.w + replies.mean_update()
        server.watch.update(alpha=float(kept.alpha), agreement=agreement, momentum_norm=norm(kept.momentum))

    def _renew(self, server: Server, replies: Replies) -> None:
        """Move the control variate of each client of the round, and then their mean."""
        # All changes are from the mean before the round, while `kept.c` moves in the loop.
        c = server.kept.c.clone()
        for reply in replies:
            change = -c - (reply.message.w - replies.sent.w) / (reply.steps * server.lr)
            server.record(reply.client).c += change
            if self.reading == "code":
                server.kept.c += change / server.population
        if self.reading == "poster":
            server.kept.c -= replies.mean_gradient(server.lr)

    def _similarity(self, update: Tensor, momentum: Tensor) -> float:
        """Return `1 + cos` (the poster: `cos`), 0 where one is zero: an update along the momentum points against it."""
        lengths = norm(update) * norm(momentum)
        if not lengths:
            return 0.0
        cosine = float(update @ momentum) / lengths
        return cosine if self.reading == "poster" else 1 + cosine
