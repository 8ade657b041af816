"""Any classification of rows of numbers that lies in a CSV file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from flatfed.core.configuration.checking import Count, Index
from flatfed.core.errors import PARAMETER, ConfigError, nearest
from flatfed.core.task.examples import TensorExamples
from flatfed.data.catalogue import source
from flatfed.data.directory import DataDirectory
from flatfed.data.formats.client_tables import Ints, class_number, in_order, numbered
from flatfed.data.formats.number_tables import Floats, NumberTable, Scaling, finite_number
from flatfed.data.formats.texts import separator_of
from flatfed.data.sources.own.target_table import Fill, TableColumns, target_pool
from flatfed.data.storage.held_out import Mask, Share
from flatfed.data.storage.new_inputs import FileReading, NewInputs, of_tensor
from flatfed.data.storage.pool import Pool
from flatfed.data.tables.fitting import Kind
from flatfed.data.tables.number_cells import DecimalOption
from flatfed.data.tables.splits import SPLITS, as_words, keyed_test
from flatfed.data.tables.text_columns import found_separator

NAME = "table"
USUAL_SPLIT = "split"
"""The column of splits that is followed where there is one, and need not be there."""
REFUSE, MEAN = "refuse", "mean"
MOST_REALS = 20
"""Different labels with decimals, at most: more of them are a quantity and no classes."""

Unusable = Literal["refuse", "drop"]
Words = npt.NDArray[np.str_]


@source(NAME, natural_with=("target", "client"))
def table(
    directory: DataDirectory,
    path: str = "",
    label: object = "label",
    columns: object = "",
    classes: Index = 0,
    class_names: object = "",
    client: object = "",
    split: object = USUAL_SPLIT,
    test_share: Share = 0.1,
    scaling: str = "",
    missing: object = REFUSE,
    target: object = "",
    kind: Kind = "auto",
    categories: object = "",
    drop: object = "",
    max_categories: Count = 100,
    unusable: Unusable = "refuse",
    delimiter: str = "auto",
    decimal: DecimalOption = "auto",
    preprocessing: str = "",
) -> Pool:
    """Tables of your own: a CSV file of numbers and categories with a column to predict (data.path, data.target).

    `path` is looked for here, then in the data directory. With `target` the table is read as it comes: words are
    categories, numbers are scaled, and what that takes is learnt from training rows alone, or taken from the file
    `preprocessing`. A target of words, or of few whole numbers, is classes, another one a quantity; `kind` says it.
    `missing` is refuse, mean, median or a number; `unusable` says what to do with rows without target or client. `drop`
    leaves columns out, `categories` names columns of numbers that are categories.

    With `label` in its place all features are numbers, taken as they are: `columns` lists them, `scaling` is a CSV file
    column,mean,std that all clients agreed on; `classes` and `class_names` fix names and order of the classes.

    `client` is a column that says whose row it is. The column `split` says train or test; without it, `test_share` of
    each class is kept for the test, the same in every run.
    """
    file = directory.find_own(NAME, path, example="table.csv")
    if _name(target):
        return target_pool(
            file,
            TableColumns(
                _name(target),
                _name(client),
                _name(split),
                _listed(columns, "columns"),
                _listed(drop, "drop"),
                _listed(categories, "categories"),
            ),
            Fill(scaling, missing, max_categories),
            None if not preprocessing else directory.find_own(NAME, preprocessing, "preprocessing"),
            kind=kind,
            names=_class_names(classes, _listed(class_names, "class_names")),
            test_share=test_share,
            drops=unusable == "drop",
            delimiter=delimiter,
            decimal=decimal,
        )
    _refuse_without_target(
        kind=kind != "auto", categories=categories, drop=drop, preprocessing=preprocessing, decimal=decimal != "auto"
    )
    named = found_separator(file, _name(label)) if delimiter == "auto" else separator_of(delimiter, NAME)
    rows = NumberTable.open(file, named)
    agreed = _scaling(directory, scaling)
    roles = Roles(_name(label), _name(client), _split_column(rows, _name(split)))
    roles.check(rows)
    names = _features(rows, roles, _listed(columns, "columns"), agreed)
    features = rows.features(names, agreed, _missing(missing, agreed))
    splits = _named_splits(rows, roles.split)
    labels, order = _labels(rows, roles.label, splits, classes, _listed(class_names, "class_names"))
    owners = _owners(rows, roles.client)
    if splits is None:
        splits = as_words(keyed_test(rows.path, rows.contents(), labels, owners, test_share))
    pool = _pool(features, labels, splits, owners, max(classes, len(order)), order)
    return replace(pool, reader=NumberReader(names, agreed, _missing(missing, agreed)))


@dataclass(frozen=True, eq=False)
class NumberReader:
    """Reads rows of the same columns, scaled in the same way; a label need not be there."""

    columns: Sequence[str]
    scaling: Scaling | None
    missing: float | str | None

    def open(self, files: Sequence[Path], how: FileReading) -> NewInputs:
        """Return the rows of all files."""
        tables = list(map(NumberTable.open, files))
        parts = [torch.from_numpy(self._features(rows)) for rows in tables]
        names = [f"{rows.path}, line {row.line}" for rows in tables for row in rows.rows]
        return of_tensor(names, torch.cat(parts))

    def _features(self, rows: NumberTable) -> Floats:
        for name in self.columns:
            rows.check_column(name)
        return rows.features(self.columns, self.scaling, self.missing)


def _refuse_without_target(**given: object) -> None:
    """Refuse options that mean something only together with a target."""
    for name, value in given.items():
        if value:
            raise ConfigError(f"{NAME}: {PARAMETER} needs data.target, the column to predict", parameter=f"data.{name}")


def _class_names(classes: int, names: list[str]) -> list[str]:
    """Return the names of the classes, numbers where there are none; nothing where neither is given."""
    _check_counts(classes, names)
    return names or [str(number) for number in range(classes)]


def _pool(
    features: Floats, labels: Ints, splits: Words, owners: Ints | None, classes: int, class_names: Sequence[str]
) -> Pool:
    train, test = (TensorExamples(*_tensors(features, labels, splits == part)) for part in SPLITS)
    groups = {} if owners is None else {"client": torch.from_numpy(owners[splits == "train"])}
    return Pool(
        name=NAME,
        train=train,
        labels=train.targets,
        test=test,
        classes=classes,
        facts={"in_features": features.shape[1]},
        default_model="mlp",
        groups=groups,
        class_names=class_names,
    )


def _tensors(features: Floats, labels: Ints, chosen: Mask) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(features[chosen]), torch.from_numpy(labels[chosen])


# --- columns --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Roles:
    """The columns that are no features: of labels, of owners, of splits; the last two may be none."""

    label: str
    client: str
    split: str

    @property
    def by_name(self) -> dict[str, str]:
        """What each column is."""
        columns = {self.label: "label", self.client: "client", self.split: "split"}
        columns.pop("", None)
        return columns

    def check(self, table: NumberTable) -> None:
        """Refuse columns that are not there, and one that would be two things."""
        for name in self.by_name:
            table.check_column(name)
        filled = list(filter(None, (self.label, self.client, self.split)))
        if len(set(filled)) < len(filled):
            raise ConfigError(f"{NAME}: label, client and split must be different columns, not {', '.join(filled)}")


def _name(option: object) -> str:
    return "" if option is None else str(option).strip()


def _listed(option: object, name: str) -> list[str]:
    """Return the names in an option: a list, or a text with commas; none where it is empty."""
    if option is None or option == "":
        return []
    entries = option if isinstance(option, list | tuple) else str(option).split(",")
    names = [str(entry).strip() for entry in entries]
    if not all(names):
        raise ConfigError(f"{NAME}: {PARAMETER} has an empty name in it: {str(option)[:40]!r}", f"data.{name}")
    if len(set(names)) < len(names):
        raise ConfigError(f"{NAME}: {PARAMETER} has a name twice: {str(option)[:40]!r}", f"data.{name}")
    return names


def _split_column(table: NumberTable, name: str) -> str:
    """Return the column of splits; the usual one need not be there."""
    if name == USUAL_SPLIT and name not in table:
        return ""
    return name


def _features(table: NumberTable, roles: Roles, asked: list[str], scaling: Scaling | None) -> list[str]:
    """Return the columns of features: those asked for, or all others, in the order that all clients agreed on."""
    names = asked or [name for name in table.places if name not in roles.by_name]
    for name in names:
        table.check_column(name)
        if name in roles.by_name:
            raise ConfigError(f"{NAME}: the column {name!r} is the {roles.by_name[name]}; take it out of data.columns")
    if not names:
        raise ConfigError(f"{table.path} has no column of features, only {', '.join(table.places)}")
    if scaling is None:
        return names
    scaling.check(names)
    if asked:
        return names
    # Files of two clients may have their columns in different orders; the scaling is the same for both.
    for name in scaling.means:
        table.check_column(name)
    return [name for name in scaling.means if name in names]


# --- numbers --------------------------------------------------------------------------------------------------


def _scaling(directory: DataDirectory, path: str) -> Scaling | None:
    if not path:
        return None
    return Scaling.read(directory.find_own(NAME, path, "scaling"))


def _missing(option: object, scaling: Scaling | None) -> float | str | None:
    """Return what stands for missing numbers: a number, the word mean, or None where they are refused."""
    if option == REFUSE:
        return None
    if option == MEAN and scaling is None:
        raise ConfigError(f"{NAME}: {PARAMETER}=mean needs the means of data.scaling", "data.missing")
    if option == MEAN:
        return MEAN
    value = None if isinstance(option, bool) else finite_number(str(option))
    if value is None:
        raise ConfigError(f"{NAME}: {PARAMETER} must be refuse, mean or a number, not {option!r:.40}", "data.missing")
    return value


# --- splits ---------------------------------------------------------------------------------------------------


def _named_splits(table: NumberTable, column: str) -> Words | None:
    """Return the column of splits, where there is one; both must be in it."""
    if not column:
        return None
    splits = np.array(table.read(column, _split))
    for name in SPLITS:
        if name not in splits:
            raise ConfigError(f"{table.path}: no row has the split {name}")
    return splits


def _split(cell: str) -> str:
    if cell.lower() not in SPLITS:
        raise ConfigError(nearest(cell[:40], SPLITS, "split"))
    return cell.lower()


def _owners(table: NumberTable, column: str) -> Ints | None:
    if not column:
        return None
    cells = table.column(column)
    return numbered(cells, in_order(cells))


# --- labels ---------------------------------------------------------------------------------------------------


def _labels(
    table: NumberTable, column: str, splits: Words | None, classes: int, names: list[str]
) -> tuple[Ints, list[str]]:
    """Return the class of each row, and the names of the classes where they are known."""
    _check_counts(classes, names)
    if classes:
        return np.array(table.read(column, class_number(classes)), np.int64), names
    if names:
        return np.array(table.read(column, lambda cell: _place(cell, names)), np.int64), names
    cells = table.column(column)
    _refuse_quantity(table, column, cells)
    order = in_order(_trained(cells, splits))
    _check_order(table, column, cells, order)
    return numbered(cells, order), order


def _check_counts(classes: int, names: list[str]) -> None:
    """Refuse a single class, and a number of classes that is not that of their names."""
    if classes == 1 or len(names) == 1:
        raise ConfigError(f"{NAME}: a classification needs two classes or more")
    if classes and names and len(names) != classes:
        raise ConfigError(f"{NAME}: data.class_names has {len(names)} names for data.classes={classes}")


def _place(cell: str, names: list[str]) -> int:
    if cell not in names:
        raise ConfigError(nearest(cell[:40], names, "class"))
    return names.index(cell)


def _trained(cells: list[str], splits: Words | None) -> list[str]:
    """Return the labels of the rows that are trained on; without a column of splits, every class is."""
    if splits is None:
        return cells
    return [cell for cell, split in zip(cells, splits, strict=True) if split == "train"]


def _refuse_quantity(table: NumberTable, column: str, cells: list[str]) -> None:
    """Refuse labels that are a quantity: a regression has no classes."""
    reals = sorted(filter(_has_decimals, set(cells)))
    if len(reals) > min(MOST_REALS, len(cells) // 2):
        raise ConfigError(
            f"{table.path}: the column {column!r} holds {len(reals):,} different numbers such as {reals[0][:40]!r}; "
            f"for a regression give data.target={column} in place of data.label"
        )


def _has_decimals(cell: str) -> bool:
    number = finite_number(cell)
    return number is not None and not number.is_integer()


def _check_order(table: NumberTable, column: str, cells: list[str], order: list[str]) -> None:
    """Refuse a single class, and a label that no training row has."""
    if len(order) < 2:
        raise ConfigError(
            f"{table.path}: all training rows have the label {order[0][:40]!r}; where others have more classes, "
            "name all with data.class_names, or their number with data.classes"
        )
    known = set(order)
    for row, cell in zip(table.rows, cells, strict=True):
        if cell not in known:
            raise row.wrong(f"no training row has the label {cell[:40]!r}")
