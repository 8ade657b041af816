"""Rows of different length in two tensors: processes share them, and a batch is a few tensor operations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flatfed.core.errors import ConfigError


class Ragged:
    """Texts as token ids, say: `Ragged([[5, 2], [7, 1, 4]], pad=0)`.

    The rows lie one behind the other in `values`; row i ends before `ends[i]`. A batch is filled up with `pad` behind
    the ends, to the length of its longest row.
    """

    def __init__(self, rows: Sequence[Any], pad: float = 0) -> None:
        self.values, sizes = _joined_rows(rows)
        self.ends, self.pad = sizes.cumsum(0), pad

    @classmethod
    def of(cls, values: Tensor, ends: Tensor, pad: float) -> Ragged:
        """Return the rows that lie in `values`."""
        made = cls.__new__(cls)
        made.values, made.ends, made.pad = values, ends, pad
        return made

    def __len__(self) -> int:
        return self.ends.shape[0]

    @property
    def sizes(self) -> Tensor:
        """The length of each row."""
        return torch.diff(self.ends, prepend=self.ends.new_zeros(1))

    def take(self, indices: Tensor) -> Ragged:
        """Return some of the rows."""
        sizes = self.sizes.index_select(0, indices)
        ends, last = sizes.cumsum(0), self.ends.index_select(0, indices)
        # A value's place is as far from the end of its row there as here.
        places = torch.arange(int(sizes.sum())) + torch.repeat_interleave(last - ends, sizes)
        return Ragged.of(self.values.index_select(0, places), ends, self.pad)

    def dense(self) -> Tensor:
        """Return all rows as one tensor: rows x the longest."""
        sizes = self.sizes
        width = int(sizes.max()) if len(sizes) else 0
        filled = self.values.new_full((len(self), width, *self.values.shape[1:]), self.pad)
        filled[torch.arange(width) < sizes.unsqueeze(1)] = self.values
        return filled

    @classmethod
    def joined(cls, parts: Sequence[Ragged | Tensor]) -> Ragged:
        """Return the rows of several, one after the other; a tensor has rows of one length."""
        rows = [part if isinstance(part, Ragged) else _of_one_length(part) for part in parts]
        sizes = torch.cat([part.sizes for part in rows])
        pad = next(part.pad for part in parts if isinstance(part, Ragged))
        return cls.of(torch.cat([part.values for part in rows]), sizes.cumsum(0), pad)


def _of_one_length(rows: Tensor) -> Ragged:
    count, length = rows.shape[:2]
    return Ragged.of(rows.flatten(0, 1), length * torch.arange(1, count + 1), 0)


def _joined_rows(rows: Sequence[Any]) -> tuple[Tensor, Tensor]:
    """Return the values of all rows, and the length of each."""
    sizes = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    try:
        if all(isinstance(row, list | tuple) for row in rows):
            return torch.tensor(list(itertools.chain.from_iterable(rows))), sizes
        return torch.cat([torch.as_tensor(row) for row in rows]), sizes
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"rows must be lists or tensors of numbers: {error}") from None
