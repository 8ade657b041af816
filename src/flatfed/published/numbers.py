"""What was published, as it was printed: values of tables, hyper-parameters, papers; and their strict reader.

A table of a paper is kept as it stands: a field that the paper does not state is empty here. A cell whose number can be
read but whose row or column cannot be known for certain has a `reason` that says so.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from flatfed.core.errors import ConfigError, nearest

STATUSES = {
    "": "a number like any other",
    "diverged": "the training diverged; printed as a cross",
    "not_reached": "the target was not reached; printed as a dash",
    "chance_level": "the number is that of guessing",
}
"""What a cell may be besides a number, each with its meaning."""

SOURCES = ("paper_text", "poster_image")
"""Where a number was read: in the text of a paper, or in the pictures of a poster."""

Fields = Mapping[str, str]
Row = TypeVar("Row")


@dataclass(frozen=True)
class PublishedValue:
    """One cell of a table, with the setting that belongs to it.

    Attributes:
        paper: the id of the paper.
        table: as the paper calls it: `Table 3`, `text Sec. 5.1`.
        dataset: the data set, empty where the paper does not state it; so are all fields of the setting.
        model: the network.
        partition: the kind of division among clients.
        partition_value: its number, or the paper's word for it.
        clients_total: the number of clients.
        clients_per_round: how many of them take part in a round.
        rounds: the length of the training, also where the value is that of an earlier round.
        local_epochs: passes over a client's examples per round.
        algorithm: as the table names it.
        client_opt: the optimiser of the clients.
        extras: what else belongs to the cell: `swa`, `mixup`, `rho=0.01`.
        metric: what was measured.
        target: what was to be reached, or what a difference is against.
        value: the number; None where there is none.
        std: its standard deviation, where one is printed.
        printed: both with the digits of the paper.
        status: one of `STATUSES`.
        source: one of `SOURCES`.
        reason: why the cell is uncertain; empty for one that is certain.
    """

    paper: str
    table: str
    dataset: str
    model: str
    partition: str
    partition_value: str
    clients_total: int | None
    clients_per_round: int | None
    rounds: int | None
    local_epochs: int | None
    algorithm: str
    client_opt: str
    extras: tuple[str, ...]
    metric: str
    target: str
    value: float | None
    std: float | None
    printed: str
    status: str
    source: str
    reason: str

    @property
    def is_certain(self) -> bool:
        """Whether row and column of the number are known."""
        return not self.reason


@dataclass(frozen=True)
class PublishedParameter:
    """One hyper-parameter of a paper: what was searched, what was chosen, and where it says so.

    Attributes:
        paper: the id of the paper.
        dataset: the data set it was used on, with its condition: `cifar10 alpha=0`; empty for all.
        model: the network; empty for all.
        algorithm: the methods, with commas between them; `all` for the setting that is common to all.
        parameter: as the paper names it.
        search_grid: the values tried.
        chosen: the value used; empty where it is not known.
        chosen_source: where that stands.
    """

    paper: str
    dataset: str
    model: str
    algorithm: str
    parameter: str
    search_grid: str
    chosen: str
    chosen_source: str

    @property
    def data(self) -> str:
        """The data set without its condition."""
        return self.dataset.partition(" ")[0]

    @property
    def condition(self) -> str:
        """Which part of the experiments on the data set is meant; empty for all."""
        return self.dataset.partition(" ")[2]

    @property
    def methods(self) -> tuple[str, ...]:
        """The ids of the methods, without remarks in brackets."""
        names = self.algorithm.split(",")
        return tuple(name.partition("(")[0].strip() for name in names)


@dataclass(frozen=True)
class PublishedPaper:
    """A paper, and what its numbers were read from."""

    id: str
    title: str
    authors: str
    venue: str
    year: int | None
    read_from: str

    @property
    def reference(self) -> str:
        """How it is cited, as far as it is known."""
        year = "" if self.year is None else str(self.year)
        published = " ".join(filter(None, (self.venue, year)))
        return ", ".join(filter(None, (self.authors, f'"{self.title}"', published)))


@cache
def values() -> tuple[PublishedValue, ...]:
    """Return every value, in the order of the papers' tables."""
    return tuple(read_values("results.csv", _text_of("results.csv")))


@cache
def parameters() -> tuple[PublishedParameter, ...]:
    """Return every hyper-parameter."""
    return tuple(read_parameters("hyperparameters.csv", _text_of("hyperparameters.csv")))


@cache
def papers() -> dict[str, PublishedPaper]:
    """Return the papers by their ids."""
    read = read_papers("papers.csv", _text_of("papers.csv"))
    return {paper.id: paper for paper in read}


def _text_of(name: str) -> str:
    return (files("flatfed.published") / "files" / name).read_text(encoding="utf-8")


def read_values(file: str, text: str) -> Iterator[PublishedValue]:
    """Yield the values of a CSV; a row that cannot be one is an error with the file's name and the line."""
    columns = [name for name in PublishedValue.__dataclass_fields__ if name != "printed"]
    return _rows(file, text, columns, _value)


def read_parameters(file: str, text: str) -> Iterator[PublishedParameter]:
    """Yield the hyper-parameters of a CSV."""
    return _rows(file, text, list(PublishedParameter.__dataclass_fields__), _parameter)


def read_papers(file: str, text: str) -> Iterator[PublishedPaper]:
    """Yield the papers of a CSV."""
    return _rows(file, text, list(PublishedPaper.__dataclass_fields__), _paper)


def _rows(file: str, text: str, columns: list[str], make: Callable[[Fields], Row]) -> Iterator[Row]:
    """Yield what `make` makes of every row, after a look at the columns."""
    reader = csv.reader(io.StringIO(text), strict=True)
    header = next(reader, [])
    if header != columns:
        raise ConfigError(f"{file}, line 1: the columns must be {','.join(columns)}")
    for cells in _lines(file, reader):
        try:
            yield make(_by_column(columns, cells))
        except ConfigError as error:
            raise error.within(f"{file}, line {reader.line_num}") from None


def _lines(file: str, reader: Any) -> Iterator[list[str]]:
    """Yield the lines of a CSV; one that is none is an error with its number."""
    try:
        yield from reader
    except csv.Error as error:
        raise ConfigError(f"{file}, line {reader.line_num}: {error}") from None


def _by_column(columns: list[str], cells: list[str]) -> dict[str, str]:
    if len(cells) != len(columns):
        raise ConfigError(f"{len(cells)} cells, where there are {len(columns)} columns")
    for name, cell in zip(columns, cells, strict=True):
        if cell != cell.strip():
            raise ConfigError(f"{name} must have no spaces around it, not {cell!r}")
    return dict(zip(columns, cells, strict=True))


def _value(row: Fields) -> PublishedValue:
    _refuse_empty(row, "paper", "table", "algorithm", "metric")
    _refuse_other(row, "status", STATUSES)
    _refuse_other(row, "source", SOURCES)
    value, std = _number(row, "value"), _number(row, "std")
    _refuse_missing(row, value, std)
    return PublishedValue(
        paper=row["paper"],
        table=row["table"],
        dataset=row["dataset"],
        model=row["model"],
        partition=row["partition"],
        partition_value=row["partition_value"],
        clients_total=_count(row, "clients_total"),
        clients_per_round=_count(row, "clients_per_round"),
        rounds=_count(row, "rounds"),
        local_epochs=_count(row, "local_epochs"),
        algorithm=row["algorithm"],
        client_opt=row["client_opt"],
        extras=_words(row["extras"]),
        metric=row["metric"],
        target=row["target"],
        value=value,
        std=std,
        printed=_printed(row),
        status=row["status"],
        source=row["source"],
        reason=row["reason"],
    )


def _parameter(row: Fields) -> PublishedParameter:
    _refuse_empty(row, "paper", "algorithm", "parameter")
    return PublishedParameter(**row)


def _paper(row: Fields) -> PublishedPaper:
    _refuse_empty(row, "id", "title")
    return PublishedPaper(**{**row, "year": _count(row, "year")})  # type: ignore[arg-type]


def _refuse_empty(row: Fields, *names: str) -> None:
    for name in names:
        if not row[name]:
            raise ConfigError(f"{name} must not be empty")


def _refuse_other(row: Fields, name: str, known: Mapping[str, str] | tuple[str, ...]) -> None:
    if row[name] not in known:
        raise ConfigError(nearest(row[name], known, name))


def _refuse_missing(row: Fields, value: float | None, std: float | None) -> None:
    """Refuse a cell without a number that does not say why, and one with a number where there can be none."""
    has_none = row["status"] in ("diverged", "not_reached")
    if has_none != (value is None):
        raise ConfigError(f"value {row['value']!r} does not go with status {row['status']!r}")
    if std is not None and (value is None or std < 0):
        raise ConfigError(f"std {row['std']!r} must be a deviation of a value")


def _number(row: Fields, name: str) -> float | None:
    if not row[name]:
        return None
    try:
        number = float(row[name])
    except ValueError:
        raise ConfigError(f"{name} must be a number, not {row[name]!r}") from None
    if not abs(number) < float("inf"):
        raise ConfigError(f"{name} must be finite, not {row[name]!r}")
    return number


def _count(row: Fields, name: str) -> int | None:
    if not row[name]:
        return None
    if not (row[name].isascii() and row[name].isdigit()) or int(row[name]) < 1:
        raise ConfigError(f"{name} must be a whole number from 1 on, not {row[name]!r}")
    return int(row[name])


def _words(text: str) -> tuple[str, ...]:
    if not text:
        return ()
    words = tuple(text.split(";"))
    if "" in words:
        raise ConfigError(f"extras must be words with semicolons between them, not {text!r}")
    return words


def _printed(row: Fields) -> str:
    if not row["std"]:
        return row["value"]
    return f"{row['value']} ± {row['std']}"
