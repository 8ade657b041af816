"""What it took the methods of a study to reach its targets: rounds, bytes and more, in every setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flatfed.core.errors import ConfigError
from flatfed.reports.results.result import Result
from flatfed.reports.tables.extras import Extras, Target
from flatfed.reports.tables.grid import NOTHING, Spread, csv_text, markdown_table, megabytes, of_metric, rule
from flatfed.reports.tables.latex import plain_latex
from flatfed.reports.tables.pivot import escape_markdown
from flatfed.reports.tables.target_tables import round_text
from flatfed.reports.tables.targets import COST_NAMES, Reaching
from flatfed.studies.parts import REFERENCE
from flatfed.studies.reporting.study_runs import Say, StudyResults, nobody, setting_name
from flatfed.studies.results import StudyTable

HEADS = ["setting", "method", "rounds", "bytes", "not reached in"]
OF_REFERENCE = ["setting", "method", "target", *HEADS[2:]]
WORDS = 2
"""Columns of words; the others are numbers."""
HOW = (
    "Rounds: the first evaluated one that is as good as the target; bytes: all that was exchanged up to it. Means over "
    "the seeds that reached it; a seed that diverged before it has not."
)


@dataclass(frozen=True)
class TargetLine:
    """One method in one setting.

    Attributes:
        target: what is to be reached, as the study says it: `70 %`, or `reference`.
        goal: the same as a number with its unit, which for `reference` differs by setting.
        setting: by its name.
        method: the variant.
        value: what is to be reached, in the metric's own scale.
        reached: how many runs did.
        runs: how many there are, with those that diverged.
        costs: by name, mean and deviation over the runs that reached it; None where none did.
    """

    target: str
    goal: str
    setting: str
    method: str
    value: float
    reached: int
    runs: int
    costs: dict[str, Spread | None]

    @property
    def missed(self) -> str:
        """How often the target was not reached: `1 of 3`, or nothing."""
        if self.reached == self.runs:
            return ""
        return f"{self.runs - self.reached} of {self.runs}"

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON and CSV."""
        record: dict[str, Any] = {
            "target": self.target,
            "value": self.value,
            "setting": self.setting,
            "method": self.method,
            "reached": self.reached,
            "runs": self.runs,
        }
        for name, spread in self.costs.items():
            mean, deviation = spread or (None, None)
            record |= {name: mean, f"{name}_std": deviation}
        return record


def target_lines(table: StudyTable, results: StudyResults, say: Say = nobody) -> list[TargetLine]:
    """Return a line for each target, setting and method that has a run."""
    targets = target_texts(table)
    if not targets:
        return []
    lines: list[TargetLine] = []
    # Setting by setting: the histories of all need not fit into memory.
    for setting, found in results.items():
        for text in targets:
            lines += _of_setting(table, setting, found, text, say)
    return sorted(lines, key=lambda line: targets.index(line.target))


def target_texts(table: StudyTable) -> list[str]:
    """Return the targets as the study says them."""
    targets = table.study.report.targets
    if isinstance(targets, str):
        return [targets]
    return [f"{target:g}" for target in targets]


def _of_setting(table: StudyTable, setting: str, found: Sequence[Result], text: str, say: Say) -> Iterator[TargetLine]:
    value = target_value(table, setting, text)
    if value is None or not found:
        return
    extras = Extras(targets=(Target(text, value),))
    try:
        (reaching,) = Reaching.all(found, extras, table.metrics.get(setting))
    except ConfigError as error:
        say(f"{setting_name(setting)}: {error}")
        return
    for result in found:
        yield _line(reaching, setting, result, value)


def target_value(table: StudyTable, setting: str, text: str) -> float | None:
    """Return a target in the metric's own scale; None where the reference has no value yet."""
    if text == REFERENCE:
        return table.entry(setting, reference_of(table)).mean
    metric = table.metrics.get(setting)
    return None if metric is None else float(text) / metric.scale


def reference_of(table: StudyTable) -> str:
    """Return the variant with which the others are compared: the one that is named, or the first."""
    return table.study.report.reference or next(iter(table.study.methods))


def _line(reaching: Reaching, setting: str, result: Result, value: float) -> TargetLine:
    metric = reaching.metric
    unit = f" {metric.shown.unit}" if metric.shown.unit else ""
    return TargetLine(
        reaching.target.text,
        f"{of_metric(metric, (value, None))}{unit}",
        setting_name(setting),
        result.method,
        value,
        reaching.reached(result),
        len(result.runs),
        {name: reaching.spread(result, name) for name in COST_NAMES},
    )


# As tables: for the terminal, Markdown, CSV and LaTeX.


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
