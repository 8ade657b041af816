"""Looking up what was published: by paper, table, method, data set, partition and metric.

A name that no paper has is an error that names the nearest. Methods are spelled as everywhere (`feddyn+sam`), and so
are data sets (`dbpedia14`), however the tables call them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from flatfed.core.errors import ConfigError, nearest
from flatfed.published.method_names import name_of, one_spelling
from flatfed.published.numbers import PublishedParameter, PublishedValue, papers, parameters, values
from flatfed.published.setting_names import DATASETS

ALL = "all"
"""The method of a parameter that is common to all methods of a paper."""

Entry = TypeVar("Entry")

FIGURES = ("fig", "fig.", "figure")


def lookup(
    paper: str | None = None,
    table: str | int | None = None,
    method: str | None = None,
    dataset: str | None = None,
    partition: str | None = None,
    metric: str | None = None,
) -> list[PublishedValue]:
    """Return the published values that agree with everything given, in the order of the tables.

    Args:
        paper: its id: `fedsam`.
        table: `Table 3`, `table-3`, `3`, or another place as it is named: `text Sec. 5.1`.
        method: a spelling: `fedasam+swa`.
        dataset: the id here or in the tables: `idda` or `idda-rainy`.
        partition: the kind, perhaps with its value: `dirichlet`, `dirichlet 0.05`.
        metric: `accuracy_pct`, `lambda_max`, ...
    """
    chosen = list(values())
    if paper is not None:
        chosen = _of_paper(chosen, paper, _paper_of_value)
    if table is not None:
        chosen = _of_table(chosen, str(table))
    if method is not None:
        chosen = _of_method(chosen, method)
    if dataset is not None:
        chosen = _of_dataset(chosen, dataset)
    if partition is not None:
        chosen = _of_partition(chosen, partition)
    if metric is not None:
        _refuse_unknown(metric, metrics(), "metric")
        chosen = [value for value in chosen if value.metric == metric]
    return chosen


def lookup_parameters(
    paper: str | None = None, method: str | None = None, dataset: str | None = None
) -> list[PublishedParameter]:
    """Return the published hyper-parameters; those of a method are its own and those common to all methods."""
    chosen = list(parameters())
    if paper is not None:
        chosen = _of_paper(chosen, paper, _paper_of_parameter)
    if method is not None:
        names = _names_in(method)
        chosen = [entry for entry in chosen if names.intersection(entry.methods)]
    if dataset is not None:
        wanted = with_whole(_datasets_called(dataset))
        chosen = [entry for entry in chosen if entry.data in wanted or not entry.data]
    return chosen


def methods() -> list[str]:
    """Return every method that has a value."""
    return _each(name_of(value) for value in values())


def metrics() -> list[str]:
    """Return every metric that has a value."""
    return _each(value.metric for value in values())


def datasets() -> list[str]:
    """Return every data set that has a value, by its id in the tables."""
    return _each(value.dataset for value in values())


def tables(chosen: Iterable[PublishedValue]) -> list[str]:
    """Return the tables of some values."""
    return _each(value.table for value in chosen)


def _each(names: Iterable[str]) -> list[str]:
    """Return names once each, in their order."""
    return list(dict.fromkeys(name for name in names if name))


def _paper_of_value(value: PublishedValue) -> str:
    return value.paper


def _paper_of_parameter(entry: PublishedParameter) -> str:
    return entry.paper


def _of_paper(chosen: list[Entry], paper: str, paper_of: Callable[[Entry], str]) -> list[Entry]:
    wanted = paper.lower()
    _refuse_unknown(wanted, papers(), "paper")
    return [entry for entry in chosen if paper_of(entry) == wanted]


def _of_table(chosen: list[PublishedValue], table: str) -> list[PublishedValue]:
    wanted = _table_key(table)
    matching = [value for value in chosen if _table_key(value.table) == wanted]
    if not matching:
        raise ConfigError(nearest(table, tables(chosen), "table"))
    return matching


def _table_key(name: str) -> str:
    """Return what two ways to write a table or figure have in common: `Table 3`, `table-3` and `3`; `fig-6` too.

    Of a figure only some panels may have values (`Figure 6 (left)`): these are the figure's.
    """
    words = name.lower().replace("-", " ").replace("_", " ").split()
    if len(words) == 1 and words[0].isdigit():
        return f"table {words[0]}"
    if words and words[0] in FIGURES:
        return " ".join(["figure", *words[1:2]])
    return " ".join(words)


def _of_method(chosen: list[PublishedValue], method: str) -> list[PublishedValue]:
    wanted = one_spelling(method)
    _refuse_unknown(wanted, methods(), "method in the published tables")
    return [value for value in chosen if name_of(value) == wanted]


def _names_in(method: str) -> set[str]:
    """Return the names under which a method's parameters stand: the parts of its spelling, and `all`."""
    algorithm, *suffixes = one_spelling(method).split("+")
    known = _each(name for entry in parameters() for name in entry.methods)
    _refuse_unknown(algorithm, {*known, *methods()}, "method in the published tables")
    return {algorithm, *suffixes, ALL}


def _of_dataset(chosen: list[PublishedValue], dataset: str) -> list[PublishedValue]:
    wanted = _datasets_called(dataset)
    return [value for value in chosen if value.dataset in wanted]


def _datasets_called(name: str) -> set[str]:
    """Return the data sets of the tables with a name, which is theirs or the one here."""
    wanted, known = name.lower(), datasets()
    if wanted in known:
        return {wanted}
    called = {id for id, (here, _) in DATASETS.items() if here == wanted}
    if not called:
        names_here = {here for here, _ in DATASETS.values()}
        raise ConfigError(nearest(name, {*known, *names_here}, "data set in the published tables"))
    return called


def with_whole(called: set[str]) -> set[str]:
    """Return data sets with the names of what they are parts of: parameters of `idda` are those of its parts too."""
    wholes = {DATASETS[id][0] for id in called if id in DATASETS}
    # CIFAR-100-PAM is no part of CIFAR-100: both have parameters of their own.
    return called | wholes.difference(datasets())


def _of_partition(chosen: list[PublishedValue], partition: str) -> list[PublishedValue]:
    kind, _, number = partition.strip().partition(" ")
    kinds = _each(value.partition for value in values())
    _refuse_unknown(kind, kinds, "partition in the published tables")
    return [value for value in chosen if value.partition == kind and number in ("", value.partition_value)]


def _refuse_unknown(name: str, known: Iterable[str], kind: str) -> None:
    known = list(known)
    if name not in known:
        raise ConfigError(nearest(name, known, kind))
