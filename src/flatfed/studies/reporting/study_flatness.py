"""What was measured of a study's final models: a table of methods x settings for each number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flatfed.core.errors import FlatfedError
from flatfed.experiments.measuring.saved_runs import kept_result
from flatfed.experiments.spelling.methods import names_of
from flatfed.reports.flatness import HIDDEN, row_name
from flatfed.reports.tables.grid import csv_text, spread_of
from flatfed.reports.tables.latex import pivot_latex
from flatfed.reports.tables.pivot import Pivot, PivotCell, decimals_for, pivot_markdown
from flatfed.runs.directory import RunDirectory
from flatfed.studies.reporting.study_runs import Say, nobody, setting_name
from flatfed.studies.results import StudyTable
from flatfed.studies.study import Study

LOWER = ("lambda_max", "lambda_ratio", "trace", "lpf", "sharpness", "adaptive_sharpness", "client_lambda")
"""Numbers of which a lower one is flatter: the best is marked."""
HEADS = {"lambda_max": "λmax", "lambda_5": "λ5", "lambda_ratio": "λmax/λ5", "lpf": "LPF"}

Key = tuple[str, str]
"""A setting and a variant."""


@dataclass(frozen=True)
class FlatnessBlock:
    """One number that was measured: by setting and variant, then by seed."""

    number: str
    values: Mapping[Key, Mapping[int, float]]

    @property
    def title(self) -> str:
        """Its name for people."""
        name, comma, how = self.number.partition(", ")
        return f"{HEADS.get(name, name.replace('_', ' '))}{comma}{how}"

    @property
    def slug(self) -> str:
        """Its name in a file's name: letters, digits, and hyphens."""
        return "-".join("".join(letter if letter.isalnum() else " " for letter in self.number).split())


def flatness_blocks(table: StudyTable, say: Say = nobody) -> list[FlatnessBlock]:
    """Return every number that is kept beside the reported runs, measured as the study says."""
    measurements = table.study.report.measured()
    if not measurements:
        return []
    found: dict[str, dict[Key, dict[int, float]]] = {}
    for key, runs in table.runs.items():
        for seed, path in runs.items():
            if seed not in table.entries[key].values:
                # It diverged: what the model has come to says nothing.
                continue
            try:
                directory = RunDirectory.open(path)
                for name, measurement in zip(names_of(measurements), measurements, strict=True):
                    result = kept_result(directory, measurement, table.study.report.flatness_samples)
                    for number, value in ({} if result is None else result.numbers).items():
                        if number not in HIDDEN:
                            found.setdefault(row_name(number, name), {}).setdefault(key, {})[seed] = value
            except FlatfedError as error:
                say(f"{path}: {error}")
    return [FlatnessBlock(number, values) for number, values in found.items()]


def flatness_pivot(table: StudyTable, block: FlatnessBlock) -> Pivot:
    """Return the table of one number; a mean is shown where all seeds were measured."""
    study = table.study
    seeds = ", ".join(map(str, study.seeds))
    over = f"mean ± sample standard deviation over seeds {seeds}" if len(study.seeds) > 1 else f"seed {seeds}"
    cells: dict[Key, PivotCell] = {}
    decimals = {}
    for setting in study.settings:
        own = study.methods_in(setting)
        spreads = {variant: spread_of_block(table, block, (setting, variant)) for variant in own}
        means = [spread[0] for spread in spreads.values() if spread is not None]
        order = sorted(set(means)) if block.number.partition(",")[0] in LOWER else []
        decimals[setting] = decimals_for(means, is_percent=False)
        for variant, spread in spreads.items():
            cells[variant, setting] = _cell(table, block, (setting, variant), spread, order)
    flatter = "; lower is flatter" if block.number.partition(",")[0] in LOWER else ""
    return Pivot(
        list(study.methods),
        list(study.settings),
        cells,
        f"{block.title} {_of(study)}",
        f"{block.title} {_of(study)}{flatter}; {over}.",
        f"tab:flatness-{block.slug}",
        decimals,
    )


def _of(study: Study) -> str:
    """Say what was measured."""
    samples = study.report.flatness_samples
    examples = "all training examples" if samples is None else f"{samples:,} training examples"
    return f"of the final models, over {examples}"


def spread_of_block(table: StudyTable, block: FlatnessBlock, key: Key) -> tuple[float, float | None] | None:
    """Return mean and deviation; None where a seed is missing, or its number is none."""
    values = list(block.values.get(key, {}).values())
    if len(values) < len(table.study.seeds) or not all(map(math.isfinite, values)):
        return None
    return spread_of(values)


def _cell(
    table: StudyTable, block: FlatnessBlock, key: Key, spread: tuple[float, float | None] | None, order: Sequence[float]
) -> PivotCell:
    if spread is None:
        entry = table.entries[key]
        measured = len(block.values.get(key, {}))
        return PivotCell(has_diverged=entry.has_diverged, remark=f"{measured} of {len(table.study.seeds)} seeds")
    mean, deviation = spread
    return PivotCell(mean, deviation, mean in order[:1], mean in order[1:2])


def flatness_markdown(table: StudyTable, blocks: Sequence[FlatnessBlock]) -> str:
    """Return all tables as Markdown, one below the other."""
    return "\n".join(pivot_markdown(flatness_pivot(table, block)) for block in blocks)


def flatness_latex(table: StudyTable, blocks: Sequence[FlatnessBlock]) -> str:
    """Return all tables as LaTeX."""
    return "\n".join(pivot_latex(flatness_pivot(table, block)) for block in blocks)


def flatness_records(table: StudyTable, blocks: Sequence[FlatnessBlock]) -> list[dict[str, Any]]:
    """Return one record for each number, setting and method, with each seed's value."""
    records = []
    for block in blocks:
        for key in table.entries:
            spread = spread_of_block(table, block, key) or (None, None)
            own = block.values.get(key, {})
            records.append(
                {
                    "number": block.number,
                    "setting": setting_name(key[0]),
                    "method": key[1],
                    "mean": spread[0],
                    "std": spread[1],
                    "seeds": {str(seed): value if math.isfinite(value) else None for seed, value in own.items()},
                }
            )
    return records


def flatness_csv(table: StudyTable, blocks: Sequence[FlatnessBlock]) -> str:
    """Return the same as CSV, a line for each seed."""
    lines = []
    for record in flatness_records(table, blocks):
        names = {name: record[name] for name in ("number", "setting", "method")}
        lines += [names | {"seed": seed, "value": value} for seed, value in record["seeds"].items()]
    return csv_text(["number", "setting", "method", "seed", "value"], lines)
