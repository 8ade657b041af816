"""What of a replayed round is other than what was recorded: a column of its row, or a tensor of its state."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flatfed.core.method.state import State
from flatfed.core.round.federation import TIMES, Federation
from flatfed.runs.checkpoints import Loaded, stores_of, tensors_of
from flatfed.runs.history import Row

TROUBLE = ("rejected", "attempts")
"""Columns of a round in which something went wrong, which need not go wrong again."""
NEEDED = ("round", "clients", "lr", "train_loss", "update_norm", "model_norm", "bytes_down", "bytes_up", "backprops")


@dataclass(frozen=True)
class Difference:
    """Where a replay first differs.

    Args:
        round: from 1.
        what: a column of the history, or a tensor of the checkpoint after the round.
        recorded: as the bundle has it.
        replayed: as it is here.
    """

    round: int
    what: str
    recorded: str
    replayed: str

    def __str__(self) -> str:
        return f"round {self.round} differs in {self.what}: recorded {self.recorded}, replayed {self.replayed}"


def row_difference(recorded: Row, replayed: Row) -> Difference | None:
    """Return the first column that differs; times are no part of it, nor what only a monitor measured."""
    again = json.loads(json.dumps(replayed))
    for name in dict.fromkeys((*NEEDED, *again, *(name for name in TROUBLE if name in recorded))):
        if name in TIMES:
            continue
        before, now = recorded.get(name), again.get(name)
        if name == "watch" and isinstance(before, dict) and isinstance(now, dict):
            before = {key: before.get(key) for key in now}
        if before != now:
            return Difference(replayed["round"] + 1, f"column {name}", _short(before), _short(now))
    return None


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def state_difference(loaded: Loaded, federation: Federation) -> Difference | None:
    """Return the first tensor of server or clients that differs from a checkpoint."""
    for name, before, now in _pairs(loaded, federation):
        if before is None or now is None:
            return Difference(loaded.round, f"state {name}", _there(before), _there(now))
        if before.dtype != now.dtype or not torch.equal(before.cpu(), now.cpu()):
            return Difference(loaded.round, f"tensor {name}", _digits(before), _digits(now))
    return None


def _pairs(loaded: Loaded, federation: Federation) -> Iterator[tuple[str, Tensor | None, Tensor | None]]:
    yield from _by_name("server", loaded.tensors, tensors_of(federation))
    for name, store in stores_of(federation).items():
        saved = loaded.states.get(name)
        known = {} if saved is None else dict(saved.items())
        for client in sorted({*known, *store.known()}):
            own: State = store.read(client)
            yield from _by_name(f"{name} {client}", known.get(client, {}), own.tensors())


def _by_name(
    whose: str, before: Mapping[str, Tensor], now: Mapping[str, Tensor]
) -> Iterator[tuple[str, Tensor | None, Tensor | None]]:
    for name in dict.fromkeys((*before, *now)):
        yield f"{name} of {whose}", before.get(name), now.get(name)


def _there(tensor: Tensor | None) -> str:
    return "nothing" if tensor is None else f"{tuple(tensor.shape)}"


def _digits(tensor: Tensor) -> str:
    return f"norm {float(tensor.double().norm()):.17g}"
