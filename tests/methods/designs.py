"""Which methods meet which settings: short designs for every run of the tests, and whole products for `make battery`.

A short design is a part of its product; `make battery` sets FLATFED_BATTERY and takes the product.
`test_designs.py` checks what the short ones guarantee:

- `covering()`: every method with every parameter set and with every client optimiser that the table gives it.
- `spread()`: every method with every parameter set, and each client optimiser with at least four methods.
- `few(entries, of, count)`: every method with `count` of its entries, by turns.
- `rotated(settings)`: every method with every setting, every case of `covering()` with a setting, and every client
  optimiser with every setting.
- `turned(settings)`: every method with one setting, and every setting with at least a third of the fair share of them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pytest

from methods.table import TABLE, Case, Row, opts_of, rows

T = TypeVar("T")
Pair = tuple[Case, str]

WHOLE = bool(os.environ.get("FLATFED_BATTERY"))


def covering() -> list[Case]:
    """Every method with each of its parameter sets and each of its client optimisers, in as few cases as that takes."""
    return [case for row in TABLE for case in _covering(row)]


def _covering(row: Row) -> list[Case]:
    """The parameter sets in turn, each with an optimiser that is still missing; then the first with what is left."""
    missing = list(opts_of(row, row.params[0]))
    cases = []
    for number, params in enumerate(reversed(row.all_params)):
        taken = opts_of(row, params)
        fresh = [opt for opt in taken if opt in missing]
        opt = fresh[0] if fresh else taken[number % len(taken)]
        missing = [other for other in missing if other != opt]
        cases.append(Case(row, params, opt))
    return [*cases, *(Case(row, row.params[0], opt) for opt in missing)]


def spread() -> list[Case]:
    """Every method with each of its parameter sets, and the client optimiser that has had the fewest turns."""
    turns: Counter[str | None] = Counter()
    cases = []
    for row in TABLE:
        for params in row.all_params:
            opt = min(opts_of(row, params), key=lambda name: turns[name])
            turns[opt] += 1
            cases.append(Case(row, params, opt))
    return cases


def rotated(settings: Iterable[str]) -> list[Pair]:
    """The cases of each method and the settings, one beside the other, the shorter list again and again."""
    names = list(settings)
    pairs: dict[tuple[str, str], Pair] = {}
    for start, row in enumerate(TABLE):
        cases = _covering(row)
        for number in range(max(len(cases), len(names))):
            # Another first setting for each method: an optimiser that all have in one place meets every setting.
            pair = cases[number % len(cases)], names[(start + number) % len(names)]
            pairs[str(pair[0]), pair[1]] = pair
    return list(pairs.values())


def few(entries: Iterable[T], of: Callable[[T], str], count: int = 1) -> list[T]:
    """At most this number of entries of each method, which is `of(entry)`: the first of one, the second of the next."""
    groups: dict[str, list[T]] = {}
    for entry in entries:
        groups.setdefault(of(entry), []).append(entry)
    chosen = []
    for start, group in enumerate(groups.values()):
        step = max(1, len(group) // count)
        chosen += [group[(start + number * step) % len(group)] for number in range(min(count, len(group)))]
    return chosen


def turned(ids: Sequence[str], settings: Sequence[T]) -> list[tuple[str, T]]:
    """Each method with one setting, in turn."""
    return [(id, settings[number % len(settings)]) for number, id in enumerate(ids)]


# Parameters of tests.


def marked(names: str, whole: Iterable[Any], short: Iterable[Any], **settings: Any) -> pytest.MarkDecorator:
    """Parametrize with a short design, or in `make battery` with the whole product that it is a part of."""
    chosen = {str(_plain(entry)) for entry in short}
    entries = [*whole]
    missing = chosen - {str(_plain(entry)) for entry in entries}
    assert not missing, f"not in the whole product: {sorted(missing)}"
    if not WHOLE:
        entries = [entry for entry in entries if str(_plain(entry)) in chosen]
    parameters = []
    for entry in entries:
        values = entry if isinstance(entry, tuple) else (entry,)
        parameters.append(pytest.param(*values, id="-".join(map(str, values))))
    return pytest.mark.parametrize(names, parameters, **settings)


def _plain(entry: Any) -> Any:
    """What tells an entry from others: a case is known by its name."""
    return tuple(map(str, entry)) if isinstance(entry, tuple) else str(entry)


def product(settings: Mapping[str, Any] | Iterable[str]) -> list[Pair]:
    """Every case of the table with every setting."""
    return [(case, name) for case in rows() for name in settings]
