"""A reply is checked before it is used; a bad one is rejected with a reason and the round goes on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from flatfed.core.method.engine import Reply
from flatfed.core.method.messages import Message
from flatfed.core.method.vectors import is_finite, norm
from flatfed.core.model.layout import COUNTERS

NOT_FINITE = "not finite"


@dataclass(frozen=True)
class ReplyFault:
    """Why a reply is rejected; `overflow` where its numbers are not finite, which may mean that the run diverges."""

    reason: str
    overflow: bool = False


@dataclass(frozen=True)
class Expectation:
    """What a good reply of this exchange looks like."""

    round: int
    exchange: int
    clients: frozenset[int]
    shapes: dict[str, int]
    like: Tensor
    max_update_norm: float | None = None
    numbers: tuple[str, ...] = ()

    def fault(self, reply: Reply, sent: Message, answered: set[int]) -> ReplyFault | None:
        """Return why the reply is rejected, or None when it is good."""
        reason = self._origin(reply, answered) or self._names(reply.message) or self._shapes(reply.message)
        if reason:
            return ReplyFault(reason)
        # Before the norm: NaN lies above no bound, and would pass.
        endless = _not_finite(reply)
        if endless:
            return ReplyFault(f"{endless} is {NOT_FINITE}", overflow=True)
        reason = self._size(reply, sent)
        return ReplyFault(reason) if reason else None

    def _origin(self, reply: Reply, answered: set[int]) -> str | None:
        if reply.client not in self.clients:
            return "client was not asked"
        if reply.client in answered:
            return "client answered twice"
        if (reply.round, reply.exchange) != (self.round, self.exchange):
            return f"answers round {reply.round}.{reply.exchange}, not {self.round}.{self.exchange}"
        return None

    def _names(self, message: Message) -> str | None:
        missing = (self.shapes.keys() - message.vectors.keys()) | (set(self.numbers) - message.scalars.keys())
        extra = message.vectors.keys() - self.shapes.keys()
        faults = []
        if missing:
            faults.append(f"lacks {', '.join(sorted(missing))}")
        if extra:
            faults.append(f"has unexpected {', '.join(sorted(extra))}")
        return " and ".join(faults) or None

    def _shapes(self, message: Message) -> str | None:
        for name, size in self.shapes.items():
            vector = message.vectors[name]
            if tuple(vector.shape) != (size,):
                return f"{name} has shape {tuple(vector.shape)}, not ({size},)"
            dtype = torch.int64 if name == COUNTERS else self.like.dtype
            if vector.dtype != dtype:
                return f"{name} is {vector.dtype}, not {dtype}"
        return None

    def _size(self, reply: Reply, sent: Message) -> str | None:
        """Say what is wrong with the number of examples, or with the length of the update."""
        if reply.samples < 1:
            return f"claims {reply.samples} samples"
        if self.max_update_norm is None or "w" not in reply.message:
            return None
        length = norm(reply.message.w - sent.w)
        if length > self.max_update_norm:
            return f"update has norm {length:.4g}, above the bound {self.max_update_norm:g}"
        return None


def _not_finite(reply: Reply) -> str | None:
    """Return what in a reply is not finite."""
    for name, vector in reply.message.vectors.items():
        if not is_finite(vector):
            return name
    if not all(math.isfinite(number) for number in reply.message.scalars.values()):
        return "a scalar"
    if reply.loss is not None and not math.isfinite(reply.loss):
        return "loss"
    return None
