"""What a good reply looks like, and what is wrong with one that is not."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from flatfed.core.method.engine import Reply
from flatfed.core.method.messages import SCALAR_BYTES, Message
from flatfed.core.method.vectors import is_finite, norm
from flatfed.core.model.layout import COUNTERS

NOT_FINITE = "not finite"
TWICE = "client answered twice"

SPARE_NUMBERS = 256
"""How many numbers a reply may hold beside those that its method declares."""


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
    samples: Mapping[int, int]
    """The clients that were asked, and how many examples each holds."""
    shapes: dict[str, int]
    like: Tensor
    max_update_norm: float | None = None
    numbers: tuple[str, ...] = ()
    attempt: int = 0

    @functools.cached_property
    def max_bytes(self) -> int:
        """Most bytes that a reply may have: the vectors of a good one, and some numbers."""
        entries = {name: _dtype(name, self.like).itemsize for name in self.shapes}
        vectors = sum(size * entries[name] for name, size in self.shapes.items())
        return vectors + SCALAR_BYTES * (len(self.numbers) + SPARE_NUMBERS)

    def fault(self, reply: Reply, sent: Message, answered: Collection[int]) -> ReplyFault | None:
        """Return why the reply is rejected, or None when it is good."""
        reason = self._origin(reply, answered) or self._form(reply)
        if reason:
            return ReplyFault(reason)
        # Before the norm: NaN lies above no bound, and would pass.
        endless = _not_finite(reply)
        if endless:
            return ReplyFault(f"{endless} is {NOT_FINITE}", overflow=True)
        reason = self._size(reply, sent)
        return ReplyFault(reason) if reason else None

    def _origin(self, reply: Reply, answered: Collection[int]) -> str | None:
        if not self.is_answer(reply):
            return self._strange(reply)
        if reply.client in answered:
            return TWICE
        return reply.missing or None

    def is_answer(self, reply: Reply) -> bool:
        """Say whether the reply is a client's answer in this very exchange, whatever it holds."""
        moment = reply.round, reply.attempt, reply.exchange
        return moment == (self.round, self.attempt, self.exchange) and reply.client in self.samples

    def _strange(self, reply: Reply) -> str:
        if reply.client not in self.samples:
            return "client was not asked"
        if (reply.round, reply.exchange) == (self.round, self.exchange):
            return f"answers attempt {reply.attempt + 1} at the round, not {self.attempt + 1}"
        return f"answers round {reply.round}.{reply.exchange}, not {self.round}.{self.exchange}"

    def _form(self, reply: Reply) -> str | None:
        """Say what is wrong with the names, shapes and types of a reply, or with its size in bytes."""
        reason = self._names(reply.message) or self._shapes(reply.message)
        size = bytes_up(reply)
        if size <= self.max_bytes:
            return reason
        oversized = f"{size:,} bytes, above the bound {self.max_bytes:,}"
        return f"{oversized}: {reason}" if reason else oversized

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
            dtype = _dtype(name, self.like)
            if vector.dtype != dtype:
                return f"{name} is {vector.dtype}, not {dtype}"
        return None

    def _size(self, reply: Reply, sent: Message) -> str | None:
        """Say what is wrong with the number of examples, or with the length of the update."""
        held = self.samples[reply.client]
        if reply.samples != held:
            return f"claims {reply.samples} samples, but holds {held}"
        if self.max_update_norm is None or "w" not in reply.message:
            return None
        length = norm(reply.message.w - sent.w)
        if length > self.max_update_norm:
            return f"update has norm {length:.4g}, above the bound {self.max_update_norm:g}"
        return None


def _dtype(name: str, like: Tensor) -> torch.dtype:
    """Return the type of a vector in a good reply."""
    return torch.int64 if name == COUNTERS else like.dtype


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


def bytes_up(reply: Reply) -> int:
    """Return how many bytes a client's message and the numbers that it watches have."""
    return reply.message.nbytes + SCALAR_BYTES * len(reply.watch)
