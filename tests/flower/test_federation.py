"""A federation on Flower is its simulation to the bit.

One method here; the others take longer, and run with the faults: `make federation-faults`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator

import pytest

from engines.bench import exact
from flatfed.core.method.messages import unpack
from flatfed.outside.source_hashes import sources_of
from flower.bench import MISSING, Bench, started
from sites.bench import assert_same, run_name

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Flower's own, at its import
]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with started(("a", "b")) as bench:
        yield bench


def test_two_exchanges_in_a_round(bench: Bench) -> None:
    number = bench.begin("mime", "mime", rounds=1)
    bench.finish(number)
    run = bench.loaded("mime")
    assert_same(run, bench.simulated("mime", rounds=1), bench.home)
    said = bench.log(number)
    assert "2 sites, 3 clients" in said
    assert "results are those of a simulation to the bit" in said
    assert "round 1, 3 clients" in said
    for member in bench.sites.values():
        model = unpack((member.home / "state/models" / f"{run_name(run)}.safetensors").read_bytes())
        assert exact(model) == exact(run.model().state_dict())


@pytest.mark.skipif("FLATFED_FEDERATION" not in os.environ, reason="takes long: make federation-faults")
@pytest.mark.parametrize("method", ["feddyn", "fedgloss+sam", "fedwmsam", "fedgmt"])
def test_states_at_the_sites_and_at_the_server(method: str, bench: Bench) -> None:
    number = bench.begin(method, method)
    bench.finish(number)
    assert_same(bench.loaded(method), bench.simulated(method), bench.home)
    listed = bench.federation.flwr("list", "flatfed", "--run-id", str(number)).stdout
    assert "finished:completed" in listed


@pytest.mark.skipif("FLATFED_FEDERATION" not in os.environ, reason="takes long: make federation-faults")
def test_a_method_from_outside_runs_where_the_sites_approve_it(bench: Bench) -> None:
    path = "flower.own_method:Steeper"
    number = bench.begin(f"{path}(rho=0.2)", "not-approved", rounds=1)
    assert bench.federation.wait_finished(number) != "finished:completed"
    assert f"this site does not allow the code '{path}'" in bench.log(number)
    approved = sources_of("flower.own_method").digest
    for member in bench.sites.values():
        member.restart(limits={"parts": {path: approved}})
    number = bench.begin(f"{path}(rho=0.2)", "approved")
    bench.finish(number)
    importlib.import_module("flower.own_method")
    assert_same(bench.loaded("approved"), bench.simulated("flower-steeper(rho=0.2)"), bench.home)
    for member in bench.sites.values():
        assert member.audit("run")[-1]["parts"] == [f"{path} {approved}"]
