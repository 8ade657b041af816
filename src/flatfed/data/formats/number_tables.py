"""Tables of numbers: CSV files whose first row names the columns; an error names the file and the line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import ConfigError, nearest
from flatfed.data.formats.client_tables import ClientTable, read_table
from flatfed.data.formats.texts import Row, read_rows

MISSING = ("", "na", "n/a", "nan", "null", "none", "?")
"""What a cell holds where nobody knows the number; capitals or not."""

SCALING = ("column", "mean", "std")

Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Scaling:
    """The mean and the standard deviation of each column, as all agreed on them."""

    path: Path
    means: dict[str, float]
    deviations: dict[str, float]

    @classmethod
    def read(cls, path: Path) -> Scaling:
        """Read a table column,mean,std."""
        table = read_table(path, SCALING)
        names = table.column("column")
        table.check_single(names, "the column")
        means = table.read("mean", _agreed_number)
        deviations = table.read("std", _agreed_deviation)
        return cls(path, dict(zip(names, means, strict=True)), dict(zip(names, deviations, strict=True)))

    def check(self, columns: Sequence[str]) -> None:
        """Refuse columns that the file does not name."""
        for name in columns:
            if name not in self.means:
                raise ConfigError(f"{self.path} has no row for the column {name!r}; add one, or leave the column out")

    def applied(self, name: str, values: Doubles) -> Doubles:
        """Return `(x - mean) / std` of a column."""
        with np.errstate(over="ignore"):
            scaled: Doubles = (values - self.means[name]) / self.deviations[name]
        return scaled


@dataclass(frozen=True)
class NumberTable(ClientTable):
    """A table all of whose columns are known by name; which of them are numbers is the reader's to say."""

    header: Row

    @classmethod
    def open(cls, path: Path, delimiter: str = ",") -> NumberTable:
        """Read a CSV file; each column must have a name of its own."""
        header, *rows = read_rows(path, delimiter=delimiter)
        names = [name.strip() for name in header.fields]
        _check_names(header, names)
        if not rows:
            raise ConfigError(f"{path} has a header and no rows")
        return cls(path, rows, {name: place for place, name in enumerate(names)}, header)

    def check_column(self, name: str) -> None:
        """Refuse a column that is not there."""
        if name in self:
            return
        if len(self.places) == 1:
            raise self.header.wrong(f"no column {name!r}; the first line must name the columns, separated by commas")
        raise self.header.wrong(nearest(name[:40], self.places, "column"))

    def contents(self) -> list[str]:
        """Return each row as one text, the same in whatever order rows and columns stand."""
        places = [place for _, place in sorted(self.places.items())]
        # As Python would write a list of them: no cell can look like two.
        return [str([row.fields[place].strip() for place in places]) for row in self.rows]

    def features(self, columns: Sequence[str], scaling: Scaling | None, missing: float | str | None) -> Floats:
        """Return the numbers of some columns, N x F.

        `scaling` is applied in double precision. `missing` stands for cells without a number: a number in the file's
        own units, the agreed mean (`"mean"`), or None where such a cell is an error.
        """
        features = np.empty((len(self.rows), len(columns)), np.float32)
        for number, name in enumerate(columns):
            features[:, number] = self._column(name, scaling, _stand_in(name, scaling, missing))
        return features

    def _column(self, name: str, scaling: Scaling | None, stand_in: float | None) -> Floats:
        place = self.places[name]
        values = np.array([_number(row, place, name, stand_in) for row in self.rows], np.float64)
        if scaling is not None:
            values = scaling.applied(name, values)
        with np.errstate(over="ignore"):
            single = values.astype(np.float32)
        self._check_finite(name, single)
        return single

    def _check_finite(self, name: str, values: Floats) -> None:
        """Refuse numbers beyond those of float32."""
        beyond = np.flatnonzero(~np.isfinite(values))
        if len(beyond):
            row = self.rows[beyond[0]]
            cell = row.fields[self.places[name]].strip()
            raise row.wrong(f"the column {name!r} holds {cell[:40]!r}, which is too large for float32")


def _check_names(header: Row, names: Sequence[str]) -> None:
    """Refuse columns without a name, and two of one name."""
    for number, name in enumerate(names, 1):
        if not name:
            raise header.wrong(f"column {number} has no name; name it, or write the file without it")
        if names.index(name) < number - 1:
            raise header.wrong(f"the column {name[:40]!r} is there twice")


def _stand_in(name: str, scaling: Scaling | None, missing: float | str | None) -> float | None:
    """Return what stands for a missing number of a column; None where nothing does."""
    if not isinstance(missing, str):
        return missing
    assert scaling is not None
    return scaling.means[name]


def _number(row: Row, place: int, name: str, stand_in: float | None) -> float:
    cell = row.fields[place].strip()
    if cell.lower() in MISSING:
        return _filled_in(row, name, stand_in)
    value = finite_number(cell)
    if value is None:
        raise row.wrong(
            f"the column {name!r} holds {cell[:40]!r}, which is not a number such as 12 or 0.5; correct it, or name "
            "the columns of numbers with data.columns"
        )
    return value


def _filled_in(row: Row, name: str, stand_in: float | None) -> float:
    if stand_in is None:
        raise row.wrong(
            f"the column {name!r} has no number; fill it in, remove the row, or say with data.missing what to put there"
        )
    return stand_in


def finite_number(text: str) -> float | None:
    """Return the number that a text spells with ASCII digits; None where it does not, or where it has no end."""
    # `float` alone admits 1_000, digits of other scripts, and words such as infinity.
    if not text.isascii() or "_" in text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _agreed_number(cell: str) -> float:
    value = finite_number(cell)
    if value is None:
        raise ConfigError(f"the mean must be a number, not {cell[:40]!r}")
    return value


def _agreed_deviation(cell: str) -> float:
    value = finite_number(cell)
    if value is None or value <= 0:
        raise ConfigError(f"the std must be a number greater than 0, not {cell[:40]!r}")
    return value
