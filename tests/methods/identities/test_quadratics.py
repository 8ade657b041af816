"""On heterogeneous quadratics: who reaches the optimum, and who does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flatfed as ff
from methods.bench import Point, array, assert_close, train_point
from methods.identities.shared import bowl, distance

CENTRES = (np.array([1.0, -2.0, 0.5]), np.array([-3.0, 1.0, 2.0]), np.array([0.0, 4.0, -1.0]))
CURVATURES = (np.array([1.0, 0.5, 2.0]), np.array([0.3, 2.0, 1.0]), np.array([1.5, 1.0, 0.4]))
HETEROGENEOUS = [bowl(centre, curvature) for centre, curvature in zip(CENTRES, CURVATURES, strict=True)]
OPTIMUM = sum(c * a for c, a in zip(CENTRES, CURVATURES, strict=True)) / sum(CURVATURES)
TWO_OF_THREE = ((0, 1), (1, 2), (2, 0))


def point_run(method: Any, rounds: int, partial: bool = False, **local: Any) -> Any:
    schedule = [TWO_OF_THREE[t % 3] for t in range(rounds)] if partial else [(0, 1, 2)] * rounds
    return train_point(method, Point(np.zeros(3)), HETEROGENEOUS, schedule=schedule, **local)


def test_fedavg_misses_the_optimum_of_heterogeneous_quadratics() -> None:
    lr, K = 0.2, 5
    run = point_run(ff.make("fedavg"), 150, lr=lr, local_epochs=K)
    pulls = [1 - (1 - lr * a) ** K for a in CURVATURES]
    own_fixed_point = sum(c * p for c, p in zip(CENTRES, pulls, strict=True)) / sum(pulls)
    assert_close(run.vector, own_fixed_point, rel=1e-9)
    assert distance(array(run.vector), OPTIMUM) > 0.1


@pytest.mark.parametrize("option", ["I", "II"])
def test_scaffold_reaches_the_optimum_of_heterogeneous_quadratics(option: str) -> None:
    run = point_run(ff.make("scaffold", option=option), 150, lr=0.2, local_epochs=5)
    assert_close(run.vector, OPTIMUM, rel=1e-9)


@pytest.mark.parametrize("partial", [False, True], ids=["full", "partial"])
@pytest.mark.parametrize(("alpha", "rounds", "rel"), [(0.1, 120, 2e-3), (1.0, 40, 1e-6)])
def test_feddyn_reaches_the_optimum_of_heterogeneous_quadratics(
    alpha: float, rounds: int, rel: float, partial: bool
) -> None:
    run = point_run(ff.make("feddyn", alpha=alpha), rounds, partial, lr=0.4, local_epochs=15)
    assert_close(run.vector, OPTIMUM, rel=rel)


CORRECTED: dict[str, Any] = {
    "fedgamma": lambda: ff.make("fedgamma", rho=0.0),
    "fedgamma-formed": lambda: ff.make("fedgamma", rho=0.0, send_dc=False),
    "fedlesam-s": lambda: ff.make("fedlesam-s", rho=0.0),
    "scaffold-formed": lambda: ff.make("scaffold", send_dc=False),
    "fedwmsam": lambda: ff.make("fedwmsam", rho=0.0, alpha=1.0, lam=0.0),
    "mime": lambda: ff.make("mime", beta=0.0),
    "mime-with-momentum": lambda: ff.make("mime", beta=0.5),
}


@pytest.mark.parametrize("name", CORRECTED)
def test_corrected_steps_reach_the_optimum_of_heterogeneous_quadratics(name: str) -> None:
    run = point_run(CORRECTED[name](), 50, lr=0.2, local_epochs=5)
    assert_close(run.vector, OPTIMUM, rel=1e-7)


@pytest.mark.parametrize("name", ["fedgamma", "fedlesam-s", "scaffold-formed"])
def test_control_variates_reach_the_optimum_with_some_of_the_clients(name: str) -> None:
    run = point_run(CORRECTED[name](), 48, partial=True, lr=0.2, local_epochs=3)
    assert_close(run.vector, OPTIMUM, rel=1e-8)


UNCORRECTED: dict[str, dict[str, float]] = {
    "fedcm": {"alpha": 0.9},
    "mimelite": {"beta": 0.1},
    "fednova": {},
    "fedlesam": {"rho": 0.0},
    "fedacg": {"lam": 0.3},
}


@pytest.mark.parametrize("method", UNCORRECTED)
def test_uncorrected_steps_miss_the_optimum_of_heterogeneous_quadratics(method: str) -> None:
    run = point_run(ff.make(method, **UNCORRECTED[method]), 30, lr=0.2, local_epochs=5)
    assert distance(array(run.vector), OPTIMUM) > 0.08


DUALS: dict[str, Any] = {
    "fedspeed": lambda: ff.make("fedspeed", rho=0.0, lam=1.0),
    "fedlesam-d": lambda: ff.make("fedlesam-d", rho=0.0, beta=1.0),
}


@pytest.mark.parametrize("partial", [False, True], ids=["full", "partial"])
@pytest.mark.parametrize("name", DUALS)
def test_duals_reach_the_optimum_of_heterogeneous_quadratics(name: str, partial: bool) -> None:
    run = point_run(DUALS[name](), 30, partial, lr=0.4, local_epochs=15)
    assert_close(run.vector, OPTIMUM, rel=1e-5)


def test_active_duals_reach_the_optimum_with_everyone_only() -> None:
    rounds = 30
    method = ff.make("fedspeed", rho=0.0, lam=1.0, server_dual="active")
    everyone = point_run(method, rounds, lr=0.4, local_epochs=15)
    assert_close(everyone.vector, OPTIMUM, rel=1e-6)
    some = point_run(method, rounds, partial=True, lr=0.4, local_epochs=15)
    assert distance(array(some.vector), OPTIMUM) > 0.5


def test_fedgmt_without_distillation_reaches_the_optimum_for_a_moderate_dual_gain() -> None:
    run = point_run(ff.make("fedgmt", gamma=0.0, beta=2.0), 150, lr=0.2, local_epochs=5)
    assert_close(run.vector, OPTIMUM, rel=1e-8)
