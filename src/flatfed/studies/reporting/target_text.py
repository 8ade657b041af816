"""The costs to reach a study's targets as tables: for the terminal, Markdown, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

from flatfed.reports.tables.grid import NOTHING, csv_text, markdown_table, megabytes, rule
from flatfed.reports.tables.latex import plain_latex
from flatfed.reports.tables.pivot import escape_markdown
from flatfed.reports.tables.target_tables import round_text
from flatfed.studies.parts import REFERENCE
from flatfed.studies.reporting.study_targets import TargetLine

HEADS = ["setting", "method", "rounds", "bytes", "not reached in"]
OF_REFERENCE = ["setting", "method", "target", *HEADS[2:]]
WORDS = 2
"""Columns of words; the others are numbers."""
HOW = (
    "Rounds: the first evaluated one that is as good as the target; bytes: all that was exchanged up to it. Means over "
    "the seeds that reached it; a seed that diverged before it has not."
)


def by_target(lines: Sequence[TargetLine]) -> dict[str, list[TargetLine]]:
    """Return the lines of each target."""
    found: dict[str, list[TargetLine]] = {}
    for line in lines:
        found.setdefault(line.target, []).append(line)
    return found


def title_of(lines: Sequence[TargetLine], reference: str) -> str:
    """Say what is to be reached."""
    if lines[0].target == REFERENCE:
        return f"Cost to reach the value of {reference}"
    goals = dict.fromkeys(line.goal for line in lines)
    return f"Cost to reach {' or '.join(goals)}"


def heads_of(lines: Sequence[TargetLine]) -> list[str]:
    """Return the heads of a target's table."""
    return OF_REFERENCE if lines[0].target == REFERENCE else HEADS


def rows_of(lines: Sequence[TargetLine]) -> list[list[str]]:
    """Return the texts of a target's table; a target that differs by setting stands in each row."""
    return [_row(line) for line in lines]


def _row(line: TargetLine) -> list[str]:
    spent = line.costs["bytes"]
    goal = [line.goal] if line.target == REFERENCE else []
    exchanged = NOTHING if spent is None else megabytes(spent[0])
    return [line.setting, line.method, *goal, round_text(line.costs["round"]), exchanged, line.missed or NOTHING]


def targets_markdown(lines: Sequence[TargetLine], reference: str) -> str:
    """Return the tables of all targets as Markdown."""
    parts = []
    for own in by_target(lines).values():
        heads = heads_of(own)
        rules = [rule(words=place < WORDS) for place in range(len(heads))]
        rows = [[escape_markdown(text) for text in row] for row in rows_of(own)]
        parts += [f"# {escape_markdown(title_of(own, reference))}", markdown_table(heads, rules, rows)]
    return "\n\n".join([*parts, HOW]) + "\n"


def targets_csv(lines: Sequence[TargetLine]) -> str:
    """Return a line for each target, setting and method, with all digits."""
    records = [line.to_dict() for line in lines]
    return csv_text(list(records[0]), records)


def targets_latex(lines: Sequence[TargetLine], reference: str) -> str:
    """Return the tables of all targets as LaTeX."""
    return "\n".join(
        plain_latex(heads_of(own), rows_of(own), WORDS, title_of(own, reference), HOW, f"tab:target-{name}")
        for name, own in by_target(lines).items()
    )
