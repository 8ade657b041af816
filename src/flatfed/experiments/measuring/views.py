"""What of runs is looked at in a landscape, what it gives, and where its points are kept."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from flatfed.core.errors import OTHER, PARAMETER, ConfigError
from flatfed.core.model.full_space import Space
from flatfed.experiments.measuring.laboratory import Laboratory, Weights
from flatfed.experiments.spelling.kinds import at_most
from flatfed.experiments.spelling.measured import Kind
from flatfed.flatness.drawable import Grid, Line
from flatfed.flatness.landscape import scenes
from flatfed.runs.results import Points, finite

MIXED = ("line", "plane")
"""Kinds that take a landscape through the models of several runs."""


@dataclass(frozen=True)
class View:
    """What is looked at, and how finely.

    Attributes:
        kind: `surface` (around each model), `line` (between two), `plane` (through three), `along` (perturbations),
            `client` (a client's model after local training, on its own examples and on everyone's), `clients` (the
            plane through three clients' models) or `client-plane` (through the global model, a client's and the one
            before the round).
        points: points per axis, odd.
        extent: how far from the model: in filter norms for a surface, in distance for `along`.
        samples: over this number of examples at most; None is all.
        seed: key of the directions and of the draw of examples.
        weights: the evaluated or the last global model of a run with an average.
        space: of a model with frozen weights, the parameters that are `trained` or all weights in `full`.
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
    space: Space = "trained"

    def __post_init__(self) -> None:
        scenes.check_points(self.points)
        if not 0 < self.extent < math.inf:
            raise ConfigError(f"the extent must be a number greater than 0, not {self.extent:g}", parameter="extent")
        if self.clients is not None and len(set(self.clients)) != 3:
            raise ConfigError(
                f"a plane goes through the models of three clients, not of {list(self.clients)}", parameter="clients"
            )
        self._check_kind()

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> View:
        """Return what the options of `flatfed landscape` describe; clients of kinds that show none are refused."""
        kind, client, clients = options["kind"], options["client"], options["clients"]
        if client is not None and kind not in ("client", "client-plane"):
            raise ConfigError(
                f"{PARAMETER} says whose model {OTHER} client shows (or client-plane); give one of the two",
                parameter="client",
                other="kind",
            )
        if clients is not None and kind != "clients":
            raise ConfigError(
                f"{PARAMETER} says whose models {OTHER} clients shows; give that too", parameter="clients", other="kind"
            )
        names = ("points", "extent", "seed", "weights", "directions", "round", "space")
        plain = {name: options[name] for name in names}
        samples = at_most(options["samples"])
        return cls(kind, samples=samples, client=client, clients=clients and tuple(clients), **plain)

    @property
    def named_client(self) -> list[int]:
        """The one client that is asked for by its number, or nobody."""
        return [self.client] if isinstance(self.client, int) else []

    def _check_kind(self) -> None:
        """Refuse what the kind cannot show."""
        if self.kind in ("clients", "client-plane") and self.round == "next":
            raise ConfigError(
                f"a landscape of kind {self.kind} shows the last round; only kind client has a next one",
                parameter="round",
            )
        if self.kind != "client" and self.client == "all":
            raise ConfigError("only a landscape of kind client can show all clients; name one", parameter="client")


@dataclass(frozen=True)
class Landscape:
    """What was evaluated: grids or lines, ready to draw; and of what the models are."""

    grids: list[Grid]
    lines: list[Line]
    about: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, ready for JSON."""
        return {"grids": list(map(_plain, self.grids)), "lines": list(map(_plain, self.lines))}


def keeping(home: Laboratory, labs: Sequence[Laboratory], view: View, **more: Any) -> scenes.Keep:
    """Return what says where points are kept: in the run's directory, under what decides them."""
    models = [lab.key for lab in labs]
    # Points, extent and directions are no part of the key: a finer or wider grid uses the points that are there.
    grid = {"kind": view.kind, "seed": view.seed, "samples": view.samples, **more}

    def keep(part: str) -> Points | None:
        if home.path is None:
            return None
        key = {"format": 1, "view": grid, "part": part, "models": models}
        # Short, as it only makes the file's name: the whole key is in the file, and is compared.
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]
        return Points(home.path, f"{view.kind}-{part.replace(' ', '-')}-{digest}", key)

    return keep


def _plain(drawing: Grid | Line) -> dict[str, Any]:
    """Return the numbers, ready for JSON."""
    plain: dict[str, Any] = finite({name: _listed(value) for name, value in vars(drawing).items()})
    return plain


def _listed(value: Any) -> Any:
    """Return arrays as lists, also where they stand by name."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: _listed(entry) for name, entry in value.items()}
    return value
