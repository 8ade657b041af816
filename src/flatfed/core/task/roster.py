"""A roster: clients that are elsewhere, of whose examples only the number is known here.

The server of a federation needs no example. It needs to know who there is and how many examples each holds: methods
divide by the number of clients, means are weighted by numbers of examples, and a reply is checked against them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from torch import Tensor

from flatfed.core.configuration.checking import Index, checked
from flatfed.core.errors import EngineError
from flatfed.core.task.examples import Examples
from flatfed.core.task.structures import Batch


class AbsentExamples:
    """Examples that are counted here and lie elsewhere."""

    def __init__(self, count: int, client: int) -> None:
        self._count, self._client = count, client

    def __len__(self) -> int:
        return self._count

    def batch(self, indices: Tensor) -> Batch:
        """Refuse: what is computed here must not need them."""
        raise EngineError(f"the examples of client {self._client} are at its site, and never come here")


class Roster(Sequence[Examples]):
    """How many examples each client holds: `Roster([120, 80, 95])`, for `Task(clients=...)` of a server."""

    def __init__(self, counts: Sequence[int]) -> None:
        self.counts = tuple(int(checked(Index, count, "a number of examples")) for count in counts)

    def __len__(self) -> int:
        return len(self.counts)

    @overload
    def __getitem__(self, client: int) -> Examples: ...
    @overload
    def __getitem__(self, client: slice) -> Sequence[Examples]: ...
    def __getitem__(self, client: int | slice) -> Examples | Sequence[Examples]:
        if isinstance(client, slice):
            return [self[number] for number in range(*client.indices(len(self)))]
        # Negative numbers too, as of any sequence.
        return self._examples(range(len(self))[client])

    def _examples(self, client: int) -> Examples:
        return AbsentExamples(self.counts[client], client)
