"""FedGMT: distillation from the moving average of global models, with duals."""

from __future__ import annotations

from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor

from flatfed.core.configuration.checking import Fraction, NonNegative, Positive
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, vector
from flatfed.core.method.vectors import norm


class FedGMT(Algorithm, id="fedgmt"):
    """Distillation from the moving average of global models, with duals that align the clients.

        loss = CE + gamma tau^2 KL(softmax(z_e/tau) || softmax(z_w/tau))      e frozen, z the outputs
        q    = grad loss + h_k/beta                             no proximal term
        h_k  <- h_k + (w_k - w)
        w    <- sum_S p_k w_k + (1/N) sum_N h_k                 server_dual="active": sum_S p_k (w_k + h_k)
        e    <- alpha e + (1 - alpha) w

    Li et al., "One arrow, two hawks: Sharpness-aware minimization for federated learning via global model
    trajectory", ICML 2025.
    """

    alpha: Fraction = 0.95
    gamma: NonNegative = 1.0
    tau: Positive = 3.0
    beta: Positive = 10.0
    server_dual: Literal["all", "active"] = "all"

    def server_state(self) -> Slots:
        """Declare the teacher and, where the server keeps it, the mean dual."""
        return {"teacher": vector(start="model")} | ({"H": vector()} if self.server_dual == "all" else {})

    def client_state(self) -> Slots:
        """Declare the client's dual."""
        return {"h": vector()}

    def broadcast(self, server: Server) -> Message:
        """Send the model and the teacher."""
        return Message(w=server.w, teacher=server.kept.teacher)

    def gradient(self, client: Client) -> Tensor:
        """Return the gradient of the loss with distillation; the teacher runs forward only."""
        if self.gamma == 0:
            return client.gradient()
        outputs = client.outputs(at=client.complete(client.received.teacher))
        teacher = F.log_softmax(client.scores(outputs) / self.tau, dim=1)

        def distillation(outputs: Any) -> Tensor:
            student = F.log_softmax(client.scores(outputs) / self.tau, dim=1)
            decisions = student.numel() // student.shape[1]  # examples, or pixels of all examples
            kl = F.kl_div(student, teacher, reduction="sum", log_target=True) / decisions
            return self.gamma * self.tau**2 * kl

        return client.gradient(plus=distillation)

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        """Add the dual."""
        return gradient + client.kept.h / self.beta

    def finish(self, client: Client) -> Message:
        """Add the update to the dual; with active duals, send the model shifted by it."""
        client.kept.h += client.w - client.start
        return Message(w=client.w if self.server_dual == "all" else client.w + client.kept.h)

    def update(self, server: Server, replies: Replies) -> None:
        """Shift the mean by the mean dual of all N clients and move the teacher."""
        server.w = server.w + replies.mean_update()
        if self.server_dual == "all":
            server.kept.H += len(replies) / server.population * (replies.uniform_mean("w") - replies.sent.w)
            server.w = server.w + server.kept.H
            server.watch["dual_norm"] = norm(server.kept.H)
        server.kept.teacher = self.alpha * server.kept.teacher + (1 - self.alpha) * server.w
