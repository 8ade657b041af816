"""A bound on arrays before they are put together.

Flower carries an array in pieces, stores equal pieces once, and joins them when a message is read: a node could send
one piece and name it a thousand times. The size is known before the pieces are joined, so it is checked then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flwr.app import Array
from flwr.supercore.inflatable.inflatable_object import get_object_body

INFLATE = "inflate"
"""The name of Flower's function that puts an array together."""


@contextmanager
def bounded_arrays(limit: int) -> Iterator[None]:
    """Refuse arrays above a number of bytes, with a `ValueError`, while messages are read."""
    joined = Array.inflate

    def inflate(cls: type[Array], object_content: bytes, children: Any = None) -> Array:
        size = _size(get_object_body(object_content, cls), children or {})
        if size > limit:
            raise ValueError(f"{size:,} bytes, above the bound {limit:,}")
        return joined(object_content, children)

    # Flower has no bound of its own, and no place for one: its function is wrapped while a message is read.
    setattr(Array, INFLATE, classmethod(inflate))
    try:
        yield
    finally:
        setattr(Array, INFLATE, joined)


def _size(body: bytes, children: Any) -> int:
    """Return how many bytes an array would have, from the pieces that it names."""
    pieces = [len(piece.data) for piece in children.values()]
    named = json.loads(body).get("arraychunk_ids", [])
    # At most: which piece is named how often is not needed for a bound.
    return len(named) * max(pieces, default=0)
