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


def test_fedgmt_without_distillation_reaches_the_optimum_for_a_moderate_dual_gain() -> None:
    run = point_run(ff.make("fedgmt", gamma=0.0, beta=2.0), 150, lr=0.2, local_epochs=5)
    assert_close(run.vector, OPTIMUM, rel=1e-8)
