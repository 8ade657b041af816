"""The figures of a study's report: curves over costs, values against a parameter, and mean ranks."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flatfed.core.errors import nearest
from flatfed.reports.curves import drawable
from flatfed.reports.figures.comparisons.cost_curves import draw_cost_curves
from flatfed.reports.figures.comparisons.parameter_lines import ParameterLine, draw_parameter_lines
from flatfed.reports.figures.comparisons.rank_plot import RankedMethods, draw_ranks
from flatfed.reports.figures.drawing.writing import ENDINGS, PictureFiles
from flatfed.reports.results.result import Result
from flatfed.reports.statistics.ranks import ALPHA, Ranking, indistinct_groups
from flatfed.studies.reporting.study_flatness import FlatnessBlock
from flatfed.studies.reporting.study_runs import Say, StudyResults, setting_name
from flatfed.studies.results import StudyTable
from flatfed.studies.study import FORBIDDEN, METHODS, ONLY, Options, Study

LONGEST_REST = 120
"""Bytes of what settings share, in a file's name: systems take 255 with what stands before and behind."""
FEWEST_RANKED = 3
"""Methods below which a plot of ranks shows nothing that a table does not."""


def both(path: Path) -> list[Path]:
    """Return the two files of a figure: for the screen and for a paper."""
    return PictureFiles(path.parent, endings=ENDINGS).of(path.name)


# Curves.


def draw_study_curves(table: StudyTable, results: StudyResults, folder: Path, say: Say) -> list[Path]:
    """Draw the columns of each setting into `SETTING/COLUMN.png`, and return the files."""
    files: list[Path] = []
    for setting, found in results.items():
        if not found:
            continue
        for name in _columns(table, setting, found, say):
            own = both(folder / setting_name(setting) / name)
            own[0].parent.mkdir(parents=True, exist_ok=True)
            draw_cost_curves(found, own, name, setting)
            files += own
    return files


def _columns(table: StudyTable, setting: str, results: Sequence[Result], say: Say) -> Iterator[str]:
    """Yield the columns that are drawn; one that the histories of a setting do not have is said."""
    known = drawable(results)
    metric = table.metrics.get(setting)
    asked = table.study.report.curves or (() if metric is None else (metric.column,))
    for name in asked:
        # People say `accuracy` for that of the test set.
        column = name if name in known else f"test_{name}"
        if column in known:
            yield column
        else:
            say(f"curves of {setting_name(setting)}: {nearest(name, known, 'column of its histories')}")


# Values against a parameter.


def draw_against(
    table: StudyTable, blocks: Sequence[FlatnessBlock], folder: Path, parameter: str, say: Say
) -> list[Path]:
    """Draw the reported value, and each number that was measured, against a parameter; return the files.

    Settings that differ in something else too have figures of their own.
    """
    files: list[Path] = []
    for name, settings in _alike(table.study, parameter).items():
        drawn = {setting: table.metrics[setting] for setting in settings.values() if setting in table.metrics}
        if not drawn:
            continue
        metric = next(iter(drawn.values()))
        reported = {
            key: [metric.scale * value for value in entry.values.values()]
            + [math.nan for state in entry.ended.values() if state == "diverged"]
            for key, entry in table.entries.items()
        }
        numbers: dict[str, tuple[str, Mapping[tuple[str, str], Sequence[float]]]] = {
            metric.column: (metric.axis, reported)
        }
        numbers |= {
            block.slug: (block.title, {key: list(values.values()) for key, values in block.values.items()})
            for block in blocks
        }
        for column, (axis, values) in numbers.items():
            own = both(folder / ", ".join(filter(None, (column, name))))
            lines = _lines(table.study, settings, values)
            if not lines:
                say(f"against {parameter}: there is no {column} to draw")
                continue
            folder.mkdir(parents=True, exist_ok=True)
            draw_parameter_lines(lines, own, parameter.replace("_", " "), axis, name)
            files += own
    return files


def _lines(
    study: Study, settings: Mapping[float, str], values: Mapping[tuple[str, str], Sequence[float]]
) -> list[ParameterLine]:
    lines = []
    for variant in study.methods:
        own = {x: values.get((setting, variant), ()) for x, setting in settings.items()}
        known = {x: numbers for x, numbers in own.items() if numbers}
        # Also one without a number: each method has its colour in all figures.
        lines.append(ParameterLine(variant, known))
    return lines if any(line.values for line in lines) else []


def _alike(study: Study, parameter: str) -> dict[str, dict[float, str]]:
    """Return settings by the parameter's value, those together that differ in nothing else; by what they share."""
    groups: dict[str, dict[float, str]] = {}
    for setting, options in study.settings.items():
        value = study.number_of(setting, parameter)
        if value is not None:
            groups.setdefault(_rest(options, parameter), {}).setdefault(value, setting)
    if len(groups) == 1:
        return {"": next(iter(groups.values()))}
    # A single setting is no line.
    return {name: group for name, group in groups.items() if len(group) > 1}


def _rest(options: Options, parameter: str) -> str:
    """Return what a setting says besides the parameter, as a part of a file's name."""
    # What single methods have there is theirs: the setting is the same for the others.
    flat: dict[str, Any] = {name: value for name, value in options.items() if name not in (METHODS, ONLY)}
    given = flat.pop("set", None)
    if isinstance(given, Mapping):
        flat |= {str(name).rpartition(":")[2]: value for name, value in given.items()}
    plain = {name.replace("-", "_"): value for name, value in flat.items()}
    rest = {name: value for name, value in plain.items() if name != parameter.replace("-", "_")}
    text = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in rest.items())
    allowed = "".join(letter for letter in text if letter not in FORBIDDEN and letter.isprintable())
    short = allowed.encode()[:LONGEST_REST].decode(errors="ignore")
    if short == text:
        return text
    # Two settings that differ in what is left out are not the same.
    return f"{short} {hashlib.sha256(text.encode()).hexdigest()[:8]}"


# Ranks.


def draw_study_ranks(ranking: Ranking | None, files: Sequence[Path], title: str) -> list[Path]:
    """Draw mean ranks over settings with the critical difference, where there are enough methods and settings."""
    if ranking is None or ranking.critical_difference is None or len(ranking.mean_ranks) < FEWEST_RANKED:
        return []
    ranked = RankedMethods(ranking.mean_ranks, ranking.critical_difference, _groups(ranking))
    draw_ranks(ranked, files, _note(ranking), title)
    return list(files)


def _groups(ranking: Ranking) -> list[list[str]]:
    """Return the methods that are not separated: all, where Friedman's test finds no difference at all."""
    if _finds_nothing(ranking):
        return [list(ranking.mean_ranks)]
    return indistinct_groups(ranking)


def _finds_nothing(ranking: Ranking) -> bool:
    return ranking.friedman is not None and not ranking.friedman.p <= ALPHA


def _note(ranking: Ranking) -> str:
    sentences = [f"Over {len(ranking.settings)} settings; 1 is the best."]
    if _finds_nothing(ranking):
        sentences.append("Friedman's test finds no difference, so one bar joins all.")
    else:
        sentences.append("A bar joins methods that Nemenyi's test does not separate.")
    return " ".join(filter(None, [*sentences, ranking.remark]))
