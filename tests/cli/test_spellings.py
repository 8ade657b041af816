"""Methods by their short spelling, and values as they are typed."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flatfed.algorithms import Algorithm, Average, ClientOptimiser
from flatfed.algorithms.spelling import parse_method, read_spelling, spelling_of
from flatfed.core.configuration.config import parameters
from flatfed.core.configuration.values import parse_value
from flatfed.core.errors import ConfigError
from flatfed.experiments.spelling.methods import parse_methods, parse_setting

OPTIMISERS = [id for id in ClientOptimiser.registry if id != "sgd"]
AVERAGES = list(Average.registry)
OPEN = [id for id, cls in Algorithm.registry.items() if "client_opt" in parameters(cls)]
CLOSED = [id for id in Algorithm.registry if id not in OPEN]


def spellings(*columns: list[str]) -> list[str]:
    """Every choice of one part from each column, joined; an empty part is left out."""
    return ["+".join(filter(None, parts)) for parts in itertools.product(*columns)]


VALID = spellings(OPEN, ["", *OPTIMISERS], ["", *AVERAGES]) + spellings(CLOSED, ["", *AVERAGES])
ACCEPTED = {*VALID, *spellings(OPEN, ["sgd"], ["", *AVERAGES])}


@pytest.mark.parametrize("spelling", VALID)
def test_spellings_round_trip(spelling: str) -> None:
    method = parse_method(spelling)
    assert spelling_of(method.algorithm, method.average) == spelling == method.spelling


@pytest.mark.parametrize("id", OPEN)
def test_plain_sgd_may_be_written_and_is_the_same_method(id: str) -> None:
    method = parse_method(f"{id}+sgd")
    assert method.algorithm == parse_method(id).algorithm
    assert spelling_of(method.algorithm, method.average) == id


@pytest.mark.parametrize("id", CLOSED)
@pytest.mark.parametrize("optimiser", list(ClientOptimiser.registry))
def test_methods_with_a_gradient_of_their_own_take_no_optimiser(id: str, optimiser: str) -> None:
    with pytest.raises(ConfigError, match=f"{id} takes no client optimiser"):
        parse_method(f"{id}+{optimiser}")


@given(parts=st.lists(st.sampled_from([*Algorithm.registry, *ClientOptimiser.registry, *AVERAGES, "", "x"])))
@example(parts=["fedgamma", "sgd"])
@example(parts=["fedavg", "sam", "sgd"])
@example(parts=["fedavg", "swa", "sgd"])
@example(parts=["fedavg", "sgd", "sgd"])
@example(parts=["fedavg", "sgd", "swa"])
def test_any_other_order_is_refused(parts: list[str]) -> None:
    spelling = "+".join(parts)
    if spelling in ACCEPTED:
        assert parse_method(spelling).spelling == spelling
    else:
        with pytest.raises(ConfigError):
            parse_method(spelling)


@pytest.mark.parametrize("spelling", VALID)
def test_everything_that_is_said_to_be_settable_is(spelling: str) -> None:
    method = parse_method(spelling)
    for name in read_spelling(spelling).settable:
        owner, _, bare = name.rpartition(".")
        holder: Any = {"": method.algorithm, "client_opt": getattr(method.algorithm, "client_opt", None)}.get(
            owner, method.average
        )
        again = parse_method(spelling, {name: getattr(holder, bare)})
        assert (again.algorithm, again.average) == (method.algorithm, method.average)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("0.5", 0.5),
        ("1e-3", 1e-3),
        ("1E3", 1e3),
        ("1e+3", 1e3),
        (".5", 0.5),
        ("true", True),
        ("false", False),
        ("null", None),
        ("paper", "paper"),
        ("end-of-cycle", "end-of-cycle"),
        ("A", "A"),
        ("[1", "[1"),
    ],
)
def test_values(text: str, value: object) -> None:
    actual = parse_value(text)
    assert (type(actual), actual) == (type(value), value)


@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_comes_back(number: float) -> None:
    assert parse_value(repr(number)) == number


@given(number=st.integers(1 - 2**63, 2**63 - 1))
def test_every_whole_number_comes_back_whole(number: int) -> None:
    actual = parse_value(str(number))
    assert isinstance(actual, int) and actual == number


@given(text=st.text(max_size=20))
def test_any_text_is_a_value_or_an_error_for_people(text: str) -> None:
    try:
        name, _ = parse_setting(text)
    except ConfigError as error:
        assert "name=value" in str(error)
    else:
        assert name and name == text.partition("=")[0].strip()


def test_a_value_may_hold_an_equals_sign() -> None:
    assert parse_setting("mode=a=b") == ("mode", "a=b")


def test_spaces_around_the_equals_sign_do_not_matter() -> None:
    assert parse_setting(" rho = 0.1 ") == ("rho", 0.1)


def test_a_setting_reaches_every_method_that_has_it() -> None:
    sam, plain, scoped = parse_methods(["fedsam", "fedavg", "fedasam"], {"rho": 0.2, "fedasam:rho": 0.3})
    assert (sam.algorithm.rho, scoped.algorithm.rho) == (0.2, 0.3)
    assert plain.algorithm == parse_method("fedavg").algorithm


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_parameter_is_finite(value: float) -> None:
    with pytest.raises(ConfigError, match="rho"):
        parse_method("fedsam", {"rho": value})
