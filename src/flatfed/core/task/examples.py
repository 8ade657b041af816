"""Where a client's examples come from: tensors, a part of a shared pool, or any torch Dataset.

All give the same two things: how many there are, and a batch for a tensor of indices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, cast, overload

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, default_collate

from flatfed.core.errors import ConfigError
from flatfed.core.randomness import other_generators, torch_generator

CHUNK = 512
"""Examples that are read at a time where only their targets are asked for."""


class Examples(Protocol):
    """The examples of one client, or of the test set."""

    def __len__(self) -> int:
        """Return the number of examples."""
        ...

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of these examples."""
        ...


class TensorExamples:
    """Examples as one tensor of inputs and one of targets."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        if len(inputs) != len(targets):
            raise ConfigError(f"{len(inputs)} inputs but {len(targets)} targets; they must be equally many")
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.inputs)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of these examples."""
        return self.inputs.index_select(0, indices), self.targets.index_select(0, indices)


class PartExamples:
    """The examples of a pool that belong to one client, kept as indices only."""

    def __init__(self, pool: Examples, part: Tensor) -> None:
        self.pool, self.part = pool, part

    def __len__(self) -> int:
        return self.part.shape[0]  # `len` of a tensor takes several times as long, and this is asked for in every job

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of these examples."""
        return self.pool.batch(self.part.index_select(0, indices))


class JoinedExamples:
    """The examples of several holders one after the other."""

    def __init__(self, parts: Sequence[Examples]) -> None:
        self.parts = parts
        self._ends = torch.tensor([len(part) for part in parts]).cumsum(0)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self.parts) else 0

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of these examples, in ascending order of their holders."""
        # An index that equals an end is the next holder's first; holders without examples are passed over.
        holders = torch.searchsorted(self._ends, indices, right=True)
        batches = [self._of_holder(holder, indices[holders == holder]) for holder in map(int, torch.unique(holders))]
        inputs, targets = zip(*batches, strict=True)
        return torch.cat(inputs), torch.cat(targets)

    def _of_holder(self, holder: int, indices: Tensor) -> tuple[Tensor, Tensor]:
        begin = int(self._ends[holder - 1]) if holder else 0
        return self.parts[holder].batch(indices - begin)


class DatasetExamples:
    """Examples of a map-style torch Dataset, collated as a DataLoader would.

    Random transforms inside the Dataset draw from global generators; these are keyed by torch's, which the
    client keys by round and step.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of these examples."""
        with other_generators(torch.initial_seed()):
            batch = default_collate([self.dataset[int(i)] for i in indices])
        if len(batch) != 2:
            raise ConfigError(f"a Dataset must give (input, target) pairs, not {len(batch)} things")
        return batch[0], batch[1]


class Partition(Sequence[Examples]):
    """A pool of examples and, for each client, the indices of those that it holds."""

    def __init__(self, inputs: Tensor, targets: Tensor, parts: Sequence[Any]) -> None:
        self._divide(TensorExamples(inputs, targets), parts)

    @classmethod
    def over(cls, pool: Examples, parts: Sequence[Any]) -> Partition:
        """Divide any pool of examples: files that are decoded when they are needed, say."""
        made = cls.__new__(cls)
        made._divide(pool, parts)
        return made

    def _divide(self, pool: Examples, parts: Sequence[Any]) -> None:
        self.pool = pool
        self.parts = [torch.as_tensor(part, dtype=torch.int64) for part in parts]
        for client, part in enumerate(self.parts):
            if not self._is_inside(part):
                raise ConfigError(f"client {client} refers to examples outside the {len(self.pool)} that there are")

    def _is_inside(self, part: Tensor) -> bool:
        if len(part) == 0:
            return True
        return int(part.min()) >= 0 and int(part.max()) < len(self.pool)

    def __len__(self) -> int:
        return len(self.parts)

    @overload
    def __getitem__(self, client: int) -> Examples: ...
    @overload
    def __getitem__(self, client: slice) -> Sequence[Examples]: ...
    def __getitem__(self, client: int | slice) -> Examples | Sequence[Examples]:
        if isinstance(client, slice):
            raise TypeError("clients are taken one at a time")
        return PartExamples(self.pool, self.parts[client])


class Pooled(Sequence[Examples]):
    """One client that holds what several hold `apart`: a view, nothing is copied."""

    def __init__(self, apart: Sequence[Examples]) -> None:
        self.apart = apart
        datasets = [part.dataset for part in apart if isinstance(part, DatasetExamples)]
        # As one Dataset, so that random transforms draw on from one example to the next, whoever held them.
        alike = len(datasets) == len(apart)
        self._together: Examples = DatasetExamples(ConcatDataset(datasets)) if alike else joined(apart)

    def __len__(self) -> int:
        return 1

    @overload
    def __getitem__(self, client: int) -> Examples: ...
    @overload
    def __getitem__(self, client: slice) -> Sequence[Examples]: ...
    def __getitem__(self, client: int | slice) -> Examples | Sequence[Examples]:
        return (self._together,)[client]


def joined(clients: Sequence[Examples]) -> Examples:
    """Return everyone's examples as one set; parts of one pool stay one gather."""
    if isinstance(clients, Pooled):
        return joined(clients.apart)
    if isinstance(clients, Partition):
        return PartExamples(clients.pool, torch.cat(clients.parts))
    return JoinedExamples(clients)


def targets_of(examples: Examples) -> Tensor:
    """Return the targets of all examples; the inputs are read only where the two come together."""
    if isinstance(examples, TensorExamples):
        return examples.targets
    if isinstance(examples, PartExamples) and isinstance(examples.pool, TensorExamples):
        return examples.pool.targets.index_select(0, examples.part)
    chunks = torch.split(torch.arange(len(examples)), CHUNK)
    return torch.cat([examples.batch(indices)[1] for indices in chunks])


def as_examples(source: Any, label: str) -> Examples:
    """Return `source` (a pair of tensors, a Dataset, or examples already) as examples."""
    if hasattr(source, "batch") and hasattr(source, "__len__"):
        return cast(Examples, source)
    if _is_pair(source):
        try:
            return TensorExamples(source[0], source[1])
        except ConfigError as error:
            raise ConfigError(f"{label}: {error}") from None
    if _is_dataset(source):
        return DatasetExamples(source)
    kind = f"{len(source)} things" if isinstance(source, tuple | list) else f"a {type(source).__name__}"
    raise ConfigError(f"{label} must be a pair of tensors (inputs, targets) or a torch Dataset, not {kind}")


def _is_pair(source: Any) -> bool:
    if not isinstance(source, tuple | list) or len(source) != 2:
        return False
    return isinstance(source[0], Tensor) and isinstance(source[1], Tensor)


def _is_dataset(source: Any) -> bool:
    """Say whether something is a map-style Dataset, which needs no base class; containers of Python are none."""
    if isinstance(source, tuple | list | dict | str | bytes | Tensor):
        return False
    return hasattr(source, "__getitem__") and hasattr(source, "__len__")


def epoch_batches(count: int, batch_size: int | None, key: tuple[Any, ...]) -> Iterator[Tensor]:
    """Yield the index batches of one epoch: a keyed shuffle, the last partial batch kept.

    `batch_size=None` is the full batch in its own order, without a shuffle.
    """
    if batch_size is None:
        yield torch.arange(count)
        return
    yield from torch.split(epoch_order(count, key), batch_size)


def epoch_order(count: int, key: tuple[Any, ...]) -> Tensor:
    """Return the order of the examples in one epoch: a keyed shuffle."""
    return torch.randperm(count, generator=torch_generator(*key))
