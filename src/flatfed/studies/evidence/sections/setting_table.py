"""The table of one setting of a study: accuracy, its difference to the reference, what was chosen, costs, flatness."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from flatfed.bootstrap import FEW
from flatfed.published.claims.intervals import FEWEST
from flatfed.reports.statistics.paired import PairedDifference
from flatfed.reports.tables.grid import NOTHING, markdown_table, megabytes, number, of_metric, rule
from flatfed.reports.tables.pivot import DIVERGED, escape_markdown
from flatfed.reports.tables.target_tables import round_text
from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.evidence.sections.beside_papers import printed_of, printed_text
from flatfed.studies.evidence.sections.chance import chance_mark
from flatfed.studies.parts import REFERENCE
from flatfed.studies.reporting.comparison_text import signed
from flatfed.studies.reporting.study_flatness import FlatnessBlock, spread_of_block
from flatfed.studies.reporting.study_runs import setting_name
from flatfed.studies.reporting.study_targets import TargetLine
from flatfed.studies.results import Entry
from flatfed.studies.selection import Choice

EDGE = "°"
"""Stands at a chosen value at the end of its grid."""
OPEN = frozenset(("waiting", "begun"))
"""States of runs that have not ended."""
FLATNESS = ("lambda_max", "lambda_ratio", "lpf")
LEFT_OUT = ("chosen", "traffic per round", "rounds to target", "traffic to target", "λmax/λ5", "LPF")
"""Columns that a short table does without."""

Cell = Callable[[str], str]
"""Of a variant, the text in a column."""


def setting_table(study: PublishedStudy, setting: str, paper: str = "") -> str:
    """Return the table of a setting as Markdown, with the numbers that a paper printed."""
    return _table(study.study.methods_in(setting), _columns(study, setting, paper))


def short_table(study: PublishedStudy, setting: str, variants: Sequence[str]) -> str:
    """Return the same of some methods, with what matters most: accuracy, its difference, passes, sharpness."""
    columns = _columns(study, setting, "")
    return _table(variants, {head: cell for head, cell in columns.items() if head.partition(",")[0] not in LEFT_OUT})


def measured_table(study: PublishedStudy, setting: str) -> str:
    """Return what else was measured of the final models; nothing where nothing was."""
    columns = {
        block.title: _flatness(study, setting, block)
        for block in study.flatness
        if block.number.partition(",")[0] not in FLATNESS
    }
    variants = study.study.methods_in(setting)
    cells = [cell(variant) for variant in variants for cell in columns.values()]
    return _table(variants, columns) if any(cell != NOTHING for cell in cells) else ""


def _table(variants: Sequence[str], columns: dict[str, Cell]) -> str:
    rows = [[escape_markdown(variant), *(cell(variant) for cell in columns.values())] for variant in variants]
    # A column in which nothing stands says nothing.
    filled = [0, *(place for place in range(1, len(columns) + 1) if any(row[place] != NOTHING for row in rows))]
    heads = ["method", *columns]
    rules = [rule(words=heads[place] in ("method", "chosen")) for place in filled]
    return markdown_table([heads[place] for place in filled], rules, [[row[place] for place in filled] for row in rows])


def _columns(study: PublishedStudy, setting: str, paper: str) -> dict[str, Cell]:
    reference = study.statistics.reference
    columns: dict[str, Cell] = {
        _head(study, setting): lambda variant: value_text(study, study.table.entry(setting, variant)),
        f"minus {reference}": lambda variant: difference_text(study, setting, variant),
        "chosen": lambda variant: chosen_text(study, setting, variant),
        f"traffic per round, x {reference}": lambda variant: _ratio(study, setting, variant, "bytes_per_round"),
        f"passes per round, x {reference}": lambda variant: _ratio(study, setting, variant, "backprops"),
        "rounds to target": lambda variant: _cost(study, setting, variant, "round"),
        "traffic to target": lambda variant: _cost(study, setting, variant, "bytes"),
    }
    if study.about.is_timed:
        columns["seconds of a client"] = lambda variant: _client_seconds(study, setting, variant)
        columns[f"client time, x {reference}"] = lambda variant: _time_ratio(study, setting, variant)
    for block in study.flatness:
        if block.number.partition(",")[0] in FLATNESS:
            columns[block.title] = _flatness(study, setting, block)
    if paper:
        columns["published"] = lambda variant: printed_text(printed_of(study, setting, variant, paper))
    return columns


def _client_seconds(study: PublishedStudy, setting: str, variant: str) -> str:
    times = list(study.numbers.of("client_seconds").get((setting, variant), {}).values())
    return number((statistics.fmean(times), statistics.stdev(times))) if len(times) > 1 else NOTHING


def _time_ratio(study: PublishedStudy, setting: str, variant: str) -> str:
    """Return the mean over seeds of a client's time by that of the reference, with its range."""
    by_method = study.numbers.of("client_seconds")
    own, other = (by_method.get((setting, name), {}) for name in (variant, study.statistics.reference))
    ratios = [own[seed] / other[seed] for seed in own if other.get(seed)]
    if not ratios or variant == study.statistics.reference:
        return NOTHING
    return f"{statistics.fmean(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"


def _head(study: PublishedStudy, setting: str) -> str:
    metric = study.table.metrics.get(setting)
    return "accuracy in %" if metric is None else metric.title


def value_text(study: PublishedStudy, entry: Entry) -> str:
    """Return what a method came to: a mean when all of its seeds are there; the best of several in bold."""
    metric = study.table.metrics.get(entry.setting)
    if entry.has_diverged:
        lost = sum(state == "diverged" for state in entry.ended.values())
        return f"{DIVERGED} {lost} of {len(entry.values) + len(entry.ended)} seeds"
    if metric is None or not entry.values:
        states = sorted({state.partition(":")[0] for state in entry.ended.values()} - OPEN)
        return ", ".join(states) or NOTHING
    if entry.mean is None:
        so_far = of_metric(metric, (sum(entry.values.values()) / len(entry.values), None))
        ended = f"({len(entry.values)} of {len(entry.values) + len(entry.ended)} seeds)"
        return f"{so_far} {ended}{chance_mark(study, entry)}"
    text = of_metric(metric, (entry.mean, entry.spread))
    shown = f"**{text}**" if is_best(study, entry) else text
    return shown + chance_mark(study, entry)


def is_best(study: PublishedStudy, entry: Entry) -> bool:
    """Say whether a method is the best of at least two that have all seeds: one alone is the best of nothing.

    Fewer than three seeds decide nothing, and a study of times compares nothing else.
    """
    if study.about.is_timed or len(study.study.seeds) < FEWEST:
        return False
    others = [study.table.entry(entry.setting, variant) for variant in study.study.methods if variant != entry.variant]
    return entry.best and any(other.mean is not None for other in others)


def compared_with(study: PublishedStudy, setting: str, variant: str) -> PairedDifference | None:
    """Return a method's comparison with the reference; None for the reference itself."""
    for one in study.statistics.compared:
        if (one.setting, one.method) == (setting, variant):
            return one
    return None


def difference_text(study: PublishedStudy, setting: str, variant: str) -> str:
    """Return a method's difference to the reference, as `interval_text` has it; nothing for the reference itself."""
    one = compared_with(study, setting, variant)
    return NOTHING if one is None else interval_text(study, one, study.statistics.reference)


def interval_words(study: PublishedStudy) -> str:
    """Say what stands in brackets behind a difference."""
    if len(study.study.seeds) <= FEW:
        return "their range over the seeds"
    return "the 95 % interval of the bootstrap"


def interval_text(study: PublishedStudy, one: PairedDifference, other: str) -> str:
    """Return a method's mean difference to another, with its interval where there are two pairs.

    The number of pairs stands there too where it is smaller than that of the study's seeds, or where there is no
    interval. Nothing stands there where a seed of either method diverged: over the others it would look too good.
    """
    metric = study.table.metrics.get(one.setting)
    entries = [study.table.entry(one.setting, variant) for variant in (one.method, other)]
    if metric is None or one.mean is None or any(entry.has_diverged for entry in entries):
        return NOTHING
    mean = signed(metric.scale * one.mean, 2)
    return f"{mean}{_bounds(one, metric.scale)}{_pairs(one, len(study.study.seeds))}"


def _bounds(one: PairedDifference, scale: float) -> str:
    if one.interval is None:
        return ""
    return f" [{signed(scale * one.interval.low, 2)}, {signed(scale * one.interval.high, 2)}]"


def _pairs(one: PairedDifference, seeds: int) -> str:
    count = len(one.differences)
    if count == seeds and one.interval is not None:
        return ""
    return " (1 pair)" if count == 1 else f" ({count} pairs)"


def chosen_text(study: PublishedStudy, setting: str, variant: str) -> str:
    """Return the point that was chosen; a value at the end of its grid is marked."""
    choice = study.table.chosen.get((setting, variant))
    if choice is None or not choice.values:
        return NOTHING
    return ", ".join(f"{name}={value}{_edge(study, choice, name, value)}" for name, value in choice.point)


def _edge(study: PublishedStudy, choice: Choice, name: str, value: object) -> str:
    tried = {dict(point)[name] for point in study.study.points(choice.variant)}
    numbers = [one for one in tried if isinstance(one, int | float) and not isinstance(one, bool)]
    is_edge = len(numbers) == len(tried) > 1 and value in (min(numbers), max(numbers))
    return EDGE if is_edge else ""


def tried_text(study: PublishedStudy, setting: str) -> str:
    """Return what each point of the grids came to while choosing, as a list; ✗ where a run diverged or failed."""
    lines = []
    for variant in study.study.methods:
        choice = study.table.chosen.get((setting, variant))
        if choice is not None and choice.values:
            points = [f"{point}: {_decided(choice, value)}" for point, value in choice.values.items()]
            lines.append(f"- {escape_markdown(variant)}: {'; '.join(points)}")
    return "\n".join(lines)


def _decided(choice: Choice, value: float | None) -> str:
    if value is None:
        return DIVERGED
    return f"{100 * value:.2f}" if choice.metric.endswith("accuracy") else f"{value:.4g}"


def _ratio(study: PublishedStudy, setting: str, variant: str, counted: str) -> str:
    """Return what was counted of a method over the same of the reference, by the seeds of both that did not diverge."""
    own, others = (_counted(study, setting, name, counted) for name in (variant, study.statistics.reference))
    seeds = sorted(own.keys() & others.keys())
    if not seeds:
        return NOTHING
    return f"{sum(own[seed] for seed in seeds) / sum(others[seed] for seed in seeds):.2f}"


def _counted(study: PublishedStudy, setting: str, variant: str, counted: str) -> dict[int, float]:
    """Return what was counted of a method's runs, by seed; not of those that diverged, which may have ended early."""
    numbers = study.numbers.of(counted).get((setting, variant), {})
    ended = study.table.entry(setting, variant).ended
    return {seed: number for seed, number in numbers.items() if ended.get(seed) != "diverged"}


def target_of(study: PublishedStudy, setting: str, variant: str) -> TargetLine | None:
    """Return what it took a method to reach the first target; None where there is no target yet."""
    for line in study.targets:
        if (line.setting, line.method) == (setting_name(setting), variant):
            return line
    return None


def target_words(study: PublishedStudy) -> str:
    """Say what a study's first target is: the mean of its reference, or a number; nothing where there is none yet."""
    if not study.targets:
        return ""
    line = study.targets[0]
    return f"the mean of {study.statistics.reference}" if line.target == REFERENCE else line.goal


def _cost(study: PublishedStudy, setting: str, variant: str, name: str) -> str:
    """Return what it took to reach the target, on average; nothing before all seeds of the study have ended."""
    line = target_of(study, setting, variant)
    if line is None or line.runs < len(study.study.seeds):
        return NOTHING
    spread = line.costs[name]
    if spread is None:
        return "not reached"
    text = round_text(spread) if name == "round" else megabytes(spread[0])
    return f"{text} ({line.missed} not)" if line.missed else text


def _flatness(study: PublishedStudy, setting: str, block: FlatnessBlock) -> Cell:
    return lambda variant: measured_text(study, setting, variant, block)


def measured_text(study: PublishedStudy, setting: str, variant: str, block: FlatnessBlock) -> str:
    """Return what was measured of a method's models, marked where these are at chance."""
    text = number(spread_of_block(study.table, block, (setting, variant)))
    return text if text == NOTHING else text + chance_mark(study, study.table.entry(setting, variant))
