"""A bound on arrays before they are put together.

Flower carries an array in pieces, stores equal pieces once, and joins them when a message is read: a node could send
one piece and name it a thousand times. The size is known before the pieces are joined, so it is checked then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from flwr.app import Array
from flwr.supercore.inflatable.inflatable_object import (
    get_object_body,
    get_object_children_ids_from_object_content,
)

INFLATE = "inflate"
"""The name of Flower's function that puts an array together."""


@contextmanager
def bounded_arrays(limit: int) -> Iterator[None]:
    """Refuse arrays that are together above a number of bytes, with a `ValueError`, while a message is read."""
    joined = Array.inflate
    total = 0

    def inflate(cls: type[Array], object_content: bytes, children: Any = None) -> Array:
        nonlocal total
        try:
            total += _size(object_content, cls, children or {})
        except Exception as error:  # whatever forged content brings about
            raise ValueError(f"an array that cannot be put together: {error!r:.200}") from None
        if total > limit:
            raise ValueError(f"{total:,} bytes, above the bound {limit:,}")
        return joined(object_content, children)

    # Flower has no bound of its own, and no place for one: its function is wrapped while a message is read.
    setattr(Array, INFLATE, classmethod(inflate))
    try:
        yield
    finally:
        setattr(Array, INFLATE, joined)


def _size(content: bytes, cls: type[Array], children: Mapping[str, Any]) -> int:
    """Return how many bytes an array would have, from the pieces that it names, as often as it names them."""
    pieces = [len(children[identity].data) for identity in get_object_children_ids_from_object_content(content)]
    named = json.loads(get_object_body(content, cls))["arraychunk_ids"]
    return sum(pieces[place] for place in named)
