"""A study's values beside those of a published table, each with the known reasons for a difference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.core.errors import FlatfedError
from flatfed.published.conditions import conditions_of
from flatfed.published.numbers import PublishedValue
from flatfed.published.table_matching import TableMatch, fewer_seeds, nearest_in_table
from flatfed.published.wording import UNCERTAIN, metric_text, setting_parts, value_record, value_text
from flatfed.reports.figures.comparisons.beside_scatter import BesidePoint
from flatfed.reports.tables.beside_published import OF_FLATNESS, OF_TESTS, TESTS
from flatfed.reports.tables.grid import NOTHING, Spread, csv_text, known, markdown_table, number, rule, spread_of
from flatfed.reports.tables.pivot import DIVERGED, escape_markdown
from flatfed.runs.directory import RunDirectory
from flatfed.studies.parts import REFERENCE
from flatfed.studies.reporting.study_flatness import FlatnessBlock, spread_of_block
from flatfed.studies.reporting.study_runs import setting_name
from flatfed.studies.reporting.study_targets import TargetLine, reference_of
from flatfed.studies.results import StudyTable

NONE_KNOWN = "none known"
PERCENT = "_pct"
"""How the papers' tables end the name of a metric in per cent."""
CLIENT_TIME = "client_time_s"
"""The metric of tables that is the time of a client's local training in a round."""
OF_FEDAVG = "fedavg_final_accuracy"
"""The target of tables that is the accuracy of FedAvg."""
OF_TARGETS = {"rounds_to_target": "round", "model_transmissions_to_target": "transmissions"}
"""What it took to reach a target, as the papers' tables name it, and here; both count for one client."""
HEADS = ["setting", "method", "metric", "measured", "published", "known reasons for a difference"]


@dataclass(frozen=True)
class PublishedLine:
    """A measured value beside a published one, both in the unit of the paper.

    Attributes:
        setting: of the study, by its name.
        method: the variant.
        measured: mean and deviation; None where it was not measured, or not of every seed.
        seeds: over how many.
        has_diverged: whether a seed diverged, so that there is no mean.
        match: the published value, with in what its run differs.
        missed: in how many runs a target was not reached, of which the mean says nothing.
        samples: over how many examples flatness was measured; None is all.
    """

    setting: str
    method: str
    measured: Spread | None
    seeds: int
    has_diverged: bool
    match: TableMatch
    missed: str = ""
    samples: int | None = None

    @property
    def value(self) -> PublishedValue:
        """What was published."""
        return self.match.match.value

    @property
    def reasons(self) -> list[str]:
        """Why the two may differ, as far as it is known."""
        fewer = fewer_seeds(self.value.paper, self.seeds)
        missed = [f"the target was not reached in {self.missed} runs here"] if self.missed else []
        unstated = [f"the paper does not state: {name}" for name in self.match.match.unstated]
        uncertain = [] if self.value.is_certain else [f"uncertain ({UNCERTAIN}): {self.value.reason}"]
        elsewhere = ["published of another machine"] if self.value.metric == CLIENT_TIME else []
        here = [*elsewhere, *self._of_fewer_examples(), *filter(None, [fewer]), *missed]
        return [*self.match.match.differences, *here, *unstated, *uncertain]

    def _of_fewer_examples(self) -> Iterator[str]:
        if self.samples is not None and self.value.metric in OF_FLATNESS.values():
            yield f"measured over {self.samples:,} training examples here"

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        mean, deviation = self.measured or (None, None)
        return {
            "setting": self.setting,
            "method": self.method,
            "metric": self.value.metric,
            "measured": mean,
            "measured_std": deviation,
            "seeds": self.seeds,
            "diverged": self.has_diverged,
            "published": value_record(self.value),
            "on_other_data": self.match.is_on_other_data,
            "reasons": self.reasons,
        }


def published_lines(
    table: StudyTable, blocks: Sequence[FlatnessBlock], targets: Sequence[TargetLine]
) -> list[PublishedLine]:
    """Return the study's values that the table has too, matched by what the runs are."""
    published = table.study.report.published_values()
    lines: list[PublishedLine] = []
    for (setting, variant), runs in table.runs.items():
        config = _config(next(iter(runs.values())))
        if config is None:
            continue
        for match in nearest_in_table(published, config):
            for own in _measured(table, (setting, variant), match.match.value, blocks, targets):
                lost = own.spread is None and table.entry(setting, variant).has_diverged
                name = setting_name(setting)
                samples = table.study.report.flatness_samples
                lines.append(PublishedLine(name, variant, own.spread, own.seeds, lost, match, own.missed, samples))
    order = {id(value): place for place, value in enumerate(published)}
    return sorted(lines, key=lambda line: (list(table.runs).index(_key(table, line)), order[id(line.value)]))


def _key(table: StudyTable, line: PublishedLine) -> tuple[str, str]:
    return next(key for key in table.runs if (setting_name(key[0]), key[1]) == (line.setting, line.method))


def _config(path: Any) -> Mapping[str, Any] | None:
    try:
        return RunDirectory.open(path).config
    except FlatfedError:
        return None


@dataclass(frozen=True)
class _Measured:
    """A measured value, over how many seeds, and in how many runs a target was not reached."""

    spread: Spread | None
    seeds: int
    missed: str = ""


def _measured(
    table: StudyTable,
    key: tuple[str, str],
    value: PublishedValue,
    blocks: Sequence[FlatnessBlock],
    targets: Sequence[TargetLine],
) -> Iterator[_Measured]:
    """Yield what was measured of a published metric: once, or not at all where the study has no such metric."""
    runs = len(table.runs[key])
    if value.metric in OF_TESTS.values():
        for spread in _reported(table, key, value):
            yield _Measured(spread, runs)
    elif value.metric in OF_FLATNESS.values():
        for block in blocks:
            if OF_FLATNESS.get(block.number.partition(",")[0]) == value.metric:
                yield _Measured(spread_of_block(table, block, key), runs)
                return
    elif value.metric in OF_TARGETS:
        for line in targets:
            if (line.setting, line.method) == (setting_name(key[0]), key[1]) and _is_target(table, line, value):
                yield _Measured(line.costs[OF_TARGETS[value.metric]], line.reached or line.runs, line.missed)
                return
    elif value.metric == CLIENT_TIME:
        yield _Measured(spread_of(_client_seconds(table.runs[key].values())), runs)


def _client_seconds(paths: Iterable[Path]) -> list[float]:
    """Return the mean time of a client's local training in each run that has it."""
    times = []
    for path in paths:
        try:
            summary = RunDirectory.open(path).summary()
        except FlatfedError:
            continue
        times.append(summary.get("client_seconds"))
    return known(times)


def _reported(table: StudyTable, key: tuple[str, str], value: PublishedValue) -> Iterator[Spread | None]:
    for own in (table, *table.further):
        yield from _of_metric(own, key, value)


def _of_metric(table: StudyTable, key: tuple[str, str], value: PublishedValue) -> Iterator[Spread | None]:
    metric, entry = table.metrics.get(key[0]), table.entries.get(key)
    conditions = conditions_of(value)
    if metric is None or entry is None or OF_TESTS.get(metric.name) != value.metric:
        return
    if conditions.test not in TESTS.get(metric.test, ()) or conditions.share < 1:
        return
    if entry.mean is None:
        yield None
        return
    # The tables have both metrics in per cent.
    yield 100 * entry.mean, None if entry.spread is None else 100 * entry.spread


def _is_target(table: StudyTable, line: TargetLine, value: PublishedValue) -> bool:
    """Say whether a line is of the target that a published number of rounds is to."""
    if line.target == REFERENCE:
        return value.target == OF_FEDAVG and table.study.methods[reference_of(table)] == "fedavg"
    return value.target == line.target


def beside_points(lines: Sequence[PublishedLine]) -> dict[str, list[BesidePoint]]:
    """Return what is drawn of each metric: pairs of numbers."""
    points: dict[str, list[BesidePoint]] = {}
    for line in lines:
        if line.measured is None or line.value.value is None:
            continue
        mean, deviation = line.measured
        point = BesidePoint(line.method, line.value.value, mean, line.value.std, deviation, line.match.is_on_other_data)
        points.setdefault(line.value.metric, []).append(point)
    return points


def published_markdown(lines: Sequence[PublishedLine], table: str) -> str:
    """Return measured and published values side by side as Markdown."""
    title = f"# Measured beside {escape_markdown(table)}"
    if not lines:
        return f"{title}\n\nNo value of the table is of a method, data set and partition of this study.\n"
    rows = [[escape_markdown(text) for text in row] for row in rows_of(lines)]
    rules = [rule(words=place not in (3, 4)) for place in range(len(HEADS))]
    common = common_reasons(lines)
    below = [f"All rows: {escape_markdown('; '.join(common))}."] if common else []
    return "\n\n".join([title, markdown_table(HEADS, rules, rows), *below]) + "\n"


def common_reasons(lines: Sequence[PublishedLine]) -> list[str]:
    """Return the reasons that hold for every row, where there are several."""
    if len(lines) < 2:
        return []
    return [reason for reason in lines[0].reasons if all(reason in line.reasons for line in lines)]


def rows_of(lines: Sequence[PublishedLine]) -> list[list[str]]:
    """Return the texts of the table; what holds for all rows is said once below it."""
    common = common_reasons(lines)
    return [_row(line, common) for line in lines]


def _row(line: PublishedLine, common: Sequence[str]) -> list[str]:
    own = [reason for reason in line.reasons if reason not in common]
    reasons = "; ".join(own) or ("as below" if common else NONE_KNOWN)
    measured = DIVERGED if line.has_diverged else _number(line)
    metric = readable_metric(metric_text(line.value))
    return [line.setting, line.method, metric, measured, value_text(line.value) or NOTHING, reasons]


def readable_metric(name: str) -> str:
    """Return a metric of the papers' tables as people write it: `accuracy (%)`."""
    return name.replace(PERCENT, " (%)").replace("_", " ")


def _number(line: PublishedLine) -> str:
    """Return what was measured: per cent with two decimals, as in the study's own table."""
    if line.measured is None or PERCENT not in line.value.metric:
        return number(line.measured)
    mean, deviation = line.measured
    return f"{mean:.2f}" if deviation is None else f"{mean:.2f} ± {deviation:.2f}"


def published_csv(lines: Sequence[PublishedLine]) -> str:
    """Return the same as CSV, with all digits."""
    columns = ["setting", "method", "metric", "measured", "measured_std", "seeds", "published", "published_std"]
    records = []
    for line in lines:
        mean, deviation = line.measured or (None, None)
        own = {"setting": line.setting, "method": line.method, "metric": metric_text(line.value), "seeds": line.seeds}
        numbers = {"measured": mean, "measured_std": deviation}
        theirs = {"published": line.value.value, "published_std": line.value.std, "status": line.value.status}
        where = {"published_setting": ", ".join(setting_parts(line.value))}
        records.append(own | numbers | theirs | where | {"reasons": "; ".join(line.reasons) or NONE_KNOWN})
    return csv_text([*columns, "status", "published_setting", "reasons"], records)
