"""How far the loss rises between two models of a study, seed by seed: what a page has of it."""

from __future__ import annotations

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
HEADS = ("models", "seed", "examples", "loss of one", "loss of the other", "barrier")
WORDY = ("models", "examples")


def barrier_parts(study: PublishedStudy, setting: str) -> Iterator[str]:
    """Yield the table of barriers in a setting, and the picture of one seed; nothing where no figure shows them."""
    own = [of_seed for of_seed in study.lines if of_seed.setting == setting]
    rows = [row for of_seed in own for row in _rows(of_seed)]
    if not rows:
        return
    yield WORDS
    yield markdown_table(HEADS, [rule(words=head in WORDY) for head in HEADS], rows)
    first = first_lines(study)[setting]
    yield f"![The loss on the line between two models, seed {first.seed}]({PICTURES / line_picture_name(study, first)})"


def first_lines(study: PublishedStudy) -> dict[str, LinesOfSeed]:
    """Return by setting the lines of the first seed, which are drawn."""
    first: dict[str, LinesOfSeed] = {}
    for of_seed in study.lines:
        first.setdefault(of_seed.setting, of_seed)
    return first


def _rows(of_seed: LinesOfSeed) -> Iterator[list[str]]:
    """Yield a row for each set of examples on which a line has a barrier."""
    for line in of_seed.lines:
        for name, barrier in line.barriers.items():
            # A share of 0 is the one model, a share of 1 the other.
            by_share = dict(zip(line.xs.tolist(), line.losses[name].tolist(), strict=True))
            ends = [number((by_share[share], None)) for share in (0.0, 1.0)]
            yield [escape_markdown(line.label), str(of_seed.seed), name, *ends, number((barrier, None))]
