"""A reply is checked before it is used; a bad one is refused with a reason and the round goes on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from flatfed.core.method.messages import Message
from flatfed.core.method.vectors import is_finite, norm
from flatfed.core.model.layout import COUNTERS
from flatfed.core.round.engine import Reply

NOT_FINITE = "not finite"


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

    def fault(self, reply: Reply, sent: Message, answered: set[int]) -> str | None:
        """Return why the reply is refused, or None when it is good."""
        return self._origin(reply, answered) or self._form(reply.message) or self._values(reply, sent)

    def _origin(self, reply: Reply, answered: set[int]) -> str | None:
        if reply.client not in self.clients:
            return "client was not asked"
        if reply.client in answered:
            return "client answered twice"
        if (reply.round, reply.exchange) != (self.round, self.exchange):
            return f"answers round {reply.round}.{reply.exchange}, not {self.round}.{self.exchange}"
        return None

    def _form(self, message: Message) -> str | None:
        missing = (self.shapes.keys() - message.vectors.keys()) | (set(self.numbers) - message.scalars.keys())
        extra = message.vectors.keys() - self.shapes.keys()
        if missing or extra:
            said = [f"lacks {', '.join(sorted(missing))}"] if missing else []
            return " and ".join(said + ([f"has unexpected {', '.join(sorted(extra))}"] if extra else []))
        for name, size in self.shapes.items():
            vector = message.vectors[name]
            if tuple(vector.shape) != (size,):
                return f"{name} has shape {tuple(vector.shape)}, not ({size},)"
            dtype = torch.int64 if name == COUNTERS else self.like.dtype
            if vector.dtype != dtype:
                return f"{name} is {vector.dtype}, not {dtype}"
        return None

    def _values(self, reply: Reply, sent: Message) -> str | None:
        for name, vector in reply.message.vectors.items():
            if not is_finite(vector):
                return f"{name} is {NOT_FINITE}"
        if not all(map(math.isfinite, reply.message.scalars.values())):
            return f"a scalar is {NOT_FINITE}"
        if reply.loss is not None and not math.isfinite(reply.loss):
            return f"loss is {NOT_FINITE}"
        if reply.samples < 1:
            return f"claims {reply.samples} samples"
        if self.max_update_norm is not None and "w" in reply.message:
            length = norm(reply.message.w - sent.w)
            if length > self.max_update_norm:
                return f"update has norm {length:.4g}, above the bound {self.max_update_norm:g}"
        return None
