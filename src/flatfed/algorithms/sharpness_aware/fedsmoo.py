"""FedSMOO: a global perturbation agreed on by ADMM, with FedDyn's regulariser."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from flatfed.algorithms.bases.duals import Duals
from flatfed.core.configuration.checking import NonNegative, Positive
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, State, vector
from flatfed.core.method.vectors import norm, unit, unit_


class FedSMOO(Duals, id="fedsmoo"):
    """FedDyn with one perturbation that all clients agree on by ADMM.

        e    = rho * unit(g(w_k) - mu_k - s)                    in each step, then
        mu_k <- mu_k + e - s
        q    = g(w_k + e) + (w_k - w + h_k)/beta
        s    <- rho * unit(mean_S (mu_k - e))                   variant B: of mean_S mu_k; C: of -mean_N mu_k

    with h_k, H and w as in FedDyn, or, with `regularise=False`, without the regulariser: q = g(w_k + e), the plain mean
    of models, no h_k and no H. Sun et al., "Dynamic regularized sharpness aware minimization in federated
    learning: Approaching global consistency and smooth landscape", ICML 2023.
    """

    rho: NonNegative = 0.1
    beta: Positive = 10.0
    variant: Literal["A", "B", "C"] = "A"
    regularise: bool = True

    @property
    def penalty(self) -> float:
        """The weight of the regulariser, 1/beta."""
        return 1 / self.beta

    @property
    def regularised(self) -> bool:
        """Whether FedDyn's regulariser is on."""
        return self.regularise

    def uploads(self) -> tuple[str, ...]:
        """Name the model and this client's part of `s`."""
        return ("w", "s")

    def server_state(self) -> Slots:
        """Declare `H` and `s`; variant C also needs the mean of all `mu_k`."""
        return super().server_state() | {"s": vector()} | ({"mu": vector()} if self.variant == "C" else {})

    def client_state(self) -> Slots:
        """Declare `h_k` and `mu_k`."""
        return super().client_state() | {"mu": vector()}

    def broadcast(self, server: Server) -> Message:
        """Send the model and the global perturbation."""
        return Message(w=server.w, s=server.kept.s)

    def perturbed_along(self, server: Server, client: int, kept: State, gradient: Tensor) -> Tensor:
        """Return the gradient corrected by the client's dual and the global perturbation."""
        # A client's vectors also have its local part, which the server does not know.
        return gradient - kept.mu[: len(server.w)] - server.kept.s

    def begin(self, client: Client) -> None:
        """Remember `mu_k` at the start: variant C sends its change."""
        # A copy, as every step moves `mu_k` in place.
        client.memo.mu = client.kept.mu.clone()

    def gradient(self, client: Client) -> Tensor:
        """Return the gradient at the dual-corrected ascent point and move `mu_k`."""
        e = unit_((client.gradient() - client.kept.mu).sub_(client.received.s)).mul_(self.rho)
        client.kept.mu += e - client.received.s
        client.memo.e = e
        return client.gradient(at=client.w + e)

    def finish(self, client: Client) -> Message:
        """Add the update to the dual; send the model and this variant's part of `s`."""
        part = {"A": client.memo.e, "B": 0.0, "C": client.memo.mu}[self.variant]
        client.watch["mu_norm"] = norm(client.kept.mu)
        return super().finish(client) | Message(s=client.kept.mu - part)

    def update(self, server: Server, replies: Replies) -> None:
        """Shift the mean by the mean dual and renew the global perturbation."""
        super().update(server, replies)
        if self.variant == "C":
            server.kept.mu += replies.combine("s", [1 / server.population] * len(replies))
            server.kept.s = self.rho * unit(-server.kept.mu)
        else:
            server.kept.s = self.rho * unit(replies.mean("s"))
