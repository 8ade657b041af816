"""Which examples a loss is taken over: everyone's, one client's or a test set's, all of them or a fixed random part."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from flatfed.core.errors import ConfigError, nearest
from flatfed.core.randomness import torch_generator
from flatfed.core.task.examples import Examples, PartExamples, joined
from flatfed.core.task.task import Task

TRAIN, CLIENT = "train", "client"


@dataclass(frozen=True)
class Sample:
    """A set of examples by name.

    Attributes:
        of: `train` (all clients' examples), `client 3` (one client's), or the name of a test set.
        most: take this number at random, if there are more; None is all.
        seed: key of that draw.
        part: which of the draws that have no example in common, from 0.
    """

    of: str = TRAIN
    most: int | None = None
    seed: int = 0
    part: int = 0

    def __post_init__(self) -> None:
        if self.most is None:
            return
        is_whole = isinstance(self.most, int) and not isinstance(self.most, bool)
        if not is_whole or self.most < 1:
            raise ConfigError(f"the number of examples must be a whole number of at least 1, not {self.most!r}")

    def examples(self, task: Task) -> Examples:
        """Return the examples."""
        whole = self._whole(task)
        if self._is_all_of(len(whole)):
            return whole
        # The draws of one seed are parts of one permutation: they have no example in common.
        order = torch.randperm(len(whole), generator=torch_generator(self.seed, "sample", self.of))
        assert self.most is not None
        chosen = order[self.part * self.most : (self.part + 1) * self.most]
        # Sorted: only the set is random, and not the order of sums over it.
        return PartExamples(whole, chosen.sort().values)

    def _is_all_of(self, count: int) -> bool:
        return self.most is None or count <= self.most

    def _whole(self, task: Task) -> Examples:
        """Return the examples that are drawn from."""
        if self.of == TRAIN:
            return joined(task.clients)
        client = self._client()
        if client is not None:
            return _examples_of(task, client)
        if self.of not in task.test_sets:
            known = [TRAIN, *task.test_sets, "client 0"]
            raise ConfigError(nearest(self.of, known, "set of examples"))
        return task.test_sets[self.of]

    def _client(self) -> int | None:
        """Return which client's examples these are, if one's."""
        kind, _, number = self.of.partition(" ")
        # `isdigit` alone admits digits that `int` refuses.
        if kind == CLIENT and number.isascii() and number.isdigit():
            return int(number)
        return None

    def count(self, task: Task) -> int:
        """Return how many examples there are, and refuse an empty set."""
        count = len(self._whole(task))
        if count == 0:
            raise ConfigError(f"{self.of} holds no examples to take a loss over")
        if self.most is None:
            return count
        return min(count, self.most)

    def describe(self, task: Task) -> str:
        """Return the same for people."""
        whole = len(self._whole(task))
        if self._is_all_of(whole):
            return f"{self._name()}, all {whole:,} examples"
        return f"{self._name()}, {self.most:,} of {whole:,} examples (seed {self.seed})"

    def _name(self) -> str:
        if self.of == TRAIN:
            return "training data of all clients"
        if " " in self.of:
            return self.of
        return f"{self.of} set"


def _examples_of(task: Task, client: int) -> Examples:
    if client >= task.population:
        raise ConfigError(f"there is no client {client}; they are 0 to {task.population - 1}")
    return task.examples(client)


def own(client: int, most: int | None = None, seed: int = 0, part: int = 0) -> Sample:
    """Return one client's examples, or a part of them."""
    return Sample(f"{CLIENT} {client}", most, seed, part)
