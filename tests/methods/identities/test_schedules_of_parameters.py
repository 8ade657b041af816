"""Parameters and rates that follow a schedule over the rounds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import flatfed as ff
from methods.bench import (
    COHORTS,
    Point,
    array,
    assert_close,
    client_opt,
    linear,
    network_setup,
    same_state,
    train_network,
    train_point,
)
from methods.identities.shared import (
    METHODS,
    OPTIMISERS,
    continued,
    distance,
    few,
    fewer,
    plain_setup,
    slope,
    train_id,
    vector,
)
from methods.table import CLIENT_OPTS

number = st.floats(1e-4, 2.0)


def constant_schedules(x: float) -> list[Any]:
    return [
        ff.Ramp(x, x, 3),
        ff.Decay(x, 1.0),
        ff.Steps({0: x, 2: x}),
        ff.Cosine(x, x, 4),
        ff.Cycle(x, x, 3),
    ]


KINDS = ("ramp", "decay", "steps", "cosine", "cycle")


# --- the schedules themselves, seen through the rate --------------------------------------------------------


def rates(schedule: Any, rounds: int, **settings: Any) -> list[float]:
    g = np.array([1.0, -2.0])
    run = train_point(
        ff.make("fedavg"), Point(np.zeros(2)), [slope(g)], rounds=rounds, loss=linear, lr=schedule, **settings
    )
    used = [row["lr"] for row in run.history]
    assert_close(run.vector, -sum(used) * g, rel=1e-12)
    return used


@given(start=number, end=number, rounds=st.integers(1, 6))
@few
def test_a_ramp_is_a_line_and_then_constant(start: float, end: float, rounds: int) -> None:
    expected = [start + (end - start) * min(t, rounds) / rounds for t in range(8)]
    assert rates(ff.Ramp(start, end, rounds), 8) == pytest.approx(expected, rel=1e-12)


@given(start=number, end=number, rounds=st.integers(1, 6))
@few
def test_a_cosine_is_half_a_wave_and_then_constant(start: float, end: float, rounds: int) -> None:
    expected = [end + (start - end) * (1 + math.cos(math.pi * min(t, rounds) / rounds)) / 2 for t in range(8)]
    assert rates(ff.Cosine(start, end, rounds), 8) == pytest.approx(expected, rel=1e-12)


@given(start=number, factor=st.floats(0.5, 1.0))
@few
def test_a_decay_of_the_rate_is_lr_decay(start: float, factor: float) -> None:
    assert rates(ff.Decay(start, factor), 6) == rates(start, 6, lr_decay=factor)


def test_steps_hold_until_the_next_one() -> None:
    assert rates(ff.Steps({0: 0.4, 2: 0.1, 5: 0.3}), 7) == [0.4, 0.4, 0.1, 0.1, 0.1, 0.3, 0.3]
    assert rates(ff.Steps({5: 0.3, 0: 0.4, 2: 0.1}), 7) == rates(ff.Steps({0: 0.4, 2: 0.1, 5: 0.3}), 7)


@given(high=number, low=number, period=st.integers(1, 4))
@few
def test_a_cycle_goes_down_to_its_low_end_and_starts_again(high: float, low: float, period: int) -> None:
    phases = [(t % period + 1) / period for t in range(8)]
    assert rates(ff.Cycle(high, low, period), 8) == pytest.approx([(1 - u) * high + u * low for u in phases], rel=1e-12)


def test_a_cycle_of_the_rate_is_that_of_swa() -> None:
    setup = network_setup(lr_decay=1.0)
    swa = train_network(ff.make("fedavg"), setup, average=ff.SWA(start=0.0, cycle=3, lr_low=0.01))
    cycle = train_network(ff.make("fedavg"), setup, lr=ff.Cycle(setup.lr, 0.01, 3))
    assert_close(cycle.vector, swa.vector, rel=1e-13)


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("ramp(0.1, 0.4, 3)", lambda: ff.Ramp(0.1, 0.4, 3)),
        ("decay(0.4, 0.9)", lambda: ff.Decay(0.4, 0.9)),
        ("steps(0:0.4, 2:0.1)", lambda: ff.Steps({0: 0.4, 2: 0.1})),
        ("cycle(0.4, 0.1, 2)", lambda: ff.Cycle(0.4, 0.1, 2)),
        ("cosine(0.4, 0.1, 4)", lambda: ff.Cosine(0.4, 0.1, 4)),
    ],
)
def test_the_text_of_a_schedule_is_the_schedule(text: str, schedule: Any) -> None:
    setup = network_setup()
    a, b = (train_network(ff.make("fedsam", rho=c), setup, lr=c) for c in (text, schedule()))
    assert torch.equal(a.vector, b.vector)


# --- a schedule that is constant is its number --------------------------------------------------------------


FIRST_VALUES = {("fedwmsam", "alpha"), ("fedadam", "v0"), ("fedyogi", "v0"), ("fedadagrad", "v0")}


def real_parameters(method: str) -> list[str]:
    real = [name for name, value in METHODS[method].items() if isinstance(value, float)]
    return [name for name in real if (method, name) not in FIRST_VALUES]


@pytest.mark.parametrize(("method", "name"), [(m, name) for m in METHODS for name in real_parameters(m)])
def test_a_constant_schedule_of_a_parameter_is_its_number(method: str, name: str) -> None:
    setup, params = network_setup(schedule=COHORTS[:4]), METHODS[method]
    plain = train_id(method, setup, **params)
    schedule = train_id(method, setup, **{**params, name: ff.Ramp(params[name], params[name], 3)})
    assert torch.equal(schedule.vector, plain.vector)
    assert same_state(schedule.server_state, plain.server_state)


@given(x=number, period=st.integers(1, 20), t=st.integers(0, 40))
@settings(few, max_examples=40)
def test_a_constant_schedule_takes_its_number_bit_for_bit(x: float, period: int, t: int) -> None:
    for schedule in (ff.Ramp(x, x, period), ff.Decay(x, 1.0), ff.Steps({0: x, period: x}), ff.Cosine(x, x, period)):
        assert schedule.value(t) == x
    assert ff.Cycle(x, x, period).value(t) == x


@pytest.mark.parametrize("kind", range(5), ids=KINDS)
@pytest.mark.parametrize("x", [0.3, 0.1, 0.7])
def test_every_kind_of_constant_schedule_is_its_number(kind: int, x: float) -> None:
    setup = network_setup()
    plain = train_network(ff.make("fedprox", mu=x, client_opt=ff.SAM(rho=x)), setup, lr=x)
    schedule = constant_schedules(x)[kind]
    varied = train_network(ff.make("fedprox", mu=schedule, client_opt=ff.SAM(rho=schedule)), setup, lr=schedule)
    assert torch.equal(varied.vector, plain.vector)
    assert [row["lr"] for row in varied.history] == [row["lr"] for row in plain.history]


@pytest.mark.parametrize("opt", [name for name in OPTIMISERS if name != "sgd"])
def test_a_constant_schedule_in_a_client_optimiser_is_its_number(opt: str) -> None:
    setup, chosen = network_setup(schedule=COHORTS[:4]), CLIENT_OPTS[opt].opt
    plain = vector("feddyn", setup, client_opt=client_opt(chosen))
    numbers = {name: value for name, value in chosen.more.items() if isinstance(value, float)}
    varied = [replace(chosen, rho=ff.Cosine(chosen.rho, chosen.rho, 3))]
    varied += [replace(chosen, more={**chosen.more, name: ff.Cosine(x, x, 3)}) for name, x in numbers.items()]
    for other in varied:
        np.testing.assert_array_equal(vector("feddyn", setup, client_opt=client_opt(other)), plain)


# --- a schedule that moves is another number in every round -------------------------------------------------


@given(start=number, end=number)
@fewer
def test_every_round_uses_its_own_number(start: float, end: float) -> None:
    setup = network_setup(schedule=COHORTS[:3])
    w = setup.w0
    for t in range(3):
        now = start + (end - start) * t / 2
        w = vector("fedprox", continued(setup, w, t), mu=now, client_opt=ff.SAM(rho=now))
    schedule = ff.Ramp(start, end, 2)
    assert_close(vector("fedprox", setup, mu=schedule, client_opt=ff.SAM(rho=schedule)), w, rel=1e-12)


@pytest.mark.parametrize("name", ["alpha", "mix_local"])
def test_the_server_s_side_of_a_method_follows_the_schedule_too(name: str) -> None:
    """A constant gradient shows each round's coefficient: d <- d + alpha (G - d)."""
    g, schedule = np.array([1.0, -2.0]), ff.Steps({0: 0.5, 1: 0.25, 2: 1.0})
    method, state = ("fedcm", "momentum") if name == "alpha" else ("fedvssam", "d")
    extra = {} if name == "alpha" else {"mix_global": 1.0}
    reached = 0.0
    for rounds, coefficient in enumerate((0.5, 0.25, 1.0), start=1):
        made = ff.make(method, **{name: schedule}, **extra)
        run = train_point(made, Point(np.zeros(2)), [slope(g)], rounds=rounds, loss=linear, local_epochs=2)
        reached += coefficient * (1 - reached)
        assert_close(run.server_state[state], reached * g, rel=1e-12)


def test_a_schedule_of_the_server_s_rate_is_used_on_the_server() -> None:
    g, schedule = np.array([1.0, -2.0]), ff.Steps({0: 0.5, 1: 2.0})
    run = train_point(ff.make("fedavg", server_lr=schedule), Point(np.zeros(2)), [slope(g)], rounds=3, loss=linear)
    assert_close(run.vector, -0.1 * (0.5 + 2.0 + 2.0) * g, rel=1e-13)


@pytest.mark.parametrize("name", ["weight_decay", "momentum", "clip"])
def test_a_setting_of_the_local_step_follows_its_schedule(name: str) -> None:
    setup, values = network_setup(schedule=COHORTS[:3]), (0.1, 0.4, 0.2)
    w = setup.w0
    for t, value in enumerate(values):
        w = array(train_network(ff.make("fedavg"), continued(setup, w, t), **{name: value}).vector)
    schedule = ff.Steps(dict(enumerate(values)))
    assert_close(train_network(ff.make("fedavg"), setup, **{name: schedule}).vector, w, rel=1e-12)


def test_the_decay_of_the_rate_goes_on_with_a_schedule() -> None:
    used = rates(ff.Ramp(0.4, 0.1, 3), 5, lr_decay=0.5)
    assert used == pytest.approx([0.4, 0.3 / 2, 0.2 / 4, 0.1 / 8, 0.1 / 16], rel=1e-12)


# --- warm-ups are schedules ---------------------------------------------------------------------------------


@pytest.mark.parametrize("opt", ["SAM", "ASAM"])
@pytest.mark.parametrize("method", ["fedgloss", "naivefedgloss"])
@given(rho=number, start=st.floats(0, 0.5), T=st.integers(1, 5))
@fewer
def test_the_warm_up_of_the_client_radius_is_a_ramp(method: str, opt: str, rho: float, start: float, T: int) -> None:
    setup, made = network_setup(schedule=COHORTS[:4]), getattr(ff, opt)
    warm = vector(method, setup, rho_start=start, rho_warmup=T, client_opt=made(rho=rho))
    assert_close(vector(method, setup, client_opt=made(rho=ff.Ramp(start, rho, T))), warm, rel=1e-12)


@pytest.mark.parametrize("method", ["fedgloss", "naivefedgloss"])
@given(rho=number, start=st.floats(0, 0.5), T=st.integers(2, 5))
@fewer
def test_the_warm_up_of_the_server_radius_is_a_schedule(method: str, rho: float, start: float, T: int) -> None:
    setup = network_setup(schedule=COHORTS[:5])
    client = {"rho_start": start, "rho_warmup": T, "client_opt": ff.SAM(rho=0.3)}
    ramp = vector(method, setup, rho_server=rho, rho_server_warmup="ramp", **client)
    assert_close(ramp, vector(method, setup, rho_server=ff.Ramp(start, rho, T), **client), rel=1e-12)
    official = vector(method, setup, rho_server=rho, rho_server_warmup="official", **client)
    steps = ff.Steps({0: rho, 1: 0.3 + (rho - start) / T, T + 1: rho})
    assert_close(official, vector(method, setup, rho_server=steps, **client), rel=1e-12)


@pytest.mark.parametrize("method", ["fedgloss", "naivefedgloss"])
def test_the_server_radius_is_constant_unless_asked(method: str) -> None:
    setup = network_setup()
    warm = {"rho_server": 0.4, "rho_warmup": 4, "client_opt": ff.SAM(rho=0.3)}
    default = vector(method, setup, **warm)
    np.testing.assert_array_equal(vector(method, setup, **warm, rho_server_warmup="none"), default)
    for other in ("ramp", "official"):
        assert distance(vector(method, setup, **warm, rho_server_warmup=other), default) > 1e-4


# --- refused ----------------------------------------------------------------------------------------------


def test_a_schedule_must_stay_within_the_range_of_its_parameter() -> None:
    with pytest.raises(ff.ConfigError, match="alpha"):
        ff.make("fedcm", alpha=ff.Ramp(0.5, 1.5, 10))
    with pytest.raises(ff.ConfigError, match="rho"):
        ff.SAM(rho=ff.Steps({0: 0.1, 5: -0.1}))


@pytest.mark.parametrize(("method", "name"), sorted(FIRST_VALUES))
def test_the_first_value_of_a_state_cannot_follow_a_schedule(method: str, name: str) -> None:
    with pytest.raises(ff.ConfigError, match=name):
        ff.make(method, **{name: ff.Ramp(0.2, 0.4, 3)})


def test_a_whole_number_cannot_follow_a_schedule() -> None:
    with pytest.raises(ff.ConfigError, match="window"):
        ff.make("fedgf", window=ff.Ramp(1, 30, 10))


def test_a_rate_that_reaches_zero_is_refused_where_it_divides() -> None:
    for method in ("scaffold", "fedadamw", "fedcm", "mofedsam", "fedgamma", "fedlesam-s", "fedwmsam", "fedvssam"):
        with pytest.raises(ff.ConfigError, match="learning rate"):
            train_network(ff.make(method), plain_setup(), lr=ff.Ramp(0.1, 0.0, 3))
