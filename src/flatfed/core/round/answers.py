"""The replies of one exchange as they come: checked, put away, and compared where a client answers twice."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from flatfed.core.method.engine import Reply
from flatfed.core.method.messages import Message
from flatfed.core.method.round_memory import RoundMemory, StoredTensors
from flatfed.core.round.expectation import TWICE, Expectation, ReplyFault

MODEL = "model"


@dataclass(frozen=True)
class Received:
    """A good reply: the message's vectors, the client's new state and its model lie in the memory of the round."""

    reply: Reply
    """Without state and model, which are no business of a method."""
    kept: StoredTensors | None
    model: StoredTensors | None

    @classmethod
    def of(cls, reply: Reply, memory: RoundMemory) -> Received:
        """Put what a reply holds into the memory of the round."""
        message = Message.stored(memory.keep(reply.message.vectors), reply.message.scalars)
        kept = None if reply.kept is None else memory.keep(reply.kept.tensors())
        model = None if reply.model is None else memory.keep({MODEL: reply.model})
        return cls(replace(reply, message=message, kept=None, model=None), kept, model)


class Answers:
    """The replies of one exchange, in any order of arrival: who has answered well, and what is wrong with the others.

    The same answer once more is rejected, and the client counts once. Of two different answers neither counts: which of
    them came first is chance.
    """

    def __init__(self, expected: Expectation, sent: Message, memory: RoundMemory) -> None:
        self._expected, self._sent, self._memory = expected, sent, memory
        self._good: dict[int, Received] = {}
        self._bad: list[tuple[int, bool, ReplyFault]] = []
        # Of each client's first answer where that was bad: what it said, as a digest. The good ones are there.
        self._rejected: dict[int, bytes] = {}
        self._answered: set[int] = set()
        self._contradictory: set[int] = set()

    def take(self, reply: Reply) -> None:
        """Check a reply when it comes."""
        fault = self._expected.fault(reply, self._sent, self._answered)
        if self._expected.is_answer(reply):
            self._compare(reply, fault)
        if fault is None:
            self._good[reply.client] = Received.of(reply, self._memory)
        else:
            self._bad.append((reply.client, self._expected.is_answer(reply), fault))

    def _compare(self, reply: Reply, fault: ReplyFault | None) -> None:
        """Compare an answer with the client's first one; note what that said where it is not kept."""
        if reply.client not in self._answered:
            self._answered.add(reply.client)
            if fault is not None:
                self._rejected[reply.client] = _digest(reply, _state_of(reply))
        elif self._first(reply.client) != _digest(reply, _state_of(reply)):
            self._contradictory.add(reply.client)

    def _first(self, client: int) -> bytes:
        """Return what a client's first answer said, as a digest."""
        if client in self._rejected:
            return self._rejected[client]
        good = self._good[client]
        return _digest(good.reply, good.kept or {})

    def good(self) -> list[Received]:
        """Return the good replies, in client order."""
        return [self._good[client] for client in sorted(self._good) if client not in self._contradictory]

    def faults(self) -> list[tuple[int, ReplyFault]]:
        """Return what is wrong with the others, in client order."""
        faults = [(client, self._final(client, is_answer, fault)) for client, is_answer, fault in self._bad]
        faults += [(client, ReplyFault(TWICE)) for client in self._good if client in self._contradictory]
        faults += [(client, ReplyFault("no reply")) for client in self._silent()]
        return sorted(faults, key=lambda entry: (entry[0], entry[1].reason))

    def _silent(self) -> set[int]:
        """Return the clients that were asked and of which nothing came."""
        heard = {client for client, _, _ in self._bad}
        return self._expected.samples.keys() - heard - self._good.keys()

    def _final(self, client: int, is_answer: bool, fault: ReplyFault) -> ReplyFault:
        """Return the fault of a reply now that all have come: contradictory answers have the same one."""
        if client in self._contradictory and is_answer:
            return ReplyFault(TWICE)
        return fault


def _state_of(reply: Reply) -> dict[str, Tensor]:
    return {} if reply.kept is None else reply.kept.tensors()


def _digest(reply: Reply, kept: Mapping[str, Tensor]) -> bytes:
    """Return a SHA-256 of all that an answer says; how long it took is not the client's word."""
    numbers = reply.samples, reply.steps, reply.backprops, reply.loss, reply.drift
    digest = hashlib.sha256(repr((numbers, sorted(reply.watch.items()), reply.missing)).encode())
    for part in (reply.message, Message.of(kept)):
        digest.update(hashlib.sha256(part.to_bytes()).digest())
    return digest.digest()
