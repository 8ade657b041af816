"""At the end of a run of T rounds everything is measured as at round T of a longer run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from flatfed.flatness.measurement import Measurement
from flatness.federations import ROUNDS, trained
from methods.designs import marked

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


def by_turns() -> list[tuple[str, str]]:
    """The short design: every measurement with one of the methods it fits, these by turns."""
    fitting = {id: [method for other, method in CASES if other == id] for id, _ in CASES}
    return [(id, methods[turn % len(methods)]) for turn, (id, methods) in enumerate(fitting.items())]


PLAIN: dict[str, Any] = {"batch_size": 3, "checkpoint_every": None}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[ff.Run, ff.Run, Path]]:
    """A method's run of T rounds in memory, one with a directory, and that directory; made once for all."""
    paths = {name: tmp_path_factory.mktemp("ended") / "run" for name in METHODS}
    return {
        name: (trained(method, **PLAIN), trained(method, paths[name], **PLAIN), paths[name])
        for name, method in METHODS.items()
    }


@marked("id, method", CASES, by_turns())
def test_the_end_is_a_round_like_others(id: str, method: str, ended: dict[str, tuple[ff.Run, ff.Run, Path]]) -> None:
    """In memory and from the directory, against a monitor in a run that goes on."""
    written, sources = FEW.get(id, id), ended[method]
    watch = f"{written}:{ROUNDS}"
    longer = trained(METHODS[method], rounds=ROUNDS + 1, watch=watch, watch_samples=None, **PLAIN)
    row = longer.history[ROUNDS - 1]
    for source in sources:
        with ff.laboratory(source) as lab:
            (result,) = lab.measure(written).values()
        assert {name: row["watch"][name] for name in result.numbers} == result.to_dict()["numbers"]
        assert row.get("clients_watch", {}) == result.to_dict()["clients"]
        (sources[-1] / "flatness" / "results.json").unlink(missing_ok=True)


def test_the_law_is_about_every_measurement() -> None:
    assert {id for id, _ in by_turns()} == set(Measurement.registry)
    assert {method for _, method in by_turns()} == set(METHODS)
