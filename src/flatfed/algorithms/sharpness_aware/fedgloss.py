"""FedGloSS: sharpness-aware minimisation on the server, at FedAvg's communication cost; and its naive reference."""

from __future__ import annotations

from typing import Annotated, Literal

from torch import Tensor

from flatfed.algorithms.bases.server_rate import ServerRate
from flatfed.algorithms.client_optimisers import SGD
from flatfed.core.configuration.checking import Alias, Index, NonNegative, Positive
from flatfed.core.configuration.schedules import Ramp
from flatfed.core.method.algorithm import Ask, ClientOptimiser
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, vector
from flatfed.core.method.vectors import norm, unit


class FedGloSS(ServerRate, id="fedgloss"):
    """SAM on the server at FedAvg's traffic, its ascent taken from the previous round; ADMM duals align the clients.

        w~      = w + rho_server * unit(D)                      where the clients start
        q       = g - sigma_k + (w_k - w~)/beta
        sigma_k <- sigma_k - (w_k - w~)/beta
        sigma   <- sigma - (1/(beta N)) sum_S (w_k - w~)        the mean of all sigma_k
        D       <- sum_S p_k (w~ - w_k)
        w       <- w - D - beta sigma                           from the unperturbed w

    `dual="printed"` is line 22 of the paper's algorithm: sigma sums w_k - w, from the unperturbed w. `dual="official"`
    is the authors' code: the sum is divided by m as well. Caldarola et al., "Beyond local sharpness:
    Communication-efficient global sharpness-aware minimization for federated learning", CVPR 2025.
    """

    rho_server: NonNegative = 0.1
    beta: Positive = 10.0
    admm: bool = True
    dual: Annotated[Literal["mean", "printed", "official"], Alias("paper", stands_for="mean")] = "mean"
    rho_start: NonNegative = 0.001
    rho_warmup: Index = 0
    rho_server_warmup: Literal["none", "ramp", "official"] = "none"
    client_opt: ClientOptimiser = SGD()

    def server_state(self) -> Slots:
        """Declare the last pseudo-gradient and, with ADMM, the global dual."""
        return {"pseudo_gradient": vector()} | ({"sigma": vector()} if self.admm else {})

    def client_state(self) -> Slots:
        """Declare the client's dual, with ADMM."""
        return {"sigma": vector()} if self.admm else {}

    def broadcast(self, server: Server) -> Message:
        """Send the model perturbed along the previous pseudo-gradient (none in round 0)."""
        return Message(w=server.w + self.server_radius(server.round) * unit(server.kept.pseudo_gradient))

    def server_radius(self, round: int) -> float:
        """Return the server's radius; "official" is what the authors' code uses, by a slip, while it warms up."""
        T, rho = self.rho_warmup, getattr(self.client_opt, "rho", None)
        if self.rho_server_warmup == "none" or T == 0 or rho is None:
            return self.rho_server
        if self.rho_server_warmup == "ramp":
            return Ramp(self.rho_start, self.rho_server, T).value(round)
        return rho + (self.rho_server - self.rho_start) / T if 1 <= round <= T else self.rho_server

    def begin(self, client: Client) -> None:
        """Give the client optimiser this round's radius."""
        optimiser = self.client_opt
        if self.rho_warmup and hasattr(optimiser, "rho"):
            optimiser = optimiser.replace(rho=Ramp(self.rho_start, optimiser.rho, self.rho_warmup).value(client.round))
        # With the client, for the method is a configuration, which all clients share and nobody changes.
        client.memo.optimiser = optimiser

    def gradient(self, client: Client) -> Tensor:
        """Return the client optimiser's gradient."""
        gradient: Tensor = client.memo.optimiser.gradient(client)
        return gradient

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        """Add the dual and the penalty, anchored at the received model."""
        if not self.admm:
            return gradient
        return gradient - client.kept.sigma + (client.w - client.start) / self.beta

    def finish(self, client: Client) -> Message:
        """Move the client's dual."""
        if self.admm:
            client.kept.sigma -= (client.w - client.start) / self.beta
        return Message(w=client.w)

    def update(self, server: Server, replies: Replies) -> None:
        """Step, and remember the pseudo-gradient for the next ascent."""
        self.step(server, replies)
        server.kept.pseudo_gradient = -replies.mean_update()

    def step(self, server: Server, replies: Replies) -> None:
        """Move the global dual, then step from the unperturbed model."""
        before = server.w
        server.w = server.w + replies.mean_update()
        if self.admm:
            scale = (1 if self.dual == "official" else len(replies)) / server.population
            reference = before if self.dual == "printed" else replies.sent.w
            # Of equal weights, whatever the weighting: in the duals all clients count alike.
            server.kept.sigma -= scale / self.beta * (replies.uniform_mean("w") - reference)
            server.w = server.w - self.beta * server.kept.sigma
            server.watch["dual_norm"] = norm(server.kept.sigma)
        server.watch["perturbation"] = norm(replies.sent.w - before)


class NaiveFedGloSS(FedGloSS, id="naivefedgloss"):
    """SAM on the server with its true ascent direction: the same clients are asked twice per round.

        Delta = sum_S p_k (w - w_k)                             from a first exchange at w
        w~    = w + rho_server * unit(Delta)                    where the second starts; then as FedGloSS

    Duals act in both exchanges and change only after the second.
    """

    def server_state(self) -> Slots:
        """Declare the global dual, with ADMM."""
        return {"sigma": vector()} if self.admm else {}

    def round(self, server: Server, ask: Ask) -> None:
        """Probe, perturb, ask the same clients again."""
        ascent = -ask(Message(w=server.w)).mean_update()
        self.step(server, ask(Message(w=server.w + self.server_radius(server.round) * unit(ascent))))

    def begin(self, client: Client) -> None:
        """Let the probe work on a copy of what the client keeps: duals and local layers stay as they are."""
        super().begin(client)
        if client.exchange == 0:
            # The engine hands back the state that came with the job, so what the copy holds is dropped.
            client.kept, client.keeps_local_layers = client.kept.copy(), False
