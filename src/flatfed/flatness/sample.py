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
        most: take so many at random, if there are more; None is all.
        seed: key of that draw.
        part: which of the draws that have no example in common, from 0.
    """

    of: str = TRAIN
    most: int | None = None
    seed: int = 0
    part: int = 0

    def __post_init__(self) -> None:
        if self.most is not None and (isinstance(self.most, bool) or not isinstance(self.most, int) or self.most < 1):
            raise ConfigError(f"the number of examples must be a whole number of at least 1, not {self.most!r}")

    def examples(self, task: Task) -> Examples:
        """Return the examples."""
        whole = self._whole(task)
        if self.most is None or len(whole) <= self.most:
            return whole
        order = torch.randperm(len(whole), generator=torch_generator(self.seed, "sample", self.of))
        chosen = order[self.part * self.most : (self.part + 1) * self.most]
        return PartExamples(whole, chosen.sort().values)

    def _whole(self, task: Task) -> Examples:
        if self.of == TRAIN:
            return joined(task.clients)
        kind, _, number = self.of.partition(" ")
        if kind == CLIENT and number.isascii() and number.isdigit():
            if int(number) >= task.population:
                raise ConfigError(f"there is no client {number}; they are 0 to {task.population - 1}")
            return task.examples(int(number))
        if self.of not in task.test_sets:
            known = [TRAIN, *task.test_sets, "client 0"]
            raise ConfigError(nearest(self.of, known, "set of examples"))
        return task.test_sets[self.of]

    def count(self, task: Task) -> int:
        """Return how many examples there are, and refuse an empty set."""
        count = len(self._whole(task))
        if count == 0:
            raise ConfigError(f"{self.of} holds no examples to take a loss over")
        return count if self.most is None else min(count, self.most)

    def describe(self, task: Task) -> str:
        """Return the same for people."""
        whole = len(self._whole(task))
        name = "training data of all clients" if self.of == TRAIN else self.of
        name = name if " " in name else f"{name} set"
        if self.most is None or whole <= self.most:
            return f"{name}, all {whole:,} examples"
        return f"{name}, {self.most:,} of {whole:,} examples (seed {self.seed})"


def own(client: int, most: int | None = None, seed: int = 0, part: int = 0) -> Sample:
    """Return one client's examples, or a part of them."""
    return Sample(f"{CLIENT} {client}", most, seed, part)
