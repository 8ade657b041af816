"""Every method comes to the same bits whether a group's clients step together, on stacked rows, or one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

import flatfed as ff
from engines.bench import assert_same, bits
from methods.stacked import CLIENTS, COHORTS, GROUPS, Steps, apart, task, trained
from methods.wire import METHODS, jittered, numbered_variants, variants

GROUPS_OF = {"fedgmt": 0, "centralised": 0, "naivefedgloss": 2 * GROUPS}
"""FedGMT adds a distillation over one client's outputs; one client is no group; some have two exchanges per round."""

_, SHORT = numbered_variants(METHODS)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


@pytest.mark.parametrize("method, number", SHORT)
@pytest.mark.filterwarnings("ignore:.*momentum")
def test_every_method_keeps_its_bits(steps: Steps, method: str, number: int) -> None:
    assert steps.compare(variants(method)[number], task()) == GROUPS_OF.get(method, GROUPS)


@pytest.mark.parametrize("method", ["fedavg", "scaffold+sam", "fedsmoo", "fedwmsam"])
@pytest.mark.filterwarnings("ignore:.*momentum")
def test_with_clipping_momentum_and_decay(steps: Steps, method: str) -> None:
    assert steps.compare(ff.make(method), task(), clip=0.4, momentum=0.9, weight_decay=0.01) == GROUPS
    assert steps.compare(ff.make(method), task(), momentum=0.9, batch_size=None) == GROUPS


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedlesam", "feddyn+asam"])
def test_with_layers_that_stay_on_the_client(steps: Steps, method: str) -> None:
    assert steps.compare(ff.make(method), task(local=ff.Local(names=("3.*",)))) == GROUPS


def test_with_examples_that_are_prepared_client_by_client(steps: Steps) -> None:
    prepared = {"augment": jittered, "prepare": lambda x: x - x.mean(dim=0)}
    assert steps.compare(ff.make("fedsam"), task(**prepared)) == GROUPS
    assert steps.compare(ff.make("fedsam"), task(clients=apart(task()), **prepared)) == GROUPS


def test_clients_of_unequal_size_go_one_by_one(steps: Steps) -> None:
    data = apart(task())
    data[0] = (data[0][0][:4], data[0][1][:4])
    assert steps.compare(ff.make("fedavg"), task(clients=data)) == 1


@pytest.mark.parametrize("method", ["fedgmt", "fedsmoo"])
def test_workers_and_a_resumed_run_come_to_the_same_bits(method: str, tmp_path: Path) -> None:
    expected = bits(trained(ff.make(method), task()), CLIENTS)
    assert_same(bits(trained(ff.make(method), task(), workers=2), CLIENTS), expected)
    trained(ff.make(method), task(), rounds=2, out=tmp_path / "run")
    assert_same(bits(ff.resume(tmp_path / "run", task=task(), rounds=len(COHORTS), workers=1), CLIENTS), expected)
