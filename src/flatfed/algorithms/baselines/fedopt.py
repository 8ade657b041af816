"""FedAdam, FedYogi and FedAdagrad: adaptive optimisers on the server."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor

from flatfed.algorithms.client_optimisers import SGD
from flatfed.core.configuration.checking import Momentum, NonNegative, Positive
from flatfed.core.method.algorithm import Algorithm, ClientOptimiser
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, vector


class ServerOptimiser(Algorithm):
    """FedAvg with an adaptive step on the server; each method says how the second moment moves.

        D = sum_S p_k (w_k - w)
        m <- beta1 m + (1 - beta1) D
        v <- second moment of D                                 v = tau^2 at first, unless v0 is given
        w <- w + server_lr * m / (sqrt(v) + tau)

    Reddi et al., "Adaptive federated optimization", ICLR 2021.
    """

    server_lr: Positive = 0.01
    beta1: Momentum = 0.9
    tau: Positive = dataclasses.field(default=1e-3, kw_only=True)
    v0: NonNegative | None = dataclasses.field(default=None, kw_only=True)
    client_opt: ClientOptimiser = dataclasses.field(default=SGD(), kw_only=True)

    schedules: ClassVar[bool | frozenset[str]] = frozenset({"server_lr", "beta1", "beta2", "tau"})

    def server_state(self) -> Slots:
        """Declare both moments."""
        return {"m": vector(), "v": vector(start=self.tau**2 if self.v0 is None else self.v0)}

    def second_moment(self, v: Tensor, squared: Tensor) -> Tensor:
        """Return the next `v`, given the squared update."""
        raise NotImplementedError

    def corrected(self, m: Tensor, v: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """Return the moments that the step is made of, after n steps: as they are."""
        return m, v

    def update(self, server: Server, replies: Replies) -> None:
        """Step along the first moment, scaled by the second."""
        kept, update = server.kept, replies.mean_update()
        kept.m = self.beta1 * kept.m + (1 - self.beta1) * update
        kept.v = self.second_moment(kept.v, update**2)
        m, v = self.corrected(kept.m, kept.v, server.round + 1)
        server.w = server.w + self.server_lr * m / (v.sqrt() + self.tau)


class FedAdam(ServerOptimiser, id="fedadam"):
    """Adam on the server, by default without bias correction.

        v <- beta2 v + (1 - beta2) D^2                          the rest as in the class above

    `bias_correction=True` steps with m/(1 - beta1^t) and v/(1 - beta2^t) in round t, from 1; with `v0=0` that is
    PyTorch's Adam with eps=tau, given the pseudo-gradient. Reddi et al., "Adaptive federated optimization", ICLR 2021.
    """

    beta2: Momentum = 0.99
    bias_correction: bool = dataclasses.field(default=False, kw_only=True)

    def second_moment(self, v: Tensor, squared: Tensor) -> Tensor:
        """Return the moving average of squares."""
        return self.beta2 * v + (1 - self.beta2) * squared

    def corrected(self, m: Tensor, v: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """Take off what the moments owe to their start at zero, where asked for."""
        return (m / (1 - self.beta1**steps), v / (1 - self.beta2**steps)) if self.bias_correction else (m, v)


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
