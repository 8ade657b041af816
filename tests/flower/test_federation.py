"""A federation on Flower is its simulation to the bit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engines.bench import exact
from flatfed.core.method.messages import unpack
from flower.bench import MISSING, Bench, started
from sites.bench import assert_same, run_name

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Flower's own, at its import
]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with started() as bench:
        yield bench


def test_two_exchanges_in_a_round(bench: Bench) -> None:
    number = bench.begin("mime", "mime")
    bench.finish(number)
    run = bench.loaded("mime")
    assert_same(run, bench.simulated("mime"), bench.home)
    said = bench.log(number)
    assert "3 sites, 5 clients" in said
    assert "results are those of a simulation to the bit" in said
    assert "round 2, 5 clients" in said
    listed = bench.federation.flwr("list", "flatfed", "--run-id", str(number)).stdout
    assert "finished:completed" in listed
    for member in bench.sites.values():
        model = unpack((member.home / "state/models" / f"{run_name(run)}.safetensors").read_bytes())
        assert exact(model) == exact(run.model().state_dict())
