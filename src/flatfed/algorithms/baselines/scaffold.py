"""SCAFFOLD: control variates against client drift."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from flatfed.algorithms.bases.control_variates import ControlVariates
from flatfed.algorithms.client_optimisers import SGD
from flatfed.core.configuration.checking import Positive
from flatfed.core.errors import ConfigError
from flatfed.core.method.algorithm import ClientOptimiser
from flatfed.core.method.client import Client
from flatfed.core.method.server import Replies, Server


class SCAFFOLD(ControlVariates, id="scaffold"):
    """Stochastic controlled averaging: control variates against client drift.

        q   = g - c_k + c
        c_k <- c_k - c - (w_k - w)/(K_k lr)                     option I: the full-batch gradient at w
        w   <- w + server_lr * mean_S (w_k - w)
        c   <- c + (1/N) sum_S (change of c_k)

    Karimireddy et al., "SCAFFOLD: Stochastic controlled averaging for federated learning", ICML 2020.
    """

    server_lr: Positive = 1.0
    option: Literal["I", "II"] = "II"
    client_opt: ClientOptimiser = SGD()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.option == "I" and not self.send_dc:
            raise ConfigError("scaffold: with option I only the client knows its c; send_dc=False needs option II")

    def renewed(self, client: Client) -> Tensor:
        """Return the next `c_k`."""
        return client.full_gradient(at=client.start) if self.option == "I" else super().renewed(client)

    def update(self, server: Server, replies: Replies) -> None:
        """Step along the mean update at the server's rate and renew `c`."""
        server.w = server.w + self.server_lr * replies.mean_update()
        self.renew(server, replies)
