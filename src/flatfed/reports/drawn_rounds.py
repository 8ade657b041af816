"""Which rounds of a curve are drawn, and how: evaluations may be denser at the end of a run than before.

Between points that lie closer a line shows more noise. One line through all of them would look as if the noise began
there. So a curve goes through evenly spaced rounds, and those between are a thin line of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from flatfed.reports.page.thin import thinned

if TYPE_CHECKING:
    from flatfed.reports.results.result import Result

MOST = 1500
"""Points of a curve in a picture: more than it has dots, and a file of many curves stays small."""
FEWEST = 3
"""Rounds of a stretch: two may be the last evaluation and the one before."""
UNDER_A_FIGURE, ON_A_PAGE = ("Line:", "thin line:"), ("Curves go through", "thin lines show")
"""What stands before the words about the line, and about thin lines."""


@dataclass(frozen=True)
class DrawnRounds:
    """The rounds of a curve.

    Attributes:
        even: evenly spaced, and the last.
        stretches: rounds that lie closer than these, where there are some.
        every: the rounds between two of the even ones.
    """

    even: list[int]
    stretches: list[list[int]]
    every: int = 1


def drawn_rounds(rounds: Sequence[int], every: int) -> DrawnRounds:
    """Return how the rounds (from 1) that have a value are drawn, in a run that is evaluated every `every` rounds."""
    gaps = {after - before for before, after in pairwise(rounds[:-1])}
    even = [round for round in rounds if round % every == 0 or round == rounds[-1]]
    if len(gaps) < 2 or len(even) < FEWEST:
        return DrawnRounds(thinned(rounds, MOST), [])
    return DrawnRounds(thinned(even, MOST), [thinned(stretch, MOST) for stretch in _stretches(rounds, every)], every)


def _stretches(rounds: Sequence[int], every: int) -> list[list[int]]:
    """Return the stretches of rounds whose neighbours are closer than `every`."""
    stretches = [[rounds[0]]]
    for before, after in pairwise(rounds):
        if after - before < every:
            stretches[-1].append(after)
        else:
            stretches.append([after])
    return [stretch for stretch in stretches if len(stretch) >= FEWEST]


def evaluated_every(result: Result) -> int:
    """Return the number of rounds between two evaluations of a result's runs, before the last ones."""
    return max((run.config["settings"].get("evaluate_every") or 1 for run in result.runs), default=1)


def density_note(drawn: Iterable[DrawnRounds], words: tuple[str, str] = UNDER_A_FIGURE) -> str:
    """Say what the thin lines are, once for all curves; nothing where there is none."""
    kinds = _kinds(drawn)
    if not kinds:
        return ""
    line, thin = words
    if len(kinds) > 1:
        return f"{line} evenly spaced evaluations; {thin} where rounds were evaluated more often."
    every, first, last = kinds.pop()
    return f"{line} every {every} rounds; {thin} each of the rounds {first} to {last}."


def _kinds(drawn: Iterable[DrawnRounds]) -> set[tuple[int, int, int]]:
    """Return the stretches that there are: the rounds between the even ones, the first and the last round."""
    return {(own.every, stretch[0], stretch[-1]) for own in drawn for stretch in own.stretches}
