"""A table with a column to predict, read as it comes: what turns rows into inputs is learnt from training rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flatfed.core.errors import PARAMETER, ConfigError
from flatfed.core.task.examples import TensorExamples
from flatfed.core.task.token_metrics import Regression
from flatfed.data.formats.client_tables import Ints, in_order, numbered
from flatfed.data.formats.number_tables import finite_number
from flatfed.data.formats.texts import separator_of
from flatfed.data.storage.held_out import Mask
from flatfed.data.storage.new_inputs import FileReading, NewInputs, of_tensor
from flatfed.data.storage.pool import Pool
from flatfed.data.tables.fitting import (
    FittingRules,
    Kind,
    class_target,
    fitted_columns,
    number_target,
    target_kind,
)
from flatfed.data.tables.number_cells import DecimalOption, decimal_of, require_numbers
from flatfed.data.tables.preprocessing import ClassTarget, NumberTarget, Preprocessing
from flatfed.data.tables.regression import squared_error
from flatfed.data.tables.splits import keyed_test, named_training
from flatfed.data.tables.text_columns import TextColumns

NAME = "table"
USUAL_SPLIT = "split"
SCALED, UNSCALED = "train", "none"
RULES = ("refuse", "mean", "median")
AUTO = "auto"


@dataclass(frozen=True)
class TableColumns:
    """What columns are: the target, whose a row is, the split, and which of the others are features."""

    target: str
    client: str
    split: str
    asked: list[str]
    dropped: list[str]
    categories: list[str]

    def found(self, table: TextColumns) -> TableColumns:
        """Return them as a table has them; the usual column of splits need not be there."""
        split = "" if self.split == USUAL_SPLIT and USUAL_SPLIT not in table else self.split
        found = TableColumns(self.target, self.client, split, self.asked, self.dropped, self.categories)
        roles = [name for name in (found.target, found.client, found.split) if name]
        for name in (*roles, *self.asked, *self.dropped, *self.categories):
            table.check_column(name)
        if len(set(roles)) < len(roles):
            raise ConfigError(f"{NAME}: target, client and split must be different columns, not {', '.join(roles)}")
        for name in (*self.asked, *self.categories):
            if name in roles or name in self.dropped:
                raise ConfigError(f"{NAME}: the column {name!r} is named as a feature and as something else")
        return found

    def features(self, table: TextColumns) -> list[str]:
        """Return the columns of features: those asked for, or all that are nothing else."""
        others = {self.target, self.client, self.split, *self.dropped}
        names = self.asked or [name for name in table.cells if name not in others]
        if not names:
            raise ConfigError(f"{table.path} has no column of features, only {', '.join(table.cells)}")
        return names


@dataclass(frozen=True)
class Fill:
    """How numbers are scaled, what stands for missing ones, and how many values a category may have."""

    scaling: str
    missing: object
    most_values: int

    def rules(self, columns: TableColumns) -> FittingRules:
        """Return the rules, checked."""
        if self.scaling not in ("", SCALED, UNSCALED):
            raise ConfigError(
                f"{NAME}: with data.target, {PARAMETER} is train or none; what all clients agreed on is given as "
                "data.preprocessing",
                parameter="data.scaling",
            )
        return FittingRules(
            frozenset(columns.categories),
            self.most_values,
            self._missing(),
            self.scaling != UNSCALED,
            frozenset(columns.asked),
        )

    def _missing(self) -> str | float:
        if self.missing in RULES:
            return str(self.missing)
        value = None if isinstance(self.missing, bool) else finite_number(str(self.missing))
        if value is None:
            raise ConfigError(
                f"{NAME}: {PARAMETER} must be refuse, mean, median or a number, not {self.missing!r:.40}",
                parameter="data.missing",
            )
        return value


def target_pool(
    path: Path,
    columns: TableColumns,
    fill: Fill,
    agreed: Path | None,
    *,
    kind: Kind,
    names: Sequence[str],
    test_share: float,
    drops: bool,
    delimiter: str,
    decimal: DecimalOption,
) -> Pool:
    """Return the rows of a table as a pool: inputs by the record that was `agreed` on, or by the training rows."""
    table = TextColumns.read(path, "" if delimiter == AUTO else separator_of(delimiter, NAME), columns.target)
    columns = columns.found(table)
    table = _usable(table, columns, drops)
    if agreed is not None:
        _refuse_beside_agreed(columns, fill, kind, names)
        record = Preprocessing.load(agreed)
        if record.target.name != columns.target:
            raise ConfigError(f"{agreed} is for the target {record.target.name!r:.60}, not {columns.target!r:.60}")
        training = _training(table, columns, record.target, test_share)
        return _pool(table, columns, record, training, is_estimated=False)
    sign = decimal_of(table, [*columns.features(table), columns.target], decimal)
    named = named_training(table, columns.split) if columns.split else None
    target: ClassTarget | NumberTarget
    if target_kind(table.cells[columns.target], sign, kind) == "classification":
        target = class_target(table, columns.target, named, names)
        training = _training(table, columns, target, test_share)
    else:
        values = require_numbers(table, columns.target, sign)
        training = _training(table, columns, None, test_share)
        target = number_target(table, columns.target, values[training])
    features = fitted_columns(table, columns.features(table), training, sign, fill.rules(columns))
    return _pool(table, columns, Preprocessing(features, target, sign), training, is_estimated=True)


def _usable(table: TextColumns, columns: TableColumns, drops: bool) -> TextColumns:
    """Return the rows that have a target and a client; others are refused, or dropped."""
    roles = {"target": columns.target, "client": columns.client}
    lacking = np.zeros(len(table), bool)
    for role, name in roles.items():
        if not name:
            continue
        missing = table.missing(name)
        if missing.any() and not drops:
            count = int(missing.sum())
            raise table.wrong(
                int(np.flatnonzero(missing)[0]),
                f"the {role} {name!r} is empty ({count:,} of {len(table):,} rows); fill it in, or leave such rows out "
                "with data.unusable=drop",
            )
        lacking |= missing
    if not lacking.any():
        return table
    if lacking.all():
        raise ConfigError(f"{table.path}: no row has a target and a client")
    return table.where(~lacking)


def _refuse_beside_agreed(columns: TableColumns, fill: Fill, kind: Kind, names: Sequence[str]) -> None:
    """Refuse options that the record has decided."""
    given = {
        "columns": columns.asked,
        "categories": columns.categories,
        "scaling": fill.scaling,
        "missing": fill.missing != RULES[0],
        "kind": kind != AUTO,
        "class_names": names,
    }
    for name, value in given.items():
        if value:
            raise ConfigError(
                f"{NAME}: data.preprocessing has decided {PARAMETER}; leave one of the two out",
                parameter=f"data.{name}",
            )


def _training(
    table: TextColumns, columns: TableColumns, target: ClassTarget | NumberTarget | None, share: float
) -> Mask:
    """Return which rows are trained on: as the column of splits says, or all but a share of each class."""
    labels = target.numbers(table) if isinstance(target, ClassTarget) else np.zeros(len(table), np.int64)
    if columns.split:
        return named_training(table, columns.split)
    return ~keyed_test(table.path, table.contents(), labels, _owners(table, columns.client), share)


def _owners(table: TextColumns, column: str) -> Ints | None:
    if not column:
        return None
    cells = table.cells[column]
    return numbered(cells, in_order(cells))


def _pool(table: TextColumns, columns: TableColumns, record: Preprocessing, training: Mask, is_estimated: bool) -> Pool:
    inputs = record.encoded(table)
    target = record.target
    more: dict[str, Any]
    targets: Any
    if isinstance(target, ClassTarget):
        targets = target.numbers(table)
        labels, classes = targets, len(target.classes)
        more = {"class_names": target.classes}
    else:
        targets = target.standardised(table, record.decimal)
        # A partition by class has one class to divide.
        labels, classes = np.zeros(len(table), np.int64), 1
        more = {"loss": squared_error, "metrics": Regression(target.std)}
    owners = _owners(table, columns.client)
    parts = [
        TensorExamples(torch.from_numpy(inputs[of]), torch.from_numpy(targets[of])) for of in (training, ~training)
    ]
    return Pool(
        name=NAME,
        train=parts[0],
        labels=torch.from_numpy(labels[training]),
        test=parts[1],
        classes=classes,
        facts={"in_features": record.width},
        default_model="mlp",
        groups={} if owners is None else {"client": torch.from_numpy(owners[training])},
        preprocessing=record.to_dict(),
        is_estimated=is_estimated,
        reader=RowReader(record),
        **more,
    )


@dataclass(frozen=True, eq=False)
class RowReader:
    """Reads rows of other files as those of the table were read; the target need not be there."""

    record: Preprocessing

    def open(self, files: Sequence[Path], how: FileReading) -> NewInputs:
        """Return the rows of all files."""
        tables = [TextColumns.read(file, "", self.record.columns[0].name) for file in files]
        inputs = [torch.from_numpy(self.record.encoded(table)) for table in tables]
        names = [f"{table.path}, line {line}" for table in tables for line in table.lines]
        return of_tensor(names, torch.cat(inputs), self._quantity())

    def _quantity(self) -> Callable[[float], float] | None:
        target = self.record.target
        if isinstance(target, ClassTarget):
            return None
        return lambda output: target.mean + target.std * output
