"""A round that leaves no trace: what the clients would do next, for measurements.

Every draw is keyed, so a probe of round t sees the very models that the clients of round t will have; nothing that the
federation keeps is touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from flatfed.core.algorithm import Algorithm
from flatfed.core.engine import Reply
from flatfed.core.exchange import Courier, Tally
from flatfed.core.layout import LOCAL_BUFFERS, LOCAL_COUNTERS, LOCAL_PARAMETERS
from flatfed.core.loop import Federation
from flatfed.core.server import Replies, Server
from flatfed.core.state import State
from flatfed.core.store import ClientStore


@dataclass(frozen=True)
class ClientModel:
    """A client's model after its local steps, before anything is averaged.

    `w` are the shared parameters, `buffers` the shared statistics and whatever the client keeps for itself.
    """

    client: int
    samples: int
    w: Tensor
    buffers: Mapping[str, Tensor]


@dataclass(frozen=True)
class Probe:
    """The last exchange of a round that was only tried: the replies, and each client's model."""

    replies: Replies
    models: list[ClientModel]

    @property
    def pseudo_gradient(self) -> Tensor:
        """`sum_k p_k (w - w_k)`, `w` the model sent."""
        return -self.replies.mean_update()


def probe(federation: Federation, clients: Sequence[int] | None = None, algorithm: Algorithm | None = None) -> Probe:
    """Try the federation's next round and return what came back.

    Args:
        federation: left as it is.
        clients: who takes part; by default those of the next round (of the last, when the run is at its end).
        algorithm: a variant of the method, with the same states, to try instead.
    """
    shadow = _shadow(federation, algorithm or federation.algorithm)
    if clients is None:
        clients = federation.sampler.draw(federation.task.population, federation.settings.seed, shadow.server.round, 0)
    cohort = [client for client in clients if len(federation.task.examples(client))]
    courier = Courier(shadow, cohort, Tally())
    shadow.method.advance(shadow.server, courier)
    assert courier.replies is not None
    return Probe(courier.replies, [_model(reply, federation.server) for reply in courier.replies])


def _model(reply: Reply, server: Server) -> ClientModel:
    assert reply.model is not None
    buffers = {name: reply.message.vectors[name] for name in server.buffers}
    kept = reply.kept or State({})
    buffers |= {name: getattr(kept, name) for name in (LOCAL_PARAMETERS, LOCAL_BUFFERS, LOCAL_COUNTERS) if name in kept}
    return ClientModel(reply.client, reply.samples, reply.model, buffers)


def _shadow(federation: Federation, algorithm: Algorithm) -> Federation:
    """Return a federation that reads what this one keeps and writes to memory of its own."""
    server, records = federation.server, _Overlay(federation.records)
    own = Server(server.w.clone(), server.kept.copy(), dict(server.buffers), server.population, server.rounds, records)
    shadow = Federation(
        federation.task,
        algorithm,
        federation.settings,
        federation.sampler,
        federation.engine,
        own,
        _Overlay(federation.clients),
        records,
        federation.average,
        federation.average_kept,
        federation.coming,
    )
    shadow.shows_models = True
    shadow.begin_round()
    return shadow


class _Overlay:
    """States as another store has them, until they are written here."""

    def __init__(self, below: ClientStore) -> None:
        self._below = below
        self._own: dict[int, State] = {}

    def read(self, client: int) -> State:
        return self._own[client].copy() if client in self._own else self._below.read(client)

    def open(self, client: int) -> State:
        return self._own.setdefault(client, self.read(client))

    def write(self, client: int, state: State) -> None:
        self._own[client] = state

    def known(self) -> list[int]:
        return sorted({*self._below.known(), *self._own})

    def take_changed(self) -> set[int]:
        return set()

    def mark_changed(self, clients: set[int]) -> None:
        pass
