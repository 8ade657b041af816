"""Numbers that methods want to see: from server and clients into the history, counted, and safe for JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import flatfed as ff
from core.bench import SIZES, descend, flat, mean, net, normed, pairs, task, train
from flatfed.algorithms import Algorithm
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.round.exchange import ENVELOPE_UP

METHODS = sorted(id for id, cls in Algorithm.registry.items() if cls.__module__.startswith("flatfed."))
COHORTS = [[0, 2], [1, 2, 3], [1]]
OWN = {  # what some methods show besides the divergence
    "fedgf": {"c"},
    "fedwmsam": {"alpha", "agreement", "momentum_norm"},
    "fedlesam": {"perturbation"},
    "fedsmoo": {"mu_norm", "dual_norm"},
    "scaffold": {"control_norm"},
    "feddyn": {"dual_norm"},
    "fedavg": set(),
}


class Watcher(ff.Algorithm):
    """FedAvg that shows some numbers."""

    def finish(self, client: Client) -> Message:
        client.watch["id"] = client.id
        client.watch["samples"] = client.samples
        if client.id == 2:
            client.watch["rare"] = 7.0
        return super().finish(client)

    def update(self, server: Server, replies: Replies) -> None:
        super().update(server, replies)
        server.watch["replies"] = len(replies)
        if server.round == 1:
            server.watch["once"] = -1.5


class Overflowing(ff.Algorithm):
    """FedAvg that shows numbers which JSON does not have."""

    def finish(self, client: Client) -> Message:
        client.watch["of client 0"] = math.inf if client.id == 0 else 1.0
        return super().finish(client)

    def update(self, server: Server, replies: Replies) -> None:
        super().update(server, replies)
        server.watch.update(nan=math.nan, inf=math.inf, fine=2.0)


@pytest.fixture
def overflowing() -> Iterator[ff.Algorithm]:
    """A method under an id, which a run directory asks for, while the test lasts."""
    Algorithm.registry.register(Overflowing, "overflowing")
    yield Overflowing()
    del Algorithm.registry["overflowing"]
    Overflowing.id = ""


def watched(run: ff.Run) -> list[dict[str, Any]]:
    return [row["watch"] for row in run.history]


def test_numbers_of_server_and_clients_land_in_the_row() -> None:
    rows = watched(train(task(), Watcher(), COHORTS))
    for row, cohort in zip(rows, COHORTS, strict=True):
        assert row["replies"] == len(cohort)
        assert row["id"] == sum(cohort) / len(cohort)
        assert row["samples"] == sum(SIZES[k] for k in cohort) / len(cohort)
    assert [row.get("rare") for row in rows] == [7.0, 7.0, None]
    assert [row.get("once") for row in rows] == [None, -1.5, None]
    assert "rare" not in rows[2] and "once" not in rows[2]


def test_workers_do_not_matter() -> None:
    alone, pool = (watched(train(task(), Watcher(), COHORTS, workers=workers)) for workers in (0, 2))
    assert alone == pool


def test_watching_changes_nothing_but_the_bytes() -> None:
    plain, seen = train(task(), cohorts=COHORTS), train(task(), Watcher(), COHORTS)
    assert torch.equal(plain.vector, seen.vector)
    for a, b, cohort in zip(plain.history, seen.history, COHORTS, strict=True):
        assert (a["bytes_down"], a["backprops"]) == (b["bytes_down"], b["backprops"])
        assert b["bytes_up"] - a["bytes_up"] == 8 * (2 * len(cohort) + (2 in cohort))
        assert a["bytes_up"] == len(cohort) * (8 * len(flat(net())) + ENVELOPE_UP)


def test_what_json_cannot_hold_becomes_null(overflowing: ff.Algorithm, tmp_path: Path) -> None:
    run = train(task(), overflowing, [[0, 1], [1]], out=tmp_path / "run")
    assert run.status == "finished"
    lines = (tmp_path / "run" / "history.jsonl").read_text().splitlines()

    def no(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    rows = [json.loads(line, parse_constant=no)["watch"] for line in lines]
    assert rows == watched(run)
    assert [(row["nan"], row["inf"], row["fine"]) for row in rows] == [(None, None, 2.0)] * 2
    assert [row["of client 0"] for row in rows] == [None, 1.0]


def test_the_divergence_of_fedavg_by_hand() -> None:
    w, rows = flat(net()), watched(train(task(), cohorts=COHORTS, local_epochs=2))
    for row, cohort in zip(rows, COHORTS, strict=True):
        reached = {k: descend(k, w, lambda _, g: g) for k in cohort}
        expected = sum(float((reached[k] - w).norm()) for k in cohort) / len(cohort)
        assert row == {"divergence": pytest.approx(expected, rel=1e-12)}
        w = mean(reached)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_shows_its_divergence(method: str) -> None:
    rows = watched(train(task(), ff.make(method), COHORTS))
    assert all(row["divergence"] > 0 for row in rows)
    assert all(math.isfinite(value) for row in rows for value in row.values())


@pytest.mark.parametrize("method", OWN)
def test_methods_show_what_is_theirs(method: str) -> None:
    run = train(task(), ff.make(method), COHORTS)
    for row in watched(run):
        assert set(row) == OWN[method] | {"divergence"}
    if method in ("fedgf", "fedwmsam"):
        name = "c" if method == "fedgf" else "alpha"
        assert watched(run)[-1][name] == pytest.approx(run.server_state[name])
    if method in ("scaffold", "feddyn"):
        [(name, state)] = [("control_norm", "c")] if method == "scaffold" else [("dual_norm", "H")]
        assert watched(run)[-1][name] == pytest.approx(float(run.server_state[state].norm()))


def test_distances_are_from_the_model_that_was_sent() -> None:
    """With one client the server moves as far as the client did; FedGloSS sends a perturbed model."""
    made = ff.make("fedgloss", admm=False, rho_server=0.5)
    row = train(task(clients=pairs((5,))), made, [[0], [0]]).history[1]
    assert row["watch"]["perturbation"] == pytest.approx(0.5, rel=1e-12)
    assert row["watch"]["divergence"] == pytest.approx(row["update_norm"], rel=1e-12)


def test_distances_are_of_the_shared_part() -> None:
    [row] = train(task(normed(), pairs((5,)), local="bn"), cohorts=[[0]]).history
    assert row["watch"]["divergence"] == pytest.approx(row["update_norm"], rel=1e-12)


def test_a_resumed_run_shows_the_same(tmp_path: Path) -> None:
    whole = train(task(), ff.make("fedgf"), COHORTS)
    train(task(), ff.make("fedgf"), COHORTS, rounds=1, out=tmp_path / "run")
    assert watched(ff.resume(tmp_path / "run", rounds=3)) == watched(whole)
