"""Write which methods fit which need, counted from the registry, into docs/choosing.md."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from written_part import WrittenPart

from flatfed.algorithms import Algorithm
from flatfed.experiments.comparing.index import entries

PAGE = Path(__file__).parent / "choosing.md"
FLAT = "flatfed.algorithms.sharpness_aware"

Entry = dict[str, Any]


def is_light(entry: Entry) -> bool:
    """Say whether one model goes down and one up, as with FedAvg."""
    return (entry["down"], entry["up"], entry["exchanges"]) == (1, 1, 1)


def is_stateless(entry: Entry) -> bool:
    """Say whether nobody remembers a client between rounds: neither it nor the server."""
    return not entry["client_state"] and not any("of every client" in name for name in entry["server_state"])


def is_quick(entry: Entry) -> bool:
    """Say whether a local step takes one backprop."""
    return str(entry["backprops"]).startswith("1")


def takes_any(entry: Entry) -> bool:
    """Say whether the client optimiser is free."""
    return bool(entry["client_optimiser"] == "any")


NEEDS: dict[str, Callable[[Entry], bool]] = {
    "FedAvg's traffic: one model down, one up": is_light,
    "clients that keep nothing, and a server that keeps nothing for each (cross-device)": is_stateless,
    "one backprop per local step": is_quick,
    "all three": lambda entry: is_light(entry) and is_stateless(entry) and is_quick(entry),
    "a client optimiser of your choice: `+sam`, `+asam`, ...": takes_any,
}


def cell(chosen: list[Entry]) -> str:
    """Return methods as they stand in the table."""
    return ", ".join(f"[`{entry['id']}`](algorithms/{entry['id']}.md)" for entry in chosen) or "–"


def table() -> str:
    """Return the methods that fit each need: those that seek flat minima, and the others."""
    methods = [entry for entry in entries() if "down" in entry and entry["id"] != "centralised" and "from" not in entry]
    flat = [entry for entry in methods if Algorithm.registry[entry["id"]].__module__.startswith(FLAT)]
    others = [entry for entry in methods if entry not in flat]
    lines = ["| what you need | seek flat minima | others |", "|---|---|---|"]
    for need, fits in NEEDS.items():
        lines.append(f"| {need} | {cell(list(filter(fits, flat)))} | {cell(list(filter(fits, others)))} |")
    return "\n".join(lines)


PART = WrittenPart(PAGE, "needs", "`make index`", table)

if __name__ == "__main__":
    PART.main()
