"""MimeLite and Mime: the server's momentum, frozen for the round, in every local step."""

from __future__ import annotations

from torch import Tensor

from flatfed.algorithms.bases.server_rate import ServerRate
from flatfed.algorithms.client_optimisers import SGD
from flatfed.core.configuration.checking import Momentum
from flatfed.core.method.algorithm import Ask, ClientOptimiser
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, vector
from flatfed.core.method.vectors import norm


class ServerMomentum(ServerRate):
    """The server's momentum goes down and stays fixed during the round; full-batch gradients renew it.

    Karimireddy et al., "Breaking the centralized barrier for cross-device federated learning", NeurIPS 2021.
    """

    beta: Momentum = 0.9

    def server_state(self) -> Slots:
        """Declare the momentum."""
        return {"momentum": vector()}

    def global_direction(self, server: Server) -> Tensor | None:
        """Return the momentum."""
        return server.kept.momentum

    def mixed(self, fresh: Tensor, momentum: Tensor) -> Tensor:
        """Return `(1 - beta) g + beta m`."""
        return (1 - self.beta) * fresh + self.beta * momentum

    def step(self, server: Server, replies: Replies, gradient: Tensor) -> None:
        """Average the models and renew the momentum."""
        server.w = server.w + replies.mean_update()
        server.kept.momentum = self.mixed(gradient, server.kept.momentum)
        server.watch["momentum_norm"] = norm(server.kept.momentum)


class MimeLite(ServerMomentum, id="mimelite"):
    """The server's momentum in every local step, renewed by the clients' full-batch gradients.

        q = (1 - beta) g + beta m                               m fixed during the round
        w <- w + sum_S p_k (w_k - w)
        m <- (1 - beta) sum_S p_k grad f_k(w) + beta m

    Karimireddy et al., "Breaking the centralized barrier for cross-device federated learning", NeurIPS 2021.
    """

    client_opt: ClientOptimiser = SGD()

    def uploads(self) -> tuple[str, ...]:
        """Name the model and the full-batch gradient."""
        return ("w", "g")

    def broadcast(self, server: Server) -> Message:
        """Send the model and the momentum."""
        return Message(w=server.w, momentum=server.kept.momentum)

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        """Mix the momentum in."""
        return self.mixed(gradient, client.received.momentum)

    def finish(self, client: Client) -> Message:
        """Send the model and the plain gradient over all examples at the received model."""
        return Message(w=client.w, g=client.full_gradient(at=client.start))

    def update(self, server: Server, replies: Replies) -> None:
        """Average, and renew the momentum."""
        self.step(server, replies, replies.mean("g"))


class Mime(ServerMomentum, id="mime"):
    """MimeLite with the clients' drift removed: the same clients are asked twice per round.

        c = sum_S p_k grad f_k(w)                               from a first exchange
        q = (1 - beta) (g(w_k) - g(w) + c) + beta m             both gradients on the same batch
        w <- w + sum_S p_k (w_k - w)
        m <- (1 - beta) c + beta m

    Karimireddy et al., "Breaking the centralized barrier for cross-device federated learning", NeurIPS 2021.
    """

    def round(self, server: Server, ask: Ask) -> None:
        """Ask for the gradient at the model, then for local steps; what was received stays on the client."""
        c = ask(Message(w=server.w), expect=("g",)).mean("g")
        # The model is not sent again: clients hold it from the first exchange.
        self.step(server, ask(Message(c=c, momentum=server.kept.momentum)), c)

    def local(self, client: Client) -> Message:
        """Send the gradient first, then train."""
        return Message(g=client.full_gradient()) if client.exchange == 0 else super().local(client)

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        """Take the drift off and mix the momentum in."""
        # `gradient` is still valid: of the two alternating buffers, the second pass takes the other.
        fresh = gradient - client.gradient(at=client.start) + client.received.c
        return self.mixed(fresh, client.received.momentum)
