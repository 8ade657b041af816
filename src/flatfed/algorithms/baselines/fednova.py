"""FedNova: updates normalised by how many steps are in them."""

from __future__ import annotations

from typing import ClassVar

from flatfed.algorithms.client_optimisers import SGD
from flatfed.core.method.algorithm import Algorithm, ClientOptimiser
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server


class FedNova(Algorithm, id="fednova"):
    """Normalised averaging: clients that take more steps do not count for more.

        a_k = sum of the coefficients that gradients have in the update: K_k, or with client momentum
              the sum of the momentum buffers of a constant gradient 1
        w   <- w + (sum_S p_k a_k) sum_S p_k (w_k - w)/a_k

    Wang et al., "Tackling the objective inconsistency problem in heterogeneous federated optimization", NeurIPS 2020.
    """

    client_opt: ClientOptimiser = SGD()

    assumes_sgd_steps: ClassVar[bool] = True
    upload_numbers: ClassVar[tuple[str, ...]] = ("a",)

    def finish(self, client: Client) -> Message:
        """Send the model and `a_k`: `c <- momentum c + 1`, `a <- a + c` in each step."""
        a = c = 0.0
        for _ in range(client.steps):
            c = client.momentum * c + 1
            a += c
        return Message(w=client.w, a=a)

    def update(self, server: Server, replies: Replies) -> None:
        """Step along the normalised mean, as far as the mean client went."""
        effective = sum(p * reply.message.scalars["a"] for p, reply in zip(replies.weights, replies, strict=True))
        server.w = server.w + effective * replies.mean_update(lambda reply: 1 / reply.message.scalars["a"])
