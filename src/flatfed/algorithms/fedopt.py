"""FedAdam, FedYogi and FedAdagrad: adaptive optimisers on the server."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor

from flatfed.algorithms.client_optimisers import SGD
from flatfed.core.algorithm import Algorithm, ClientOptimiser
from flatfed.core.config import Momentum, NonNegative, Positive
from flatfed.core.server import Replies, Server
from flatfed.core.state import Slots, vector


class ServerOptimiser(Algorithm):
    """FedAvg with an adaptive step on the server; each method says how the second moment moves.

        D = sum_S p_k (w_k - w)
        m <- beta1 m + (1 - beta1) D                            no bias correction
        v <- second moment of D                                 v = tau^2 at first, unless v0 is given
        w <- w + server_lr * m / (sqrt(v) + tau)

    Reddi et al., "Adaptive federated optimization", ICLR 2021.
    """

    server_lr: Positive = 0.01
    beta1: Momentum = 0.9
    tau: Positive = dataclasses.field(default=1e-3, kw_only=True)
    v0: NonNegative | None = dataclasses.field(default=None, kw_only=True)
    client_opt: ClientOptimiser = dataclasses.field(default=SGD(), kw_only=True)

    courses: ClassVar[bool | frozenset[str]] = frozenset({"server_lr", "beta1", "beta2", "tau"})

    def server_state(self) -> Slots:
        """Declare both moments."""
        return {"m": vector(), "v": vector(start=self.tau**2 if self.v0 is None else self.v0)}

    def second_moment(self, v: Tensor, squared: Tensor) -> Tensor:
        """Return the next `v`, given the squared update."""
        raise NotImplementedError

    def update(self, server: Server, replies: Replies) -> None:
        """Step along the first moment, scaled by the second."""
        kept, update = server.kept, replies.mean_update()
        kept.m = self.beta1 * kept.m + (1 - self.beta1) * update
        kept.v = self.second_moment(kept.v, update**2)
        server.w = server.w + self.server_lr * kept.m / (kept.v.sqrt() + self.tau)


class FedAdam(ServerOptimiser, id="fedadam"):
    """Adam on the server, without bias correction.

        v <- beta2 v + (1 - beta2) D^2                          the rest as in the class above

    Reddi et al., "Adaptive federated optimization", ICLR 2021.
    """

    beta2: Momentum = 0.99

    def second_moment(self, v: Tensor, squared: Tensor) -> Tensor:
        """Return the moving average of squares."""
        return self.beta2 * v + (1 - self.beta2) * squared


class FedYogi(ServerOptimiser, id="fedyogi"):
    """Yogi on the server, without bias correction.

        v <- v - (1 - beta2) D^2 sign(v - D^2)                  the rest as in the class above

    Reddi et al., "Adaptive federated optimization", ICLR 2021.
    """

    beta2: Momentum = 0.99

    def second_moment(self, v: Tensor, squared: Tensor) -> Tensor:
        """Move towards the square, by a step that does not depend on the distance."""
        return v - (1 - self.beta2) * squared * torch.sign(v - squared)


class FedAdagrad(ServerOptimiser, id="fedadagrad"):
    """Adagrad on the server.

        v <- v + D^2                                            the rest as in the class above

    Reddi et al., "Adaptive federated optimization", ICLR 2021.
    """

    beta1: Momentum = 0.0

    def second_moment(self, v: Tensor, squared: Tensor) -> Tensor:
        """Return the sum of squares."""
        return v + squared
