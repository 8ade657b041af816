"""What a method sees of the server: the global model, its declared state, and a round's replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from flatfed.core.method.engine import Reply
from flatfed.core.method.messages import Message
from flatfed.core.method.state import ClientStore, State


class Server:
    """The server's state.

    Attributes:
        w: the global model, a flat vector; assign the next one in `update`.
        kept: the declared state, e.g. `kept.sigma`.
        buffers: shared buffers (BatchNorm statistics, counters); the loop averages them, methods leave them alone.
        population: number of clients, N.
        tensors: number of the model's tensors that are shared.
        round, rounds, lr: the current round (from 0), how many there are, this round's learning rate.
        watch: numbers that a method wants to see in this round's history row, e.g. `watch["c"] = 0.3`.
    """

    def __init__(
        self,
        w: Tensor,
        kept: State,
        buffers: dict[str, Tensor],
        population: int,
        rounds: int,
        records: ClientStore,
        tensors: int,
    ) -> None:
        self.w, self.kept, self.buffers, self.tensors = w, kept, buffers, tensors
        self.population, self.rounds, self.round, self.lr = population, rounds, 0, 0.0
        self.watch: dict[str, float] = {}
        self._records = records

    def recall(self, client: int) -> State:
        """Return a copy of what the server keeps about a client (declared by `records`)."""
        return self._records.read(client)

    def record(self, client: int) -> State:
        """Return what the server keeps about a client, to change in place: for `update` alone.

        It may leave the memory when its vectors, and views of them, are let go.
        """
        return self._records.open(client)


class Replies(Sequence[Reply]):
    """The good replies of one exchange, in client order, with the message they answer.

    Vectors of large cohorts lie on disk: `reply.message.w` reads one, and it is gone when it is let go. They are to be
    read, not changed in place. The sums below hold one reply at a time.
    """

    def __init__(self, replies: Sequence[Reply], sent: Message, uniform: bool) -> None:
        # Replies arrive in any order, and the rounding of a sum depends on it.
        self._replies = sorted(replies, key=lambda reply: reply.client)
        self.sent = sent
        counts = [1 if uniform else reply.samples for reply in self._replies]
        self.weights = [count / sum(counts) for count in counts]

    def __len__(self) -> int:
        return len(self._replies)

    def __getitem__(self, index: int) -> Reply:  # type: ignore[override]
        return self._replies[index]

    def __iter__(self) -> Iterator[Reply]:
        return iter(self._replies)

    def combine(self, name: str, coefficients: Sequence[float]) -> Tensor:
        """Return `sum_k a_k v_k` of the named vector, added in client order."""
        total = torch.zeros_like(self._replies[0].message.vectors[name])
        for reply, coefficient in zip(self._replies, coefficients, strict=True):
            total.add_(reply.message.vectors[name], alpha=coefficient)
        return total

    def mean(self, name: str) -> Tensor:
        """Return `sum_k p_k v_k`; `p_k` follows the weighting, or is `1/m` in methods that say so."""
        return self.combine(name, self.weights)

    def mean_update(self, scale: Callable[[Reply], float] = lambda reply: 1.0) -> Tensor:
        """Return `sum_k p_k s_k (w_k - w)`, `w` the model sent; with `s_k = 1`, the negative pseudo-gradient."""
        total = torch.zeros_like(self.sent.w)
        for reply, weight in zip(self._replies, self.weights, strict=True):
            # Differences are weighted, not models: weights that miss 1 by a rounding error would scale the model.
            total.add_(reply.message.w - self.sent.w, alpha=weight * scale(reply))
        return total

    def mean_gradient(self, lr: float) -> Tensor:
        """Return `-sum_k p_k (w_k - w)/(K_k lr)`: the mean direction of the clients' steps, on a gradient's scale."""
        return self.mean_update(lambda reply: -1 / (reply.steps * lr))

    def divergence(self) -> float:
        """Return `(1/m) sum_k ||w_k - w||`, `w` the model sent."""
        return sum(float(torch.dist(reply.message.w, self.sent.w)) for reply in self._replies) / len(self)

    def uniform_mean(self, name: str) -> Tensor:
        """Return `(1/m) sum_k v_k`."""
        return self.combine(name, [1 / len(self)] * len(self))
