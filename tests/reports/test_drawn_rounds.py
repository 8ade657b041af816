"""Rounds that are drawn: evenly spaced, and what was evaluated more often marked as such."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from flatfed.reports.curves import draw_curves
from flatfed.reports.drawn_rounds import ON_A_PAGE, density_note, drawn_rounds
from flatfed.reports.page.series import curves_data
from flatfed.reports.results.results import collect
from reports.disk import write_run

DENSE = [*range(10, 101, 10), *range(101, 201)]
"""Evaluated every 10 rounds, and in each of the last 100."""


def test_a_curve_goes_through_evenly_spaced_rounds() -> None:
    drawn = drawn_rounds(DENSE, 10)
    assert drawn.even == list(range(10, 201, 10))
    assert drawn.stretches == [list(range(100, 201))]


@pytest.mark.parametrize(
    ("rounds", "every"),
    [(range(1, 201), 10), (range(10, 201, 10), 10), (range(7, 200, 7), 5), ([], 5), ([3], 5), ([1, 2, 3], 5)],
    ids=["each", "even", "a monitor's", "none", "one", "few"],
)
def test_rounds_that_are_even_already_are_drawn_as_they_are(rounds: Any, every: int) -> None:
    drawn = drawn_rounds(list(rounds), every)
    assert drawn.even == list(rounds) and not drawn.stretches


def test_the_last_round_is_there_and_is_no_stretch() -> None:
    drawn = drawn_rounds([*range(10, 201, 10), 205], 10)
    assert drawn.even[-1] == 205 and not drawn.stretches


def test_a_run_that_was_extended_has_two_stretches() -> None:
    rounds = sorted({*range(10, 301, 10), *range(91, 101), *range(291, 301)})
    assert [(own[0], own[-1]) for own in drawn_rounds(rounds, 10).stretches] == [(90, 100), (290, 300)]


def test_many_rounds_are_thinned_with_the_ends() -> None:
    drawn = drawn_rounds(list(range(1, 100_001)), 1)
    assert len(drawn.even) == 1500 and drawn.even[0] == 1 and drawn.even[-1] == 100_000


def test_the_note_is_said_once_for_all_curves() -> None:
    drawn = drawn_rounds(DENSE, 10)
    assert density_note([drawn, drawn]) == "Line: every 10 rounds; thin line: each of the rounds 100 to 200."
    on_a_page = "Curves go through every 10 rounds; thin lines show each of the rounds 100 to 200."
    assert density_note([drawn, drawn], ON_A_PAGE) == on_a_page
    assert density_note([drawn_rounds(range(1, 9), 1)]) == ""
    assert "more often" in density_note([drawn, drawn_rounds([*range(5, 51, 5), *range(51, 61)], 5)])


def dense_run(path: Path, seed: int = 0) -> Path:
    accuracies = tuple(round / 200 if round in DENSE else None for round in range(1, 201))
    return write_run(path, seed=seed, accuracies=accuracies, evaluate_every=10)


def test_a_figure_has_a_thin_line_where_evaluations_are_dense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **how: figures.append(self))
    draw_curves(collect([dense_run(tmp_path / str(seed), seed) for seed in (0, 1)]), [tmp_path / "a.png"])
    thin, thick = figures[0].axes[0].lines
    assert list(thick.get_xdata()) == list(range(10, 201, 10)) and list(thin.get_xdata()) == list(range(100, 201))
    assert thick.get_linewidth() > 2 * thin.get_linewidth()
    notes = [text.get_text() for text in figures[0].texts]
    assert notes == ["Line: every 10 rounds; thin line: each of the rounds 100 to 200."]


def test_the_page_has_the_even_rounds_and_the_dense_ones_apart(tmp_path: Path) -> None:
    data = curves_data(collect([dense_run(tmp_path / "a")]), 300)
    assert data is not None
    method = data["methods"][0]
    rounds, series = method["x"]["round"], method["series"]["test_accuracy"]
    drawn = [rounds[place] for place in series["at"]]
    assert {after - before for before, after in pairwise(drawn)} == {10}
    [dense] = series["dense"]
    assert [rounds[place] for place in dense["at"]] == list(range(100, 201))
    assert len(dense["mean"]) == 101
    assert data["thinned"] == "Curves go through every 10 rounds; thin lines show each of the rounds 100 to 200."
    assert "dense" not in method["series"]["train_loss"]
