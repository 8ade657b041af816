"""What training rows teach about a table: which columns are numbers or categories, their scales, values and fills."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import ConfigError
from flatfed.data.formats.client_tables import in_order
from flatfed.data.tables.input_columns import CategoryColumn, InputColumn, QuantityColumn
from flatfed.data.tables.number_cells import Decimal, check_unmixed, numbers_of
from flatfed.data.tables.target_columns import ClassTarget, NumberTarget
from flatfed.data.tables.text_columns import Mask, TextColumns, is_missing

Kind = Literal["auto", "classification", "regression"]
Doubles = npt.NDArray[np.float64]

MOST_WHOLE = 20
"""Different whole numbers of a target, at most, that are taken for classes."""
FEWEST_NUMBERED = 20
"""Rows from which on a column of whole numbers in sequence is taken for the number of a row."""
DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([ T].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}.*|\d{4}/\d{1,2}/\d{1,2}.*")


@dataclass(frozen=True)
class FittingRules:
    """How features are found and treated.

    Args:
        categories: columns that are categories whatever they hold.
        most_values: values of a category, at most, unless it is named.
        missing: `refuse`, `mean`, `median`, or the number that stands for a missing one.
        scaled: whether numbers are scaled.
        asked: columns that were asked for by name, which may then look like an id.
    """

    categories: frozenset[str] = frozenset()
    most_values: int = 100
    missing: str | float = "refuse"
    scaled: bool = True
    asked: frozenset[str] = frozenset()


def moments(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation (of the population), exact sums: in whatever order values stand."""
    count = len(values)
    mean = math.fsum(values) / count
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / count)


def fitted_columns(
    table: TextColumns, names: Sequence[str], training: Mask, decimal: Decimal, rules: FittingRules
) -> tuple[InputColumn, ...]:
    """Return the columns of features as the training rows have them; one that is the same everywhere is left out."""
    columns = [_fitted(table, name, training, decimal, rules) for name in names]
    kept = tuple(column for column in columns if column is not None)
    if not kept:
        raise ConfigError(f"{table.path}: no column of features differs between training rows")
    return kept


def _fitted(table: TextColumns, name: str, training: Mask, decimal: Decimal, rules: FittingRules) -> InputColumn | None:
    cells = table.cells[name]
    if name in rules.categories:
        return _category(table, name, training, rules)
    values = numbers_of(cells, decimal)
    if values is None:
        check_unmixed(table, name, decimal)
        return _category(table, name, training, rules)
    if name not in rules.asked:
        _refuse_row_number(table, name, values)
    return _number(table, name, values[training], rules)


def _number(table: TextColumns, name: str, values: Doubles, rules: FittingRules) -> QuantityColumn | None:
    """Return a column of numbers by its training rows; None where all are equal."""
    filled = values[~np.isnan(values)].tolist()
    if not filled:
        raise ConfigError(
            f"{table.path}: no training row has a number in the column {name!r}; leave it out: data.drop={name}"
        )
    if min(filled) == max(filled):
        return None
    fill = _fill(filled, rules.missing)
    mean, std = moments(filled) if rules.scaled else (0.0, 1.0)
    if not math.isfinite(std) or std <= 0:
        raise ConfigError(f"{table.path}: the numbers of the column {name!r} are too large or too close to be scaled")
    return QuantityColumn(name, mean, std, fill)


def _fill(values: Sequence[float], missing: str | float) -> float | None:
    if missing == "refuse":
        return None
    if missing == "mean":
        return math.fsum(values) / len(values)
    if missing == "median":
        return statistics.median(values)
    return float(missing)


def _category(table: TextColumns, name: str, training: Mask, rules: FittingRules) -> CategoryColumn | None:
    """Return a column of categories by its training rows; None where all are equal."""
    cells = [cell for cell, used in zip(table.cells[name], training.tolist(), strict=True) if used]
    present = {cell for cell in cells if not is_missing(cell)}
    has_missing = any(map(is_missing, set(cells)))
    if present and name not in rules.categories:
        _refuse_no_category(table, name, present, len(cells), rules.most_values)
    missing = _missing_category(rules.missing, has_missing)
    if not present or (len(present) == 1 and missing != "own"):
        return None
    return CategoryColumn(name, tuple(in_order(sorted(present))), missing)


def _missing_category(rule: str | float, has_missing: bool) -> str:
    if rule == "refuse":
        return "refuse"
    return "own" if has_missing else "none"


def _refuse_no_category(table: TextColumns, name: str, values: set[str], rows: int, most: int) -> None:
    """Refuse words that are dates, or too many: they name rows rather than kinds of rows."""
    example = sorted(values)[0][:40]
    if all(map(DATE.fullmatch, values)):
        raise ConfigError(
            f"{table.path}: the column {name!r} holds dates such as {example!r}; write them as numbers (days, years), "
            f"or leave the column out: data.drop={name}"
        )
    if len(values) > most or len(values) > max(MOST_WHOLE, rows // 2):
        raise ConfigError(
            f"{table.path}: the column {name!r} holds {len(values):,} different words in {rows:,} training rows, such "
            f"as {example!r}; leave it out if it is an id or a text: data.drop={name}, or name it in data.categories"
        )


def _refuse_row_number(table: TextColumns, name: str, values: Doubles) -> None:
    """Refuse whole numbers that count the rows: they would tell a model where a row stands, and nothing else."""
    count = len(values)
    if count < FEWEST_NUMBERED or np.isnan(values).any() or not np.equal(np.mod(values, 1), 0).all():
        return
    is_sequence = values.max() - values.min() == count - 1 and len(np.unique(values)) == count
    is_id = name.lower().replace("-", "_").endswith(("_id", "id_")) or name.lower() == "id" or name.endswith("ID")
    if is_sequence or (is_id and len(np.unique(values)) == count):
        raise ConfigError(
            f"{table.path}: the column {name!r} has another whole number in each row and looks like an id; leave it "
            f"out: data.drop={name}, or name it in data.columns if it is a quantity"
        )


# --- the target -----------------------------------------------------------------------------------------------


def target_kind(cells: Sequence[str], decimal: Decimal, asked: Kind) -> Kind:
    """Return whether a target is classes or a quantity: numbers with decimals, or many whole ones, are a quantity."""
    if asked != "auto":
        return asked
    values = numbers_of(cells, decimal)
    if values is None:
        return "classification"
    different = np.unique(values)
    is_whole = bool(np.equal(np.mod(different, 1), 0).all())
    return "classification" if is_whole and len(different) <= MOST_WHOLE else "regression"


def class_target(table: TextColumns, name: str, training: Mask | None, names: Sequence[str]) -> ClassTarget:
    """Return the classes: those that are named, or the training rows' in order; without a split, all rows'."""
    if names:
        return ClassTarget(name, tuple(names))
    cells = table.cells[name]
    used = (
        cells if training is None else [cell for cell, chosen in zip(cells, training.tolist(), strict=True) if chosen]
    )
    order = in_order(used)
    if len(order) < 2:
        raise ConfigError(
            f"{table.path}: all training rows have {order[0][:40]!r} in the column {name!r}; where others have more "
            "classes, name all with data.class_names"
        )
    if len(order) > max(MOST_WHOLE, len(used) // 2):
        raise ConfigError(
            f"{table.path}: the column {name!r} holds {len(order):,} different words in {len(used):,} rows, which are "
            "no classes; choose another data.target"
        )
    return ClassTarget(name, tuple(order))


def number_target(table: TextColumns, name: str, values: Doubles) -> NumberTarget:
    """Return the quantity as training rows have it."""
    mean, std = moments(values.tolist())
    if not math.isfinite(std) or std <= 0:
        raise ConfigError(f"{table.path}: all training rows have the same target {name!r}; there is nothing to learn")
    return NumberTarget(name, mean, std)
