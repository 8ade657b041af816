"""`flatfed list algorithms`: what every method exchanges and computes, against the published counts."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from cli.command import flatfed, refused
from flatfed.algorithms import Algorithm, Average, ClientOptimiser
from methods.table import CLIENT_OPTS


class Cost(NamedTuple):
    """Model-sized vectors per client and round, backprops per local step, and who keeps what."""

    down: int
    up: int
    backprops: str
    optimiser: str
    mean: str
    client: tuple[str, ...] = ()
    server: tuple[str, ...] = ()
    exchanges: int = 1


FULL = "full batch per round"
COSTS = {
    "fedavg": Cost(1, 1, "1", "any", "weighting"),
    "centralised": Cost(1, 1, "1", "any", "weighting"),
    "fedprox": Cost(1, 1, "1", "any", "weighting"),
    "fedavgm": Cost(1, 1, "1", "any", "weighting", server=("momentum",)),
    "fedadam": Cost(1, 1, "1", "any", "weighting", server=("m", "v")),
    "fedyogi": Cost(1, 1, "1", "any", "weighting", server=("m", "v")),
    "fedadagrad": Cost(1, 1, "1", "any", "weighting", server=("m", "v")),
    "fedadamw": Cost(2, 1, "1", "any", "uniform", server=("d",)),
    "fednova": Cost(1, 1, "1", "any", "weighting"),
    "scaffold": Cost(2, 2, "1", "any", "uniform", ("c",), ("c",)),
    "feddyn": Cost(1, 1, "1", "any", "uniform", ("h",), ("H",)),
    "adabest": Cost(1, 1, "1", "any", "uniform", ("h",), ("mean",)),
    "fedcm": Cost(2, 1, "1", "any", "uniform", server=("momentum",)),
    "fedacg": Cost(1, 1, "1", "any", "uniform", server=("momentum",)),
    "mimelite": Cost(2, 2, f"1 + {FULL}", "any", "weighting", server=("momentum",)),
    "mime": Cost(3, 2, f"2 + {FULL}", "own", "weighting", server=("momentum",), exchanges=2),
    "fedsam": Cost(1, 1, "2", "own", "weighting"),
    "fedasam": Cost(1, 1, "2", "own", "weighting"),
    "mofedsam": Cost(2, 1, "2", "own", "uniform", server=("momentum",)),
    "fedspeed": Cost(1, 1, "2", "own", "uniform", ("h",), ("H",)),
    "fedgamma": Cost(2, 2, "2", "own", "uniform", ("c",), ("c",)),
    "fedsmoo": Cost(2, 2, "2", "own", "uniform", ("h", "mu"), ("H", "s")),
    "fedlesam": Cost(1, 1, "1", "own", "weighting", ("old",)),
    "fedlesam-s": Cost(2, 2, "1", "own", "uniform", ("c", "old"), ("c",)),
    "fedlesam-d": Cost(1, 1, "1", "own", "uniform", ("h", "old"), ("H",)),
    "fedgmt": Cost(2, 1, "1 + forward pass", "own", "weighting", ("h",), ("H", "teacher")),
    "fedgf": Cost(2, 1, "2", "own", "weighting", server=("previous",)),
    "fedgloss": Cost(1, 1, "1", "any", "weighting", ("sigma",), ("pseudo_gradient", "sigma")),
    "naivefedgloss": Cost(2, 2, "2", "any", "weighting", ("sigma",), ("sigma",), exchanges=2),
    "fedwmsam": Cost(2, 1, "1", "own", "uniform", server=("c", "c of every client", "momentum")),
    "fedvssam": Cost(2, 1, "2", "own", "uniform", server=("d",)),
}
OPTIMISERS = {row.opt.kind: str(row.backprops) for row in CLIENT_OPTS.values()}
FIELDS = {
    "id",
    "about",
    "parameters",
    *("down", "up", "exchanges", "backprops"),
    *("client_state", "server_state", "client_optimiser", "mean"),
}
HEADINGS = ["id", "purpose", "down / up", "client keeps", "backprops per step", "optimiser", "mean"]


@pytest.fixture(scope="module")
def entries() -> dict[str, dict[str, Any]]:
    outcome = flatfed("list", "algorithms", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    return {entry["id"]: entry for entry in outcome.json}


@pytest.fixture(scope="module")
def table() -> list[list[str]]:
    outcome = flatfed("list", "algorithms", "--markdown")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert all(line.startswith("| ") and line.endswith(" |") for line in lines)
    return [line[2:-2].split(" | ") for line in lines]


def test_every_method_of_the_package_is_in_this_table() -> None:
    own = {id for id, cls in Algorithm.registry.items() if cls.__module__.startswith("flatfed.")}
    assert own == set(COSTS)
    assert set(ClientOptimiser.registry) == set(OPTIMISERS)


@pytest.mark.parametrize("id", COSTS)
def test_the_counts_are_the_published_ones(id: str, entries: dict[str, dict[str, Any]]) -> None:
    entry = entries[id]
    assert set(entry) == FIELDS
    states = tuple(sorted(entry["client_state"])), tuple(sorted(entry["server_state"]))
    counts = Cost(
        *(entry[name] for name in ("down", "up", "backprops", "client_optimiser", "mean")), *states, entry["exchanges"]
    )
    assert counts == COSTS[id]


@pytest.mark.parametrize("id", OPTIMISERS)
def test_client_optimisers_have_their_backprops(id: str, entries: dict[str, dict[str, Any]]) -> None:
    assert entries[f"+{id}"]["backprops"] == OPTIMISERS[id]
    assert set(entries[f"+{id}"]) == {"id", "about", "parameters", "backprops"}


def test_averages_cost_nothing(entries: dict[str, dict[str, Any]]) -> None:
    assert all(set(entries[f"+{id}"]) == {"id", "about", "parameters"} for id in Average.registry)


def test_the_list_for_people_shows_the_same() -> None:
    lines = flatfed("list", "algorithms").out.splitlines()
    assert lines[0].split() == ["down/up", "backprops", "optimiser"]
    for id, cost in COSTS.items():
        [line] = [line for line in lines if line.startswith(f"{id} ")]
        shown = line.split(maxsplit=1)[1]
        assert shown.startswith(f"{cost.down}/{cost.up} ")
        assert shown.partition(" ")[2].lstrip().startswith(f"{cost.backprops} ")
        assert f" {cost.optimiser} " in shown


def test_the_table_of_the_documentation(table: list[list[str]]) -> None:
    headings, rule, *rows = table
    assert headings == HEADINGS
    assert set(rule) == {"---"}
    actual = {row[0].partition("`")[2].partition("`")[0]: row for row in rows}
    for id, cost in COSTS.items():
        row = actual[id]
        assert len(row) == len(headings)
        assert row[0] == f"[`{id}`]({id}.md)"
        exchanges = f" in {cost.exchanges} exchanges" if cost.exchanges > 1 else ""
        assert row[2] == f"{cost.down} / {cost.up}{exchanges}"
        assert row[4:] == [cost.backprops, cost.optimiser, cost.mean]
    assert not any(row[0].startswith("[`+") for row in rows)


@pytest.mark.parametrize("kind", ["datasets", "models", "partitions"])
def test_only_algorithms_have_that_table(kind: str) -> None:
    refused(flatfed("list", kind, "--markdown"), "--markdown", "algorithms")


@pytest.mark.parametrize("kind", ["datasets", "models", "partitions"])
def test_other_lists_have_no_costs(kind: str) -> None:
    entries = flatfed("list", kind, "--json").json
    assert entries
    assert not any(entry.keys() & {"down", "up", "backprops"} for entry in entries)
    assert "down/up" not in flatfed("list", kind).out
