"""How the rows of a table become a model's inputs, and its outputs classes or quantities: a small record for JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.data.formats.files import read_text
from flatfed.data.tables.input_columns import CategoryColumn, InputColumn, QuantityColumn, column_from
from flatfed.data.tables.number_cells import Decimal
from flatfed.data.tables.target_columns import ClassTarget, NumberTarget, TargetColumn, target_from
from flatfed.data.tables.text_columns import TextColumns

VERSION = 1
KEY = "preprocessing"
"""Where the configuration of a run has it."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Preprocessing:
    """What training rows have taught about a table, so that other rows are treated alike.

    Args:
        columns: the features in their order: numbers with mean, deviation and what stands for a missing one;
            categories with their values.
        target: the classes by name, or the mean and the deviation of a quantity.
        decimal: the decimal sign of the file, `point` or `comma`.
    """

    columns: tuple[InputColumn, ...]
    target: TargetColumn
    decimal: Decimal = "point"

    @property
    def width(self) -> int:
        """The number of a model's inputs."""
        return sum(column.width for column in self.columns)

    @property
    def names(self) -> list[str]:
        """The name of each input: `age`, `sex=f`, `sex=m`."""
        return [name for column in self.columns for name in column.names]

    def encoded(self, table: TextColumns) -> Floats:
        """Return the inputs of the rows of a table, N x width; a cell that cannot be used names its line."""
        for column in self.columns:
            table.check_column(column.name)
        inputs = np.empty((len(table), self.width), np.float32)
        start = 0
        for column in self.columns:
            inputs[:, start : start + column.width] = column.encoded(table, self.decimal)
            start += column.width
        return inputs

    def read(self, path: str | Path, delimiter: str = "") -> Tensor:
        """Return the inputs of the rows of a CSV file; it need not have the target."""
        table = TextColumns.read(Path(path), delimiter, self.columns[0].name)
        return torch.from_numpy(self.encoded(table))

    def inputs(self, rows: Sequence[Mapping[str, Any]]) -> Tensor:
        """Return the inputs of rows, each a mapping from columns to values; None and nothing are missing values."""
        names = [column.name for column in self.columns]
        cells = {name: [self._cell(row.get(name)) for row in rows] for name in names}
        table = TextColumns(Path("rows"), cells, list(range(1, len(rows) + 1)), "")
        return torch.from_numpy(self.encoded(table))

    def _cell(self, value: Any) -> str:
        if value is None or value != value:  # NaN alone differs from itself
            return ""
        if isinstance(value, float):
            text = str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
            return text if self.decimal == "point" else text.replace(".", ",")
        return str(value).strip()

    def outputs(self, scores: Tensor) -> list[str] | list[float]:
        """Return what a model's outputs mean: for each row the name of a class, or a quantity in its own unit."""
        return self.target.meant(scores)

    # --- as a file --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return {
            "version": VERSION,
            "decimal": self.decimal,
            "columns": [column.to_dict() for column in self.columns],
            "target": self.target.to_dict(),
        }

    @classmethod
    def from_dict(cls, record: Any, where: str = KEY) -> Preprocessing:
        """Undo `to_dict`; what is wrong with a record is an error that names `where` it comes from."""
        try:
            return cls._from(record)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, ConfigError):
                raise error.within(where) from None
            raise ConfigError(f"{where} is no record of preprocessing ({type(error).__name__}: {error})") from None

    @classmethod
    def _from(cls, record: Any) -> Preprocessing:
        if record["version"] != VERSION:
            raise ConfigError(f"it has version {record['version']!r}; this flatfed reads {VERSION}")
        if record["decimal"] not in ("point", "comma"):
            raise ConfigError(f"decimal must be point or comma, not {record['decimal']!r:.40}")
        columns = tuple(map(column_from, record["columns"]))
        names = [column.name for column in columns]
        if not names or len(set(names)) < len(names):
            raise ConfigError("it must name its columns, each once")
        return cls(columns, target_from(record["target"]), record["decimal"])

    def save(self, path: str | Path) -> None:
        """Write it as a JSON file, which `data.preprocessing` takes."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Preprocessing:
        """Read a file that `save` wrote, or take it from a run directory."""
        path = Path(path)
        file = path / "config.json" if path.is_dir() else path
        try:
            record = json.loads(read_text(file))
        except (ValueError, RecursionError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"{file} is no JSON file: {error}") from None
        if not path.is_dir():
            return cls.from_dict(record, str(file))
        if not isinstance(record, dict) or KEY not in record:
            raise ConfigError(f"{path} holds no preprocessing; its run was not trained on a table with data.target")
        return cls.from_dict(record[KEY], str(file))


__all__ = ["KEY", "CategoryColumn", "ClassTarget", "NumberTarget", "Preprocessing", "QuantityColumn"]
