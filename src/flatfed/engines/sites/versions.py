"""What the server keeps for a client whose state stays at its site: the number of a version, and nothing of the state.

The site keeps the versions; which of them counts is decided by the server, with the round. A reply that is lost or
rejected leaves the server's number as it was, and the site's next work begins from that version: nothing is ever
applied twice.
"""

from __future__ import annotations

import torch

from flatfed.core.method.state import State

VERSION = "version"
NEVER = 0
"""The version of a client that has not taken part yet."""

ATTEMPTS, EXCHANGES = 1 << 16, 1 << 8


def handle(version: int = NEVER) -> State:
    """Return what the server keeps for a client."""
    return State({VERSION: torch.tensor(version)})


def version_of(kept: State | None) -> int | None:
    """Return the version that a state is the number of; None where it is something else."""
    if kept is None or list(kept) != [VERSION]:
        return None
    entry = getattr(kept, VERSION)
    if entry.shape != () or entry.dtype != torch.int64 or int(entry) < NEVER:
        return None
    return int(entry)


def version_after(round: int, attempt: int, exchange: int) -> int:
    """Return the version that a client has after an exchange: later ones are higher."""
    return (round * ATTEMPTS + min(attempt, ATTEMPTS - 1)) * EXCHANGES + exchange + 1


def round_of(version: int) -> int:
    """Return the round in which a version was made; -1 for what was before all of them."""
    if version == NEVER:
        return -1
    return (version - 1) // (ATTEMPTS * EXCHANGES)
