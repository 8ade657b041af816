"""A CSV file as columns of text: the separator is found, and a row knows its line."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import ConfigError, nearest
from flatfed.data.formats.number_tables import MISSING
from flatfed.data.formats.texts import Row, read_rows

SEPARATORS = (",", ";", "\t", "|")
"""What may stand between columns where nobody says it; the first one that gives the column that is sought."""

MOST_SHARED = 256
"""Different cells of a column up to which equal ones share a text; numbers are more, and rarely equal."""

Mask = npt.NDArray[np.bool_]


def is_missing(cell: str) -> bool:
    """Say whether a cell holds nothing."""
    # Most cells are longer than any word for nothing.
    return len(cell) < 5 and cell.lower() in MISSING


@dataclass(frozen=True)
class TextColumns:
    """The cells below a header, column by column, without the spaces around them.

    Args:
        path: the file.
        cells: each column's cells by its name.
        lines: the line on which each row begins.
        separator: what stands between columns.
    """

    path: Path
    cells: dict[str, list[str]]
    lines: list[int]
    separator: str

    @classmethod
    def read(cls, path: Path, separator: str = "", sought: str = "") -> TextColumns:
        """Read a CSV file; without a separator it is the first under which there is a column called `sought`."""
        separator = separator or found_separator(path, sought)
        rows = read_rows(path, delimiter=separator)
        with contextlib.closing(rows):  # type: ignore[type-var]  # it is a generator
            header = next(rows)
            names = [name.strip() for name in header.fields]
            check_names(header, names)
            columns: list[list[str]] = [[] for _ in names]
            lines: list[int] = []
            # Equal cells share one text: a category's few words, not one for each row.
            known: list[dict[str, str]] = [{} for _ in names]
            for row in rows:
                lines.append(row.line)
                for column, words, field in zip(columns, known, row.fields, strict=True):
                    cell = field.strip()
                    column.append(words.setdefault(cell, cell) if len(words) < MOST_SHARED else cell)
        if not lines:
            raise ConfigError(f"{path} has a header and no rows")
        return cls(path, dict(zip(names, columns, strict=True)), lines, separator)

    def __contains__(self, column: str) -> bool:
        return column in self.cells

    def __len__(self) -> int:
        return len(self.lines)

    def wrong(self, row: int, what: str) -> ConfigError:
        """Return the error that something is wrong with a row."""
        return ConfigError(f"{self.path}, line {self.lines[row]}: {what}")

    def check_column(self, name: str) -> None:
        """Refuse a column that is not there."""
        if name in self:
            return
        if len(self.cells) == 1:
            raise ConfigError(
                f"{self.path}, line 1: no column {name!r}; the first line must name the columns, separated by commas, "
                "semicolons or tabs (data.delimiter)"
            )
        raise ConfigError(f"{self.path}, line 1: {nearest(name[:40], self.cells, 'column')}")

    def missing(self, name: str) -> Mask:
        """Return where a column holds nothing."""
        return np.fromiter(map(is_missing, self.cells[name]), bool, len(self))

    def where(self, chosen: Mask) -> TextColumns:
        """Return some of the rows."""
        places = np.flatnonzero(chosen).tolist()
        cells = {name: [column[place] for place in places] for name, column in self.cells.items()}
        return TextColumns(self.path, cells, [self.lines[place] for place in places], self.separator)

    def contents(self) -> list[str]:
        """Return each row as one text, the same in whatever order rows and columns stand."""
        columns = [self.cells[name] for name in sorted(self.cells)]
        # As Python would write a list of them: no cell can look like two.
        return [str(list(row)) for row in zip(*columns, strict=True)]


def check_names(header: Row, names: Sequence[str]) -> None:
    """Refuse columns without a name, and two of one name."""
    for number, name in enumerate(names, 1):
        if not name:
            raise header.wrong(f"column {number} has no name; name it, or write the file without it")
        if names.index(name) < number - 1:
            raise header.wrong(f"the column {name[:40]!r} is there twice")


def found_separator(path: Path, sought: str) -> str:
    """Return the first of the usual separators under which a file has a column; a comma where none has it."""
    for separator in SEPARATORS:
        with contextlib.suppress(ConfigError):
            rows = read_rows(path, delimiter=separator)
            with contextlib.closing(rows):  # type: ignore[type-var]  # it is a generator
                if sought in map(str.strip, next(rows).fields):
                    return separator
    return SEPARATORS[0]
