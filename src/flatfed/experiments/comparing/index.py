"""The index of the whole family: every method, client optimiser and average with its costs, from the registries."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from flatfed.algorithms import Algorithm, Average, ClientOptimiser
from flatfed.core.configuration.config import Config, parameters
from flatfed.core.configuration.registry import required_parameters
from flatfed.experiments.planning.setting import Costs, costs, optimiser_backprops
from flatfed.outside.origins import PartOrigin, is_outside

NONE = "–"
HEADINGS = ("id", "purpose", "down / up", "client keeps", "backprops per step", "optimiser", "mean")


def entries() -> list[dict[str, Any]]:
    """Return one entry per method, then the client optimisers and averages (marked +), ready for JSON."""
    methods = [_of_method(id, cls) for id, cls in sorted(Algorithm.registry.items())]
    optimisers = [_of_optimiser(id, cls) for id, cls in sorted(ClientOptimiser.registry.items())]
    averages = [about(f"+{id}", cls) for id, cls in sorted(Average.registry.items())]
    return methods + optimisers + averages


def about(id: str, cls: type[Config]) -> dict[str, Any]:
    """Return a class's id, its description in a line and its parameters with their defaults."""
    description = inspect.getdoc(cls) or ""
    defaults = {name: _default(cls, name) for name in parameters(cls)}
    entry = {"id": id, "about": description.partition("\n")[0], "parameters": defaults}
    return entry | home_of(cls)


def home_of(thing: Any) -> dict[str, str]:
    """Return where a part from outside comes from: package and version, or the module; nothing for flatfed's own."""
    return {"from": PartOrigin.of("", "", thing).home} if is_outside(thing) else {}


def _default(cls: type[Config], name: str) -> Any:
    """Return a parameter's default; of a configuration, such as a client optimiser, its id."""
    value = getattr(cls, name, None)
    return getattr(value, "id", value)


def _of_method(id: str, cls: type[Algorithm]) -> dict[str, Any]:
    if required_parameters(cls):
        # It cannot be made, and so not be counted, before somebody says what they are.
        return about(id, cls)
    return about(id, cls) | _costs(costs(cls()))


def _of_optimiser(id: str, cls: type[ClientOptimiser]) -> dict[str, Any]:
    if required_parameters(cls):
        return about(f"+{id}", cls)
    return about(f"+{id}", cls) | {"backprops": str(optimiser_backprops(cls()))}


def _costs(counted: Costs) -> dict[str, Any]:
    records = [f"{name} of every client" for name in counted.records]
    return {
        "down": counted.down,
        "up": counted.up,
        "exchanges": counted.exchanges,
        "backprops": counted.compute,
        "client_state": list(counted.client_state),
        "server_state": [*counted.server_state, *records],
        "client_optimiser": "any" if counted.takes_optimiser else "own",
        "mean": "uniform" if counted.uniform else "weighting",
    }


def markdown() -> str:
    """Return the index as the table of the documentation."""
    methods = [_cells(entry) for entry in entries() if "down" in entry]
    rule = ["---"] * len(HEADINGS)
    return "".join(map(_row, [HEADINGS, rule, *methods]))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _cells(entry: dict[str, Any]) -> list[str]:
    kept = [f"`{name}`" for name in entry["client_state"]]
    return [
        f"[`{entry['id']}`]({entry['id']}.md)",
        entry["about"].rstrip("."),
        _traffic(entry),
        ", ".join(kept) or NONE,
        entry["backprops"],
        entry["client_optimiser"],
        entry["mean"],
    ]


def _traffic(entry: dict[str, Any]) -> str:
    vectors = f"{entry['down']} / {entry['up']}"
    if entry["exchanges"] == 1:
        return vectors
    return f"{vectors} in {entry['exchanges']} exchanges"
