"""The column that a model learns to predict: classes, or a quantity that is learnt in standard units."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from flatfed.core.errors import ConfigError, nearest
from flatfed.data.tables.input_columns import real
from flatfed.data.tables.number_cells import Decimal, require_numbers
from flatfed.data.tables.text_columns import TextColumns

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ClassTarget:
    """Classes by name, in the order of a model's scores."""

    name: str
    classes: tuple[str, ...]

    def numbers(self, table: TextColumns) -> Ints:
        """Return the class of each row; a label that is none of them names its line."""
        places = {name: number for number, name in enumerate(self.classes)}
        cells = table.cells[self.name]
        numbers = np.fromiter((places.get(cell, -1) for cell in cells), np.int64, len(cells))
        unknown = np.flatnonzero(numbers < 0)
        if len(unknown):
            row = int(unknown[0])
            raise table.wrong(row, nearest(cells[row][:40], self.classes, f"class of the column {self.name!r}:"))
        return numbers

    def meant(self, scores: Tensor) -> list[str]:
        """Return the name of the class with the largest score of each row."""
        if scores.ndim != 2 or scores.shape[1] != len(self.classes):
            raise ConfigError(f"scores must be N x {len(self.classes)}, not {tuple(scores.shape)}")
        return [self.classes[number] for number in scores.argmax(dim=1).tolist()]

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return {"kind": "classes", "name": self.name, "classes": list(self.classes)}


@dataclass(frozen=True)
class NumberTarget:
    """A quantity: a model learns `(y - mean) / std`, and metrics are in the unit of y."""

    name: str
    mean: float = 0.0
    std: float = 1.0

    def standardised(self, table: TextColumns, decimal: Decimal) -> Floats:
        """Return what is learnt of each row, N x 1: computed in double precision, then rounded."""
        values = require_numbers(table, self.name, decimal)
        with np.errstate(over="ignore"):
            single = ((values - self.mean) / self.std).astype(np.float32)
        beyond = np.flatnonzero(~np.isfinite(single))
        if len(beyond):
            cell = table.cells[self.name][beyond[0]]
            raise table.wrong(int(beyond[0]), f"the target {self.name!r} is {cell[:40]!r}, too large for float32")
        return single[:, None]

    def meant(self, scores: Tensor) -> list[float]:
        """Return the quantities that outputs stand for, in their own unit."""
        values: list[float] = (scores.reshape(len(scores)).double() * self.std + self.mean).tolist()
        return values

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return {"kind": "number", **asdict(self)}


TargetColumn = ClassTarget | NumberTarget


def target_from(record: Any) -> TargetColumn:
    """Undo `to_dict` of a target."""
    name = str(record["name"])
    if record["kind"] == "number":
        std = real(record["std"])
        if std <= 0:
            raise ConfigError("the std of the target must be greater than 0")
        return NumberTarget(name, real(record["mean"]), std)
    if record["kind"] != "classes":
        raise ConfigError(f"a target's kind is classes or number, not {record['kind']!r:.40}")
    classes = tuple(map(str, record["classes"]))
    if len(classes) < 2 or len(set(classes)) < len(classes):
        raise ConfigError("the target needs two different classes or more")
    return ClassTarget(name, classes)
