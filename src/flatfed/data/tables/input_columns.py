"""Columns of features: numbers are scaled, categories become a 1 among zeros."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import ConfigError
from flatfed.data.tables.number_cells import Decimal, require_numbers
from flatfed.data.tables.text_columns import TextColumns, is_missing

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class QuantityColumn:
    """A column of numbers: a model takes `(x - mean) / std`.

    Args:
        name: the column.
        mean: what is taken off.
        std: what the rest is divided by.
        fill: the number that stands for a missing one, in the file's own unit; None where it is refused.
    """

    name: str
    mean: float = 0.0
    std: float = 1.0
    fill: float | None = None

    width = 1

    @property
    def names(self) -> list[str]:
        """The name of its input."""
        return [self.name]

    def encoded(self, table: TextColumns, decimal: Decimal) -> Floats:
        """Return the inputs, N x 1: computed in double precision, then rounded."""
        values = require_numbers(table, self.name, decimal)
        missing = np.isnan(values)
        if missing.any():
            if self.fill is None:
                raise refused(table, self.name, np.flatnonzero(missing))
            values = np.where(missing, self.fill, values)
        with np.errstate(over="ignore"):
            single = ((values - self.mean) / self.std).astype(np.float32)
        beyond = np.flatnonzero(~np.isfinite(single))
        if len(beyond):
            cell = table.cells[self.name][beyond[0]]
            raise table.wrong(int(beyond[0]), f"the column {self.name!r} holds {cell[:40]!r}, too large for float32")
        return single[:, None]

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return {"kind": "number", **asdict(self)}


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories: an input for each value that training rows have; another value is none of them.

    Args:
        name: the column.
        values: the values, in the order of their inputs.
        missing: `own` where missing cells have an input of their own, `none` where they are none of the values, and
            `refuse`.
    """

    name: str
    values: tuple[str, ...]
    missing: str = "refuse"

    @property
    def width(self) -> int:
        """The number of its inputs."""
        return len(self.values) + (self.missing == "own")

    @property
    def names(self) -> list[str]:
        """The names of its inputs."""
        own = [f"{self.name} missing"] if self.missing == "own" else []
        return [*(f"{self.name}={value}" for value in self.values), *own]

    def encoded(self, table: TextColumns, decimal: Decimal) -> Floats:
        """Return the inputs, N x width."""
        cells = table.cells[self.name]
        absent = [row for row, cell in enumerate(cells) if is_missing(cell)]
        if absent and self.missing == "refuse":
            raise refused(table, self.name, np.array(absent))
        places = {value: place for place, value in enumerate(self.values)}
        # What has no place of its own has one beyond the last, which is cut off.
        numbers = np.fromiter((places.get(cell, self.width) for cell in cells), np.int64, len(cells))
        numbers[absent] = len(self.values)
        inputs = np.zeros((len(cells), self.width + 1), np.float32)
        inputs[np.arange(len(cells)), numbers] = 1.0
        return inputs[:, : self.width]

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return {"kind": "category", **asdict(self), "values": list(self.values)}


InputColumn = QuantityColumn | CategoryColumn


def refused(table: TextColumns, name: str, rows: npt.NDArray[np.int64]) -> ConfigError:
    """Return the error that cells of a column are missing."""
    more = "" if len(rows) == 1 else f", as are {len(rows) - 1:,} more cells of this column"
    return table.wrong(
        int(rows[0]),
        f"the column {name!r} is empty{more}; fill it in, or say with data.missing what to put there: mean, median or "
        "a number (an empty category then counts as a category of its own)",
    )


def column_from(record: Any) -> InputColumn:
    """Undo `to_dict` of a column."""
    name = _text(record["name"])
    if record["kind"] == "number":
        fill = record.get("fill")
        std = real(record["std"])
        if std <= 0:
            raise ConfigError(f"the std of the column {name!r:.60} must be greater than 0")
        return QuantityColumn(name, real(record["mean"]), std, None if fill is None else real(fill))
    if record["kind"] != "category":
        raise ConfigError(f"a column's kind is number or category, not {record['kind']!r:.40}")
    values = tuple(map(_text, record["values"]))
    missing = record.get("missing", "refuse")
    if missing not in ("refuse", "none", "own") or not values or len(set(values)) < len(values):
        raise ConfigError(f"the column {name!r:.60} needs different values, and for missing refuse, none or own")
    return CategoryColumn(name, values, missing)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"names and values are texts, not {value!r:.40}")
    return value


def real(value: Any) -> float:
    """Return a number of a record, which must have an end."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{value!r:.40} is no number")
    return float(value)
