"""The index of the whole family: every method, client optimiser and average with its costs, from the registries."""

from __future__ import annotations

import inspect
from typing import Any

from flatfed.algorithms import Algorithm, Average, ClientOptimiser
from flatfed.core.configuration.config import Config, parameters
from flatfed.experiments.comparing.costs import Costs, costs, optimiser_backprops

NONE = "–"
HEADINGS = ("id", "purpose", "down / up", "client keeps", "backprops per step", "optimiser", "mean")


def entries() -> list[dict[str, Any]]:
    """Return one entry per method, then the client optimisers and averages (marked +), ready for JSON."""
    methods = [about(id, cls) | _costs(costs(cls())) for id, cls in sorted(Algorithm.registry.items())]
    optimisers = [
        about(f"+{id}", cls) | {"backprops": str(optimiser_backprops(cls()))}
        for id, cls in sorted(ClientOptimiser.registry.items())
    ]
    return methods + optimisers + [about(f"+{id}", cls) for id, cls in sorted(Average.registry.items())]


def about(id: str, cls: type[Config]) -> dict[str, Any]:
    """Return a class's id, its description in a line and its parameters with their defaults."""
    defaults = {name: getattr(cls, name, None) for name in parameters(cls)}
    shown = {name: getattr(value, "id", value) for name, value in defaults.items()}
    return {"id": id, "about": (inspect.getdoc(cls) or "").partition("\n")[0], "parameters": shown}


def _costs(found: Costs) -> dict[str, Any]:
    return {
        "down": found.down,
        "up": found.up,
        "exchanges": found.exchanges,
        "backprops": found.compute,
        "client_state": list(found.client_state),
        "server_state": [*found.server_state, *(f"{name} of every client" for name in found.records)],
        "client_optimiser": "any" if found.takes_optimiser else "own",
        "mean": "uniform" if found.uniform else "weighting",
    }


def markdown() -> str:
    """Return the index as the table of the documentation."""
    lines = [HEADINGS, ["---"] * len(HEADINGS), *(_cells(e) for e in entries() if "down" in e)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _cells(entry: dict[str, Any]) -> list[str]:
    exchanges = f" in {entry['exchanges']} exchanges" if entry["exchanges"] > 1 else ""
    return [
        f"[`{entry['id']}`]({entry['id']}.md)",
        entry["about"].rstrip("."),
        f"{entry['down']} / {entry['up']}{exchanges}",
        ", ".join(f"`{name}`" for name in entry["client_state"]) or NONE,
        entry["backprops"],
        entry["client_optimiser"],
        entry["mean"],
    ]
