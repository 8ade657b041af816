"""What a site is to do in a run: the method, the settings, the model, and which clients are its own.

The same bytes for all sites, so that they are carried once. A site builds everything from it and from its own data; no
code crosses, only names of what is installed there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from flatfed.core.method.wire import WireError


@dataclass(frozen=True)
class ModelRecipe:
    """A model by name, as every site builds it; `facts` are what the data tell it (classes, size of an image)."""

    name: str
    classes: int
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)
    local_layers: str | None = None
    augment: bool | str = False


@dataclass(frozen=True)
class OutsidePart:
    """A part from outside flatfed, as the server has it.

    Args:
        family: what it is: `algorithm`, `client optimiser`, `schedule`.
        id: how the rest of the assignment names it.
        path: how it is imported; a site does so only where its own file allows it.
        digest: a hash of its author's modules.
    """

    family: str
    id: str
    path: str
    digest: str

    def __post_init__(self) -> None:
        if not all(isinstance(value, str) for value in (self.family, self.id, self.path, self.digest)):
            raise TypeError("a part from outside is described by texts")


@dataclass(frozen=True)
class Assignment:
    """All that sites must know of a run."""

    run: str
    algorithm: dict[str, Any]
    settings: dict[str, Any]
    model: ModelRecipe
    sites: list[tuple[str, list[int]]]
    """Every site with the number of examples of each of its clients; clients are numbered in this order."""
    code: str
    """The fingerprint of the server's flatfed."""
    parts: list[OutsidePart] = field(default_factory=list)
    """What of the method and the settings is not flatfed's own."""

    def to_bytes(self) -> bytes:
        """Return the bytes that travel, and whose digest names the assignment."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Assignment:
        """Read an assignment; what is no such thing is a `WireError`."""
        try:
            content = json.loads(data)
            model = ModelRecipe(**content.pop("model"))
            sites = [(str(name), [int(count) for count in counts]) for name, counts in content.pop("sites")]
            parts = [OutsidePart(**part) for part in content.pop("parts", ())]
            return cls(model=model, sites=sites, parts=parts, **content)
        except Exception as error:  # whatever forged bytes bring about
            raise WireError(f"these bytes are no assignment of a run: {error}") from None

    @property
    def counts(self) -> list[int]:
        """The number of examples of every client, in the order of their numbers."""
        return [count for _, counts in self.sites for count in counts]

    def clients_of(self, site: str) -> range:
        """Return the numbers of a site's clients; none where the site is not in the run."""
        first = 0
        for name, counts in self.sites:
            if name == site:
                return range(first, first + len(counts))
            first += len(counts)
        return range(0)

    def sites_by_client(self) -> Mapping[int, str]:
        """Return at which site each client is."""
        return {client: name for name, _ in self.sites for client in self.clients_of(name)}
