"""AdaBest: adaptive bias estimates on the clients, extrapolation on the server."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

from flatfed.algorithms.client_optimisers import SGD
from flatfed.core.configuration.checking import NonNegative
from flatfed.core.method.algorithm import Algorithm, ClientOptimiser
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, scalar, vector


class AdaBest(Algorithm, id="adabest"):
    """Estimates of the clients' bias that fade while a client is away, and an extrapolated mean.

        q    = g - h_k
        h_k  <- h_k / (rounds since client k last took part) + mu (w - w_k)
        mean <- mean_S w_k
        w    <- mean + beta (mean - last mean)                  the first last mean is the initial model

    `mu_scaling="per-step"` divides mu by the client's batches per epoch, as the authors' library does. Varno et
    al., "AdaBest: Minimizing client drift in federated learning via adaptive bias estimation", ECCV 2022.
    """

    beta: NonNegative = 0.9
    mu: NonNegative = 0.02
    mu_scaling: Literal["paper", "per-step"] = "paper"
    client_opt: ClientOptimiser = SGD()

    uniform: ClassVar[bool] = True

    def server_state(self) -> Slots:
        """Declare the last mean of models."""
        return {"mean": vector(start="model")}

    def client_state(self) -> Slots:
        """Declare `h_k` and the round, from 1, in which the client last took part."""
        return {"h": vector(), "last": scalar()}

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        """Take the estimated bias off."""
        return gradient - client.kept.h

    def finish(self, client: Client) -> Message:
        """Let the estimate fade by the rounds missed and add this round's."""
        now = client.round + 1
        mu = self.mu * (client.epochs / client.steps if self.mu_scaling == "per-step" else 1.0)
        client.kept.h = client.kept.h / (now - float(client.kept.last)) + mu * (client.start - client.w)
        client.kept.last = now
        return Message(w=client.w)

    def update(self, server: Server, replies: Replies) -> None:
        """Extrapolate the mean."""
        mean = server.w + replies.mean_update()
        server.w = mean + self.beta * (mean - server.kept.mean)
        server.kept.mean = mean
