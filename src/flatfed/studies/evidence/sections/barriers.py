"""How far the loss rises between two models of a study, seed by seed: what a page has of it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from flatfed.reports.tables.grid import markdown_table, number, rule
from flatfed.reports.tables.pivot import escape_markdown
from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.evidence.sections.picture_files import PICTURES, line_picture_name
from flatfed.studies.packing.packed_lines import LinesOfSeed

WORDS = (
    "The barrier between two models: how far the loss, on the straight line between their weights, rises above the "
    "straight line between their two losses. 0 is no barrier."
)
HEADS = ("models", "seed", "examples", "loss of the first", "loss of the second", "barrier")
WORDY = ("models", "examples")
NOT_FINITE = "not finite"


def barrier_parts(study: PublishedStudy, setting: str) -> Iterator[str]:
    """Yield the table of barriers in a setting, and the picture of one seed; nothing where no figure shows them."""
    own = [of_seed for of_seed in study.lines if of_seed.setting == setting]
    rows = [row for of_seed in own for row in _rows(of_seed)]
    if not rows:
        return
    yield WORDS
    yield markdown_table(HEADS, [rule(words=head in WORDY) for head in HEADS], rows)
    for first in drawn_lines(study, setting):
        file = PICTURES / line_picture_name(study, first)
        yield f"![The loss on the line between two models, seed {first.seed}]({file})"


def drawn_lines(study: PublishedStudy, setting: str) -> list[LinesOfSeed]:
    """Return the lines of a setting that are drawn: of each figure those of the first seed."""
    first: dict[str, LinesOfSeed] = {}
    for of_seed in study.lines:
        if of_seed.setting == setting:
            first.setdefault(of_seed.figure, of_seed)
    return list(first.values())


def _rows(of_seed: LinesOfSeed) -> Iterator[list[str]]:
    """Yield a row for each set of examples on which a line has a barrier."""
    for line in of_seed.lines:
        for name, barrier in line.barriers.items():
            # The label is `first to second`; the second has the share 0 at the first, and 1 at itself.
            by_share = dict(zip(line.xs.tolist(), line.losses[name].tolist(), strict=True))
            numbers = [by_share[0.0], by_share[1.0], barrier]
            yield [escape_markdown(line.label), str(of_seed.seed), name, *map(_written, numbers)]


def _written(value: float) -> str:
    return number((value, None)) if math.isfinite(value) else NOT_FINITE
