"""What of runs is looked at in a landscape, what came of it, and where its points are kept."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from flatfed.core.errors import ConfigError
from flatfed.experiments.measuring.laboratory import Laboratory, Weights
from flatfed.flatness.landscape import scenes
from flatfed.flatness.results import Grid, Line
from flatfed.runs.results import Points, finite

Kind = Literal["surface", "line", "plane", "along", "client", "clients", "client-plane"]
RUNS: dict[str, tuple[int, int | None]] = {
    "surface": (1, None),
    "line": (2, 2),
    "plane": (3, 3),
    "along": (1, None),
    "client": (1, None),
    "clients": (1, 1),
    "client-plane": (1, 1),
}
"""How many runs a kind takes, at least and at most."""

OnPoint = Callable[[str, int, int], None]


@dataclass(frozen=True)
class View:
    """What is looked at, and how finely.

    Attributes:
        kind: `surface` (around each model), `line` (between two), `plane` (through three), `along` (perturbations),
            `client` (a client's model after local training, on its own examples and on everyone's), `clients` (the
            plane through three clients' models) or `client-plane` (through the global model, a client's and the one
            before the round).
        points: points an axis, odd.
        extent: how far from the model: in filter norms for a surface, in distance for `along`.
        samples: over so many examples at most; None is all.
        seed: key of the directions and of the draw of examples.
        weights: the evaluated or the last global model of a run with an average.
        client: whose model `client` and `client-plane` show; by default the first of the round. `client` may show
            `all` of them.
        directions: random directions that `along` takes the mean over.
        round: `client` shows a model of the `last` round, before it was averaged, or of the `next`.
        clients: whose models `clients` shows, three; by default the first of the round.
    """

    kind: Kind = "surface"
    points: int = 21
    extent: float = 1.0
    samples: int | None = 5_000
    seed: int = 0
    weights: Weights = "evaluated"
    client: int | Literal["all"] | None = None
    directions: int = 10
    round: Literal["last", "next"] = "last"
    clients: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        scenes.check_points(self.points)
        if not 0 < self.extent < math.inf:
            raise ConfigError(f"the extent must be a number greater than 0, not {self.extent:g}")
        if self.clients is not None and len(set(self.clients)) != 3:
            raise ConfigError(f"a plane goes through the models of three clients, not of {list(self.clients)}")
        if self.kind in ("clients", "client-plane") and self.round == "next":
            raise ConfigError(f"a landscape of kind {self.kind} shows the last round; only kind client has a next one")
        if self.kind != "client" and self.client == "all":
            raise ConfigError("only a landscape of kind client can show all clients; name one")


@dataclass(frozen=True)
class Landscape:
    """What came of it: grids or lines, ready to draw."""

    grids: list[Grid]
    lines: list[Line]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, ready for JSON."""
        return {"grids": [_plain(grid) for grid in self.grids], "lines": [_plain(line) for line in self.lines]}


def keeping(home: Laboratory, labs: Sequence[Laboratory], view: View, **more: Any) -> scenes.Keep:
    """Return what says where points are kept: in the run's directory, under what decides them."""
    models = [lab.key for lab in labs]
    grid = {"kind": view.kind, "seed": view.seed, "samples": view.samples, **more}

    def keep(part: str) -> Points | None:
        if home.path is None:
            return None
        key = {"format": 1, "view": grid, "part": part, "models": models}
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]
        return Points(home.path, f"{view.kind}-{part.replace(' ', '-')}-{digest}", key)

    return keep


def _plain(found: Grid | Line) -> dict[str, Any]:
    """Return the numbers, ready for JSON."""
    values = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in vars(found).items()}
    losses = values["losses"]
    if isinstance(losses, dict):
        values["losses"] = {name: entry.tolist() for name, entry in losses.items()}
    told: dict[str, Any] = finite(values)
    return told
