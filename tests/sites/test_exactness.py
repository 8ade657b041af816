"""A federation over sites is the simulation of the same clients, to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from sites.bench import Forked, assert_same, federated, services_in, simulated

METHODS = ("scaffold", "feddyn", "fedgloss+sam", "fedwmsam", "mime", "fedgmt", "fedavg+swa")


@pytest.mark.parametrize("method", METHODS)
def test_a_federation_is_its_simulation(method: str, home: Path) -> None:
    run = federated(services_in(home), method, home / "run")
    assert run.status == "finished"
    assert_same(run, simulated(method), home)


def test_layers_that_stay_at_the_clients(home: Path) -> None:
    options = {"model": "cnn-small-bn", "local_layers": "bn"}
    run = federated(services_in(home), "fedavg", home / "run", **options)
    assert_same(run, simulated("fedavg", **options), home)


@pytest.mark.parametrize("method", ["scaffold", "mime"])
def test_over_sockets_to_processes(method: str, sites: Forked, tmp_path: Path) -> None:
    run = federated(sites.transport, method, tmp_path / "run")
    assert_same(run, simulated(method), sites.home)
