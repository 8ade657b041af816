"""FedLESAM and its relatives: one-backprop SAM along the way the global model came."""

from __future__ import annotations

import dataclasses
from typing import Literal

import torch
from torch import Tensor

from flatfed.algorithms.bases.control_variates import ControlVariates
from flatfed.algorithms.bases.duals import Duals
from flatfed.algorithms.bases.server_rate import ServerRate
from flatfed.core.configuration.checking import NonNegative, Positive
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, State, scalar, vector
from flatfed.core.method.vectors import norm, unit


class LastModel(ServerRate):
    """A perturbation that is fixed for the round: from the received model back to an earlier one.

        e = rho * unit(w_old - w)                               w_old: what this client received last; e = 0 before
        q = g(w_k + e)

    With `ascent="server"` `w_old` is the last global model, which goes down with the new one.
    """

    rho: NonNegative = 0.01
    ascent: Literal["client", "server"] = dataclasses.field(default="client", kw_only=True)

    def client_state(self) -> Slots:
        """Declare the model received last, and whether there is one."""
        own = {"old": vector(), "met": scalar()} if self.ascent == "client" else {}
        return super().client_state() | own

    def server_state(self) -> Slots:
        """Declare the last global model, where the server sends it."""
        return super().server_state() | ({"previous": vector()} if self.ascent == "server" else {})

    def broadcast(self, server: Server) -> Message:
        """Send the last global model too, where there is one and clients keep none."""
        sends = self.ascent == "server" and server.round > 0
        return super().broadcast(server) | (Message(previous=server.kept.previous) if sends else Message())

    def begin(self, client: Client) -> None:
        """Fix the perturbation of this round."""
        old = client.received.vectors.get("previous")
        if self.ascent == "client":
            old = client.kept.old.clone() if float(client.kept.met) else None
            client.kept.old, client.kept.met = client.start, 1.0
        back = client.start if old is None else client.complete(old)
        client.memo.e = self.rho * unit(back - client.start)
        client.watch["perturbation"] = norm(client.memo.e)

    def global_perturbation(self, server: Server, kept: State) -> Tensor | None:
        """Return `rho * unit(w_old - w)`, for a client that has an old model."""
        if self.ascent == "server":
            return self.rho * unit(server.kept.previous - server.w) if server.round > 0 else None
        shared = len(server.w)  # layers that stay on the client take no part
        return self.rho * unit(kept.old[:shared] - server.w) if float(kept.met) else None

    def perturbed_along(self, server: Server, client: int, kept: State, gradient: Tensor) -> Tensor:
        """Return the way that the global model came; none for a client that has not met it before."""
        e = self.global_perturbation(server, kept)
        return torch.zeros_like(gradient) if e is None else e

    def gradient(self, client: Client) -> Tensor:
        """Return the gradient at the perturbed point; one backprop."""
        return client.gradient(at=client.w + client.memo.e)

    def update(self, server: Server, replies: Replies) -> None:
        """Average as usual and remember the model that was sent."""
        sent = server.w
        super().update(server, replies)
        if self.ascent == "server":
            server.kept.previous = sent


class FedLESAM(LastModel, id="fedlesam"):
    """FedAvg with a one-backprop SAM: clients perturb along the way the global model came.

        e = rho * unit(w_old - w)                               w_old: the model this client received last; else 0
        q = g(w_k + e)

    Fan et al., "Locally estimated global perturbations are better than local perturbations for federated
    sharpness-aware minimization", ICML 2024.
    """


class FedLESAMS(LastModel, ControlVariates, id="fedlesam-s"):
    """FedLESAM with SCAFFOLD's control variates.

    q = g(w_k + e) - c_k + c, the rest as in the two parents. Fan et al., ICML 2024.
    """


class FedLESAMD(LastModel, Duals, id="fedlesam-d"):
    """FedLESAM with FedDyn's duals.

    q = g(w_k + e) + (w_k - w + h_k)/beta, the rest as in the two parents. Fan et al., ICML 2024.
    """

    beta: Positive = 10.0

    @property
    def penalty(self) -> float:
        """The weight of the regulariser, 1/beta."""
        return 1 / self.beta
