"""A claim names the studies that can judge it: presets of the tables and figures where it is made."""

from __future__ import annotations

import pytest

from flatfed.published.claims import claims, find_claim
from flatfed.studies.presets import find_preset

ELSEWHERE = 10
"""Claims of sections, lemmas and algorithms, which no table or figure shows."""


@pytest.mark.parametrize(
    ("id", "studies"),
    [
        ("fedgloss-01", ("fedgloss/table-2", "fedgloss/table-3", "fedgloss/table-6")),
        ("fedgloss-05", ("fedgloss/table-8", "fedgloss/fig-7")),
        ("fedgloss-03", ()),
        ("fedwmsam-55", ("fedwmsam/fig-6",)),
        ("fedvssam-67", ("fedvssam/fig-3", "fedvssam/fig-9")),
        ("fedgf-79", ("fedgf/table-1",)),
        ("between-84", ("fedgloss/table-8", "fedsam/table-1", "fedgf/table-2")),
    ],
)
def test_the_studies_of_a_claim(id: str, studies: tuple[str, ...]) -> None:
    assert find_claim(id).studies == studies


def test_each_is_a_preset() -> None:
    named = {study for claim in claims() for study in claim.studies}
    assert all(find_preset(study).study for study in named)
    assert sum(not claim.studies for claim in claims()) == ELSEWHERE
