"""At the end of a run of T rounds everything is measured as at round T of a longer run."""

from __future__ import annotations

from pathlib import Path

import pytest

import flatfed as ff
from flatfed.flatness.measurement import Measurement
from flatness.federations import ROUNDS, trained

METHODS = {
    "fedgloss": ff.make("fedgloss", rho_server=0.2, beta=5.0, client_opt=ff.SAM(rho=0.1)),
    "fedwmsam": ff.make("fedwmsam"),
    "fedlesam-s": ff.make("fedlesam-s", rho=0.2),
}
"""Duals on the clients, records on the server, an old model on each client."""

FEW = {"spectrum": "spectrum(k=3)", "trace": "trace(samples=2)", "lpf": "lpf(samples=2)"}


def fits(id: str, method: str) -> bool:
    return not Measurement.registry.make(id).unfit(METHODS[method])


CASES = [(id, method) for id in sorted(Measurement.registry) for method in METHODS if fits(id, method)]


@pytest.mark.parametrize(("id", "method"), CASES)
def test_the_end_is_a_round_like_others(id: str, method: str, tmp_path: Path) -> None:
    """In memory and from the directory, against a monitor in a run that goes on."""
    written, way = FEW.get(id, id), METHODS[method]
    plain = {"batch_size": 3, "checkpoint_every": None}
    longer = trained(way, rounds=ROUNDS + 2, watch=f"{written}:{ROUNDS}", watch_samples=None, **plain)
    row = longer.history[ROUNDS - 1]
    ended = trained(way, tmp_path / "run", **plain)
    for source in (trained(way, **plain), ended, tmp_path / "run"):
        with ff.laboratory(source) as lab:
            (found,) = lab.measure(written).values()
        assert {name: row["watch"][name] for name in found.numbers} == found.to_dict()["numbers"]
        assert row.get("clients_watch", {}) == found.to_dict()["clients"]
        (tmp_path / "run" / "flatness" / "readings.json").unlink(missing_ok=True)


def test_the_law_is_about_every_measurement() -> None:
    assert {id for id, _ in CASES} == set(Measurement.registry)
