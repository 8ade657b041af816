"""Numbers, notes and folds."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from flatfed.reports.figures.drawing.style import fold, one_note, plain, short, together
from reports.figures.inputs import NOTE, bowl


def test_a_note_that_all_share_is_said_once() -> None:
    assert one_note([bowl("a"), bowl("b")]) == NOTE


def test_notes_that_differ_are_said_by_label() -> None:
    grids = [bowl("a"), replace(bowl("b"), note="other"), bowl("c"), replace(bowl("d"), note="")]
    assert one_note(grids) == f"a, c: {NOTE}; b: other"


def test_what_notes_have_in_common_is_said_once() -> None:
    grids = [replace(bowl("a"), note="100 examples; seed 3"), replace(bowl("b"), note="all; seed 3")]
    assert one_note(grids) == "a: 100 examples; b: all; seed 3"


def test_grids_of_panels_are_told_by_their_panel() -> None:
    notes = {"own": "client 3", "all": "train"}
    grids = [replace(bowl(method), panel=panel, note=note) for panel, note in notes.items() for method in ("a", "b")]
    assert one_note(grids) == "own: client 3; all: train"


def test_no_note_is_no_note() -> None:
    assert one_note([replace(bowl(), note="")]) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.5, "0.5"), (1000, "1000"), (1e4, "$10^{4}$"), (-1e-5, "$-10^{-5}$"), (3e5, "$3\\cdot 10^{5}$")],
)
def test_ticks(value: float, text: str) -> None:
    assert plain(value) == text


def test_a_number_in_three_digits() -> None:
    assert [short(value) for value in (1.23456, 0.0001234, math.nan)] == ["1.23", "0.000123", "not finite"]


def test_folds_between_words_that_are_not_together() -> None:
    folded = fold("fedgloss filter-normalised: " + together("loss 3 at the centre"), 1.4)
    assert folded == "fedgloss\nfilter-normalised:\nloss 3 at the centre"
