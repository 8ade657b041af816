"""The short designs keep what `designs.py` says of them."""

from __future__ import annotations

from collections import Counter

import pytest

from flatfed.algorithms import Algorithm, ClientOptimiser
from flatfed.testing.naive.client_optimisers import RULES
from methods.designs import covering, few, rotated, spread, turned
from methods.table import CLIENT_OPTS, TABLE, Case, rows
from methods.test_battery import AVERAGES, IDS, SETUPS, SWAS, UNEQUAL_STEPS, WIMAS
from methods.wire import ours, short_variants, takes_optimiser, variants

WHOLE = {str(case) for case in rows()}


def names(cases: list[Case]) -> set[str]:
    return {str(case) for case in cases}


def test_the_table_has_every_method_and_every_client_optimiser_of_the_package() -> None:
    assert set(IDS) == set(ours(Algorithm.registry))
    assert {row.opt.kind for row in CLIENT_OPTS.values()} == set(ours(ClientOptimiser.registry)) == set(RULES)
    published = [row.opt.kind for row in CLIENT_OPTS.values() if row.published is not None]
    assert sorted(published) == sorted(RULES)
    for row in TABLE:
        assert row.accepts_client_opt == takes_optimiser(row.id)


@pytest.mark.parametrize("design", [covering, spread])
def test_a_design_is_a_part_of_the_product_with_every_parameter_set_of_every_method(design) -> None:
    cases = design()
    assert names(cases) <= WHOLE
    assert len(names(cases)) == len(cases)
    for row in TABLE:
        chosen = [case.params for case in cases if case.row.id == row.id]
        assert all(params in chosen for params in row.all_params)


def test_covering_has_every_method_with_every_client_optimiser_it_takes() -> None:
    pairs = {(case.row.id, case.opt) for case in covering()}
    assert pairs == {(case.row.id, case.opt) for case in rows()}
    assert pairs >= {(row.id, opt) for row in TABLE if row.accepts_client_opt for opt in CLIENT_OPTS}


def test_spread_has_every_client_optimiser_with_several_methods() -> None:
    methods = {opt: {case.row.id for case in spread() if case.opt == opt} for opt in CLIENT_OPTS}
    assert all(len(ids) >= 4 for ids in methods.values()), methods


@pytest.mark.parametrize("settings", [list(SETUPS), list(UNEQUAL_STEPS)], ids=["set-ups", "unequal steps"])
def test_rotated_has_every_method_and_every_client_optimiser_with_every_setting(settings: list[str]) -> None:
    pairs = rotated(settings)
    assert {(case.row.id, name) for case, name in pairs} == {(id, name) for id in IDS for name in settings}
    assert {(case.opt, name) for case, name in pairs if case.opt} == {(o, n) for o in CLIENT_OPTS for n in settings}
    assert {str(case) for case, _ in pairs} == names(covering())


@pytest.mark.parametrize("settings", [SWAS, WIMAS], ids=["swa", "wima"])
def test_turned_has_every_method_once_and_every_setting_often(settings: list[str]) -> None:
    pairs = turned(IDS, settings)
    assert [id for id, _ in pairs] == IDS
    counts = Counter(name for _, name in pairs)
    assert set(counts) == set(settings)
    assert min(counts.values()) >= len(IDS) // len(settings) / 3
    assert {*SWAS, *WIMAS} == set(AVERAGES)


@pytest.mark.parametrize("id", IDS)
def test_short_variants_are_some_of_the_variants_with_every_parameter_set(id: str) -> None:
    whole, short = ([method.to_dict() for method in made(id)] for made in (variants, short_variants))
    assert all(method in whole for method in short)
    [row] = [row for row in TABLE if row.id == id]
    for params in row.all_params:
        assert any(method.items() >= params.items() for method in short)


def test_short_variants_have_every_client_optimiser() -> None:
    chosen = Counter(m.client_opt.id for id in IDS if takes_optimiser(id) for m in short_variants(id))
    assert min(chosen[id] for id in ours(ClientOptimiser.registry)) >= 4, chosen


def test_few_takes_every_method_and_goes_on_from_one_to_the_next() -> None:
    entries = [(id, number) for id in "abc" for number in range(5)]
    assert few(entries, lambda entry: entry[0]) == [("a", 0), ("b", 1), ("c", 2)]
    assert few(entries, lambda entry: entry[0], 2) == [("a", 0), ("a", 2), ("b", 1), ("b", 3), ("c", 2), ("c", 4)]
    assert few(entries[:7], lambda entry: entry[0], 9) == [*entries[:5], ("b", 1), ("b", 0)]
