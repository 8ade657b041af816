"""A round that leaves no trace: what the clients would do next, or what they did last, for measurements.

Every draw is keyed, so a probe of round t sees the very models that the clients of round t will have; nothing that the
federation keeps is touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.server import Replies
from flatfed.core.model.layout import LOCAL_BUFFERS, LOCAL_COUNTERS, LOCAL_PARAMETERS
from flatfed.core.round.answers import MODEL
from flatfed.core.round.exchange import Courier, Tally
from flatfed.core.round.federation import Federation


@dataclass(frozen=True)
class ClientModel:
    """A client's model after its local steps, before anything is averaged.

    `w` are the shared parameters, `buffers` the shared statistics and whatever the client keeps for itself.
    """

    client: int
    samples: int
    w: Tensor
    buffers: Mapping[str, Tensor]


class ClientModels(Sequence[ClientModel]):
    """The models of a round's clients, in client order; each is read when it is asked for."""

    def __init__(self, courier: Courier, replies: Replies) -> None:
        self._courier, self._replies = courier, replies

    def __len__(self) -> int:
        return len(self._replies)

    def __getitem__(self, index: int) -> ClientModel:  # type: ignore[override]
        reply = self._replies[index]
        buffers = {name: reply.message.vectors[name] for name in self._courier.federation.server.buffers}
        kept = self._courier.kept.get(reply.client, {})
        buffers |= {name: kept[name] for name in (LOCAL_PARAMETERS, LOCAL_BUFFERS, LOCAL_COUNTERS) if name in kept}
        return ClientModel(reply.client, reply.samples, self._courier.models[reply.client][MODEL], buffers)

    def __iter__(self) -> Iterator[ClientModel]:
        return (self[index] for index in range(len(self)))


@dataclass(frozen=True)
class Probe:
    """The last exchange of a round that was only tried: the replies, and each client's model."""

    replies: Replies
    models: ClientModels

    @property
    def pseudo_gradient(self) -> Tensor:
        """`sum_k p_k (w - w_k)`, `w` the model sent."""
        return -self.replies.mean_update()


def probe(federation: Federation, clients: Sequence[int] | None = None, algorithm: Algorithm | None = None) -> Probe:
    """Try the federation's next round and return what came back; after the last planned round, the one behind it.

    Args:
        federation: left as it is.
        clients: who takes part; by default those that the next round draws.
        algorithm: a variant of the method, with the same states, to try instead.
    """
    shadow = federation.shadow(algorithm)
    shadow.shows_models = True
    if clients is None:
        clients = _next_cohort(federation)
    cohort = [client for client in clients if federation.task.samples(client)]
    courier = Courier(shadow, cohort, Tally())
    # The courier's states and the tally are dropped, so that nothing of this round is kept or counted.
    shadow.method.advance(shadow.server, courier)
    assert courier.replies is not None
    return Probe(courier.replies, ClientModels(courier, courier.replies))


def _next_cohort(federation: Federation) -> list[int]:
    first_attempt = 0
    population, seed = federation.task.population, federation.settings.seed
    return federation.sampler.draw(population, seed, federation.round, first_attempt)


def last_round(federation: Federation) -> Probe:
    """Return the federation's last round as it was played: the local models before they were averaged.

    It is tried again from the state before it, with the same draws, so that the models are the same to the bit.
    """
    past = federation.past()
    return probe(past.federation, past.clients)
