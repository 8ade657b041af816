"""Numbers that claims are about: counted for everyone who took part, and divided as the paper says."""

from __future__ import annotations

from typing import Any

import pytest

from flatfed.published.claims.claim_file import settings
from flatfed.studies.claimed.alike_settings import is_divided_as
from flatfed.studies.claimed.run_numbers import OF_ROWS


def row(clients: list[int], rejected: tuple[int, ...] = (), rounds: int = 1) -> dict[str, Any]:
    asked = rounds * (len(clients) + len(rejected))
    counted = {"bytes_down": 100 * asked, "bytes_up": 50 * asked, "backprops": 8 * asked}
    reasons = [{"client": client, "reason": "not finite"} for client in rejected]
    found = {"round": 0, "clients": clients, **counted}
    found |= {"rejected": reasons} if rejected else {}
    return found | ({"rounds_summed": rounds} if rounds > 1 else {})


def test_costs_are_those_of_clients_that_were_rejected_too() -> None:
    rows = [row([0, 1, 2], rounds=4), row([3], rejected=(4, 5))]
    assert OF_ROWS["backprops"](rows) == 8
    assert OF_ROWS["bytes_per_round"](rows) == 150


@pytest.mark.parametrize(("alpha", "is_it"), [(100, True), (10, False)])
def test_fedgf_prints_concentrations_for_each_class(alpha: float, is_it: bool) -> None:
    described = {"task": {"partition": {"id": "dirichlet", "alpha": alpha}}}
    assert is_divided_as(described, settings()["cifar10-10"], "fedgf") is is_it
    # FedGloSS prints the total.
    assert is_divided_as(described, settings()["cifar10-100"], "fedgloss") is is_it
