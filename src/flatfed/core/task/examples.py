"""Where a client's examples come from: tensors, a part of a shared pool, or any torch Dataset.

All give the same two things: how many there are, and a batch for a tensor of indices: inputs and targets, each a tensor
or a structure of tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, cast, overload

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset

from flatfed.core.errors import ConfigError
from flatfed.core.randomness import other_generators, torch_generator
from flatfed.core.task.losses import IGNORED
from flatfed.core.task.ragged import Ragged
from flatfed.core.task.sources import Reading, check_counts
from flatfed.core.task.structures import Batch, Structure, count, dense, leaves, select, taken
from flatfed.core.task.structures import joined as joined_structures

CHUNK = 512
"""Examples that are read at a time where only their targets are asked for."""


class Examples(Protocol):
    """The examples of one client, or of the test set."""

    def __len__(self) -> int:
        """Return the number of examples."""
        ...

    def batch(self, indices: Tensor) -> Batch:
        """Return inputs and targets of these examples."""
        ...


class TensorExamples:
    """Examples as one tensor of inputs and one of targets, or as structures of tensors (and `Ragged` rows)."""

    def __init__(self, inputs: Structure, targets: Structure) -> None:
        check_counts(inputs, targets)
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return count(self.targets)

    @property
    def is_ragged(self) -> bool:
        """Whether some rows are of different length."""
        return any(isinstance(leaf, Ragged) for leaf in leaves((self.inputs, self.targets)))

    def batch(self, indices: Tensor) -> Batch:
        """Return inputs and targets of these examples."""
        return select(self.inputs, indices), select(self.targets, indices)


class PartExamples:
    """The examples of a pool that belong to one client, kept as indices only."""

    def __init__(self, pool: Examples, part: Tensor) -> None:
        self.pool, self.part = pool, part

    def __len__(self) -> int:
        return self.part.shape[0]  # `len` of a tensor takes several times as long, and this is asked for in every job

    def batch(self, indices: Tensor) -> Batch:
        """Return inputs and targets of these examples."""
        return self.pool.batch(self.part.index_select(0, indices))


class JoinedExamples:
    """The examples of several holders one after the other."""

    def __init__(self, parts: Sequence[Examples]) -> None:
        self.parts = parts
        self._ends = torch.tensor([len(part) for part in parts]).cumsum(0)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self.parts) else 0

    def batch(self, indices: Tensor) -> Batch:
        """Return inputs and targets of these examples, in ascending order of their holders."""
        # An index that equals an end is the next holder's first; holders without examples are passed over.
        holders = torch.searchsorted(self._ends, indices, right=True)
        batches = [self._of_holder(holder, indices[holders == holder]) for holder in map(int, torch.unique(holders))]
        inputs, targets = zip(*batches, strict=True)
        try:
            return dense(joined_structures(inputs)), dense(joined_structures(targets))
        except (RuntimeError, ValueError) as error:
            raise ConfigError(f"the clients' examples differ in form, and cannot be in one batch: {error}") from error

    def _of_holder(self, holder: int, indices: Tensor) -> Batch:
        begin = int(self._ends[holder - 1]) if holder else 0
        return unfilled(self.parts[holder], indices - begin)


def unfilled(examples: Examples, indices: Tensor) -> Batch:
    """Return a batch in which rows of different length are as they are kept: other holders may have longer ones."""
    if isinstance(examples, PartExamples):
        return unfilled(examples.pool, examples.part.index_select(0, indices))
    if isinstance(examples, TensorExamples):
        return taken(examples.inputs, indices), taken(examples.targets, indices)
    return examples.batch(indices)


class DatasetExamples:
    """Examples of a map-style torch Dataset, collated as a DataLoader would, or as the reading says.

    Random transforms inside the Dataset draw from global generators; these are keyed by torch's, which the
    client keys by round and step.
    """

    def __init__(self, dataset: Any, reading: Reading | None = None) -> None:
        self.dataset, self.reading = dataset, reading or Reading()

    def __len__(self) -> int:
        return len(self.dataset)

    def batch(self, indices: Tensor) -> Batch:
        """Return inputs and targets of these examples."""
        with other_generators(torch.initial_seed()):
            examples = [self.dataset[int(i)] for i in indices]
            if self.reading.collate is not None:
                return self.reading.split(self.reading.collate(examples))
        inputs, targets = self.reading.split(self.reading.columns(examples))
        return dense(inputs), dense(targets)


class Partition(Sequence[Examples]):
    """A pool of examples and, for each client, the indices of those that it holds.

    Inputs and targets are tensors, or structures of tensors such as a dict of inputs by name.
    """

    def __init__(self, inputs: Structure, targets: Structure, parts: Sequence[Any]) -> None:
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
        # As one Dataset, so that random transforms draw on from one example to the next, whoever held them.
        self._together: Examples = _one_dataset(apart) or joined(apart)

    def __len__(self) -> int:
        return 1

    @overload
    def __getitem__(self, client: int) -> Examples: ...
    @overload
    def __getitem__(self, client: slice) -> Sequence[Examples]: ...
    def __getitem__(self, client: int | slice) -> Examples | Sequence[Examples]:
        return (self._together,)[client]


def _one_dataset(clients: Sequence[Examples]) -> DatasetExamples | None:
    """Return the examples of clients that all have a Dataset, read alike, as those of one."""
    parts = [part for part in clients if isinstance(part, DatasetExamples)]
    if len(parts) < len(clients) or any(part.reading != parts[0].reading for part in parts):
        return None
    return DatasetExamples(ConcatDataset([part.dataset for part in parts]), parts[0].reading)


def joined(clients: Sequence[Examples]) -> Examples:
    """Return everyone's examples as one set; parts of one pool stay one gather."""
    if isinstance(clients, Pooled):
        return joined(clients.apart)
    if isinstance(clients, Partition):
        return PartExamples(clients.pool, torch.cat(clients.parts))
    first = clients[0]
    if isinstance(first, DatasetExamples) and not first.reading.is_plain:
        # Batches of different length cannot be put together: one collation must make them.
        return _one_dataset(clients) or JoinedExamples(clients)
    return JoinedExamples(clients)


def targets_of(examples: Examples) -> Tensor:
    """Return the targets of all examples; the inputs are read only where the two come together.

    Of several targets these are the first; rows of different length are filled up.
    """
    if isinstance(examples, TensorExamples):
        return _first(dense(examples.targets))
    if isinstance(examples, PartExamples) and isinstance(examples.pool, TensorExamples):
        return _first(select(examples.pool.targets, examples.part))
    chunks = torch.split(torch.arange(len(examples)), CHUNK)
    parts = [_first(examples.batch(indices)[1]) for indices in chunks]
    if len({part.shape[1:] for part in parts}) == 1:
        return torch.cat(parts)
    return Ragged([row for part in parts for row in part], pad=IGNORED).dense()


def _first(targets: Structure) -> Tensor:
    first: Tensor = next(leaves(targets))
    return first


def as_examples(source: Any, label: str, reading: Reading | None = None) -> Examples:
    """Return `source` as examples.

    It is columns (a pair of tensors; a tuple or a dict of them), a Dataset, a list of examples, or examples already.
    """
    how = reading or Reading()
    try:
        return _taken_as(source, how)
    except ConfigError as error:
        raise ConfigError(f"{label}: {error}") from None
    except _Unknown:
        raise ConfigError(
            f"{label} must be a pair of tensors (inputs, targets), a dict of tensors, a list of examples or a torch "
            f"Dataset, not {_kind(source)}"
        ) from None


class _Unknown(Exception):
    """A source of a kind that is not known."""


def _taken_as(source: Any, reading: Reading) -> Examples:
    if _is_examples(source):
        return cast(Examples, source)
    if isinstance(source, Tensor | str | bytes | Ragged):
        raise _Unknown
    if _is_pair(source):
        return TensorExamples(source[0], source[1])
    if isinstance(source, Mapping) or (isinstance(source, tuple) and len(source) > 1):
        return TensorExamples(*reading.split(reading.normalised(source)))
    if isinstance(source, list):
        return _of_list(source, reading)
    is_sequence = hasattr(source, "__getitem__") and hasattr(source, "__len__")
    if is_sequence and not isinstance(source, tuple):  # a map-style Dataset needs no base class
        return DatasetExamples(source, reading)
    raise _Unknown


def _of_list(examples: list[Any], reading: Reading) -> Examples:
    """Return examples that come one by one: as columns, which processes share, or for the user's own collation."""
    if not examples or not isinstance(examples[0], tuple | list | Mapping):
        raise _Unknown
    if reading.collate is not None:
        return DatasetExamples(examples, reading)
    return TensorExamples(*reading.split(reading.columns(examples)))


def _is_examples(source: Any) -> bool:
    # A table of the Hugging Face library has a method of this name too, and names of columns.
    return hasattr(source, "batch") and hasattr(source, "__len__") and not hasattr(source, "column_names")


def _is_pair(source: Any) -> bool:
    if not isinstance(source, tuple | list) or len(source) != 2:
        return False
    return isinstance(source[0], Tensor) and isinstance(source[1], Tensor)


def _kind(source: Any) -> str:
    return f"{len(source)} things" if isinstance(source, tuple | list) else f"a {type(source).__name__}"


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
