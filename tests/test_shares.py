"""The two shares of the tests: together they are all, and the list of those that take long is up to date."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import pytest

from shares import REST, SHORT, cases_in_short, in_share, spread

ROOT = Path(__file__).parents[1]


def test_shares_are_all_tests_and_have_none_in_common() -> None:
    long = next(name for name, count in cases_in_short().items() if count == 2)
    nodeids = [f"{long}[{number}]" for number in range(9)] + ["tests/test_other.py::test_short"]
    short, rest = in_share(nodeids, SHORT), in_share(nodeids, REST)
    assert short | rest == in_share(nodeids, "") == set(nodeids)
    assert not short & rest
    assert short == {f"{long}[2]", f"{long}[6]", "tests/test_other.py::test_short"}


@pytest.mark.parametrize("count", [0, 1, 2, 5, 7, 8, 30])
def test_cases_are_spread_evenly(count: int) -> None:
    cases = [f"case {number}" for number in range(8)]
    chosen = [number for number, case in enumerate(cases) if case in spread(cases, count)]
    assert len(chosen) == min(count, 8)
    gaps = [second - first for first, second in itertools.pairwise(chosen)]
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_every_test_that_is_listed_is_there() -> None:
    for name in cases_in_short():
        file, _, function = name.partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert function in functions, f"{name} is not there any more: take its line out of shares.txt"
