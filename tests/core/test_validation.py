"""Validation: examples that are held out by keyed draws; each client keeps one, and nothing is in both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

import flatfed as ff
from flatfed.core.randomness import key
from flatfed.core.task.examples import Examples
from flatfed.core.task.validation import HeldOut, hold_out
from flatfed.data.storage.held_out import divided

SIZES = (10, 1, 20, 0, 5)


def examples(first: int, count: int) -> tuple[Tensor, Tensor]:
    """Examples whose input is their number."""
    numbers = torch.arange(first, first + count)
    return numbers.float().view(-1, 1), numbers % 3


class Listed(Dataset[Any]):
    """The same as a Dataset."""

    def __init__(self, pair: tuple[Tensor, Tensor]) -> None:
        self._pair = pair

    def __len__(self) -> int:
        return len(self._pair[0])

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        return self._pair[0][number], self._pair[1][number]


def clients() -> list[tuple[Tensor, Tensor]]:
    starts = np.cumsum((0, *SIZES[:-1]))
    return [examples(int(first), count) for first, count in zip(starts, SIZES, strict=True)]


def numbers(part: Examples) -> list[int]:
    return [int(value) for value in part.batch(torch.arange(len(part)))[0].flatten()] if len(part) else []


def kinds() -> dict[str, Any]:
    parts = [pair[0].flatten().long() for pair in clients()]
    return {
        "tensors": clients(),
        "datasets": [Listed(pair) for pair in clients()],
        "partition": ff.Partition(*examples(0, sum(SIZES)), parts),
    }


@pytest.mark.parametrize("split", ["client", "global"])
@pytest.mark.parametrize("kind", ["tensors", "datasets", "partition"])
def test_every_example_is_trained_on_or_held_out_and_each_client_keeps_one(kind: str, split: Any) -> None:
    whole = ff.Task(torch.nn.Linear(1, 3), kinds()[kind], examples(0, 3))
    task = hold_out(whole, HeldOut(0.25, split))
    left = [numbers(task.examples(client)) for client in range(task.population)]
    held = numbers(task.tests["validation"])
    assert sorted([*held, *(number for own in left for number in own)]) == list(range(sum(SIZES)))
    assert all(bool(own) == bool(size) for own, size in zip(left, SIZES, strict=True))
    if split == "client":
        assert [size - len(own) for own, size in zip(left, SIZES, strict=True)] == [2, 0, 5, 0, 1]
    else:
        assert len(held) == round(0.25 * sum(SIZES))
    again = hold_out(ff.Task(torch.nn.Linear(1, 3), kinds()[kind]), HeldOut(0.25, split))
    assert numbers(again.tests["validation"]) == held


@pytest.mark.parametrize("split", ["client", "global"])
def test_what_clients_share_is_held_out_of_all_or_none(split: Any) -> None:
    parts = [range(8), range(4, 12), range(4, 12)]
    task = hold_out(ff.Task(torch.nn.Linear(1, 3), ff.Partition(*examples(0, 12), parts)), HeldOut(0.25, split))
    held = numbers(task.tests["validation"])
    assert held and len(set(held)) == len(held)
    left = [numbers(task.examples(client)) for client in range(3)]
    assert left == [[number for number in part if number not in held] for part in parts]


def test_the_smallest_keys_are_held_out() -> None:
    parts = [np.arange(10), np.arange(10, 30)]
    left, held = divided(parts, 0.2)
    expected = [sorted(sorted(part, key=lambda n: key(0, "validation", int(n)))[: len(part) // 5]) for part in parts]
    assert held.tolist() == [*expected[0], *expected[1]]
    assert [part.tolist() for part in left] == [
        [number for number in part if number not in own] for part, own in zip(parts, expected, strict=True)
    ]
    together = sorted(range(30), key=lambda n: key(0, "validation", n))[:6]
    assert sorted(divided(parts, 0.2, "global")[1].tolist()) == sorted(together)


HOW: dict[str, Any] = {"rounds": 2, "lr": 0.01, "sampling": 2, "workers": 0}


def test_train_takes_a_share_or_examples_and_measures_them() -> None:
    task = ff.Task(torch.nn.Linear(1, 3), clients(), examples(0, 3))
    held = ff.train(task, "fedavg", validation=0.25, **HOW)
    assert {"validation_loss", "validation_accuracy", "test_loss"} <= held.history[-1].keys()
    own = ff.train(task, "fedavg", validation=examples(0, 3), **HOW)
    assert own.history[-1]["validation_loss"] == own.history[-1]["test_loss"]
    assert torch.equal(own.vector, ff.train(task, "fedavg", **HOW).vector)


def test_what_cannot_be_held_out_is_refused() -> None:
    task = ff.Task(torch.nn.Linear(1, 3), clients())
    for wrong in (0, 1.0, -0.1, True):
        with pytest.raises(ff.ConfigError, match="validation must be between 0 and 1"):
            ff.train(task, "fedavg", validation=wrong, **HOW)
    with pytest.raises(ff.ConfigError, match="validation_split must be one of"):
        ff.train(task, "fedavg", validation=0.1, validation_split="clients", **HOW)
    with pytest.raises(ff.ConfigError, match=r"0\.01 of no client's examples"):
        ff.train(task, "fedavg", validation=0.01, **HOW)
    absent = ff.Task(torch.nn.Linear(1, 3), ff.Roster([5, 5]))
    with pytest.raises(ff.ConfigError, match="the clients' examples are not here, so none can be held out"):
        ff.train(absent, "fedavg", validation=0.1, **HOW)
    with pytest.raises(ff.ConfigError, match="has a validation set already"):
        ff.train(hold_out(task, HeldOut(0.2)), "fedavg", validation=0.1, **HOW)


@pytest.mark.parametrize("kind", ["dense", "ragged", "pool"])
def test_examples_of_any_structure_are_held_out_as_they_are_kept(kind: str) -> None:
    sizes = [[3] * 4] * 2 if kind == "dense" else [[3, 1, 2, 4], [5, 2, 2, 1]]
    rows = [[list(range(10 * client, 10 * client + size)) for size in own] for client, own in enumerate(sizes)]
    labels = torch.arange(8)
    task: Any = {"model": torch.nn.Linear(1, 1), "test": None, "loss": torch.nn.functional.mse_loss}
    if kind == "pool":
        words = ff.Ragged([row for own in rows for row in own], pad=-1)
        whole = ff.Task(clients=ff.Partition({"words": words}, labels, [range(4), range(4, 8)]), **task)
    else:
        column = torch.tensor if kind == "dense" else lambda own: ff.Ragged(own, pad=-1)
        pairs = [({"words": column(own)}, labels[4 * at : 4 * at + 4]) for at, own in enumerate(rows)]
        whole = ff.Task(clients=pairs, **task)
    parted = hold_out(whole, HeldOut(0.5, "client"))
    examples = [parted.examples(0), parted.examples(1), parted.test_sets["validation"]]
    assert [len(part) for part in examples] == [2, 2, 4]
    found = {}
    for part in examples:
        for place in range(len(part)):
            # Alone in its batch a row has its own length: nothing was filled up when it was held out.
            inputs, targets = part.batch(torch.tensor([place]))
            found[int(targets[0])] = inputs["words"][0].tolist()
    assert [found[number] for number in range(8)] == [row for own in rows for row in own]
