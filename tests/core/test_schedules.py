"""Schedules over rounds: their formulas, their text, where they may stand, and that every round uses its own number."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import flatfed as ff
from core.bench import net, same_run, task, train
from flatfed.core.configuration.checking import Fraction
from flatfed.core.configuration.config import build
from flatfed.core.configuration.schedules import Schedule
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import ConfigError
from flatfed.core.method.algorithm import Algorithm, ClientOptimiser
from flatfed.core.round.sampling import Bernoulli

unhurried = settings(deadline=None)
numbers = st.floats(-1e6, 1e6)
lengths = st.integers(1, 10_000)
rounds = st.integers(0, 20_000)
steps = st.dictionaries(st.integers(1, 9999), numbers, max_size=5)
schedules = st.one_of(
    st.builds(ff.Ramp, numbers, numbers, lengths),
    st.builds(ff.Cosine, numbers, numbers, lengths),
    st.builds(ff.Decay, numbers, st.floats(1e-6, 1.0)),
    st.builds(ff.Cycle, numbers, numbers, lengths),
    st.builds(ff.CycleFrom, rounds, numbers, numbers, lengths),
    st.builds(lambda first, more: ff.Steps({0: first} | more), numbers, steps),
)
COHORTS = [[0, 1], [1, 2, 3], [0, 3], [2]]
SETTINGS = {
    "lr": (0.4, 0.1, 0.3, 0.2),
    "weight_decay": (0.0, 0.3, 0.1, 0.2),
    "momentum": (0.9, 0.0, 0.5, 0.2),
    "clip": (0.01, 0.05, 0.02, 0.4),
}
MOVING = {
    "fedprox": {"mu": ff.Cosine(0.1, 2.0, 3)},
    "fedavgm": {"server_momentum": ff.Ramp(0.0, 0.9, 3), "server_lr": ff.Steps({0: 1.0, 2: 0.25})},
    "scaffold": {"server_lr": ff.Decay(1.0, 0.5), "client_opt": ff.SAM(rho=ff.Ramp(0.0, 0.2, 2))},
    "fedgloss": {"beta": ff.Ramp(1.0, 10.0, 3), "rho_server": ff.Cycle(0.4, 0.1, 2)},
    "fedwmsam": {"rho": ff.Ramp(0.01, 0.3, 3), "lam": ff.Steps({0: 0.5, 2: 0.1})},
}


def close(actual: float, expected: float, size: float) -> bool:
    return math.isclose(actual, expected, rel_tol=1e-12, abs_tol=1e-12 * max(1.0, size))


# --- the formulas -----------------------------------------------------------------------------------------


@unhurried
@given(a=numbers, b=numbers, n=lengths, t=rounds)
def test_a_ramp_is_a_straight_line_and_then_constant(a: float, b: float, n: int, t: int) -> None:
    expected = b if t >= n else ((n - t) * a + t * b) / n
    assert close(ff.Ramp(a, b, n).value(t), expected, abs(a) + abs(b))


@unhurried
@given(a=numbers, b=numbers, n=lengths, t=rounds)
def test_a_cosine_is_half_a_wave_and_then_constant(a: float, b: float, n: int, t: int) -> None:
    share = math.cos(math.pi * t / (2 * n)) ** 2 if t < n else 0.0
    assert close(ff.Cosine(a, b, n).value(t), share * a + (1 - share) * b, abs(a) + abs(b))


@unhurried
@given(a=numbers, factor=st.floats(0.01, 1.0), t=st.integers(0, 200))
def test_a_decay_is_a_power(a: float, factor: float, t: int) -> None:
    schedule, expected = ff.Decay(a, factor), a
    for _ in range(t):
        expected *= factor
    assert close(schedule.value(t), expected, 0.0)
    assert schedule.value(0) == a


@unhurried
@given(high=numbers, low=numbers, period=lengths, t=rounds)
def test_a_cycle_comes_down_to_its_low_end_again_and_again(high: float, low: float, period: int, t: int) -> None:
    schedule, size = ff.Cycle(high, low, period), abs(high) + abs(low)
    place = t % period + 1
    assert close(schedule.value(t), (high * (period - place) + low * place) / period, size)
    assert schedule.value(t) == schedule.value(t + period)
    assert close(schedule.value(period - 1), low, size)


@unhurried
@given(first=numbers, more=steps, t=rounds)
def test_steps_hold_until_the_next_begins(first: float, more: dict[int, float], t: int) -> None:
    expected = first
    for step in sorted(more):
        if step <= t:
            expected = more[step]
    assert ff.Steps(more | {0: first}).value(t) == expected


@unhurried
@given(schedule=schedules, t=rounds)
def test_bounds_enclose_every_value(schedule: Schedule, t: int) -> None:
    ends = [*schedule.bounds(), 0.0] if isinstance(schedule, ff.Decay) else schedule.bounds()
    slack = 1e-12 * max(1.0, *map(abs, ends))
    assert min(ends) - slack <= schedule.value(t) <= max(ends) + slack


@settings(unhurried, max_examples=200)
@given(
    kind=st.sampled_from([ff.Ramp, ff.Cosine, ff.Cycle]),
    ends=st.tuples(*[st.sampled_from([0.0, 1.0, 5e-324, 1 - 2**-53]) | st.floats(0, 1)] * 2),
    n=st.integers(1, 60),
)
def test_a_schedule_within_a_range_never_leaves_it_by_rounding(kind: Any, ends: tuple[float, float], n: int) -> None:
    method = ff.make("fedcm", alpha=kind(*ends, n))
    for t in range(2 * n):
        assert 0 <= method.at(t).alpha <= 1


# --- text and JSON ----------------------------------------------------------------------------------------


@unhurried
@given(schedule=schedules)
def test_text_comes_back_as_the_same_schedule(schedule: Schedule) -> None:
    back = Schedule.parse(str(schedule))
    assert back == schedule
    assert type(back) is type(schedule)
    assert str(back) == str(schedule)


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("ramp(0.001,0.15,2000)", ff.Ramp(0.001, 0.15, 2000)),
        ("  cosine( 1e-1 , 1e-3 ,500 ) ", ff.Cosine(0.1, 0.001, 500)),
        ("decay (.1, .998)", ff.Decay(0.1, 0.998)),
        ("cycle(0.1,-2,10)", ff.Cycle(0.1, -2, 10)),
        ("cyclefrom(7500, 0.01, 0.0001, 10)", ff.CycleFrom(7500, 0.01, 0.0001, 10)),
        ("steps(100:0.01, 0 : 0.1)", ff.Steps({0: 0.1, 100: 0.01})),
    ],
)
def test_spellings(text: str, schedule: Schedule) -> None:
    assert Schedule.parse(text) == schedule
    assert ff.make("fedcm", alpha="ramp(0,1,3)") == ff.make("fedcm", alpha=ff.Ramp(0, 1, 3))


@unhurried
@given(first=st.floats(0, 10), second=st.floats(1e-3, 10), n=lengths)
def test_a_method_with_schedules_comes_back_from_json(first: float, second: float, n: int) -> None:
    ramp, optimiser = ff.Ramp(first, second, n), ff.ASAM(rho=ff.Cosine(first, second, n), eta=ff.Decay(second, 0.5))
    method = ff.make("fedgloss", rho_server=ramp, beta=ff.Steps({0: second, n: 1.0}), client_opt=optimiser)
    data = json.loads(json.dumps(method.to_dict()))
    assert data["rho_server"] == str(ramp)
    assert data["client_opt"]["eta"] == str(ff.Decay(second, 0.5))
    back = Algorithm.registry.from_dict(data)
    assert back == method
    assert all(back.at(t) == method.at(t) for t in (0, 1, n, n + 1))


def test_settings_with_schedules_come_back_from_json() -> None:
    chosen = Settings(rounds=5, lr="ramp(0.1,0.2,3)", momentum=ff.Decay(0.9, 0.5), clip="steps(0:1,2:3)")
    data = json.loads(json.dumps({k: v for k, v in chosen.to_dict().items() if k != "id"}))
    assert (data["lr"], data["momentum"]) == ("ramp(0.1, 0.2, 3)", "decay(0.9, 0.5)")
    assert data["clip"] == "steps(0:1.0, 2:3.0)"
    assert build(Settings, data) == chosen


def test_a_round_sees_numbers_alone() -> None:
    method = ff.make("fedgloss", rho_server="ramp(0,1,4)", client_opt=ff.SAM(rho=ff.Steps({0: 0.1, 2: 0.3})))
    now = method.at(2)
    assert (now.rho_server, now.client_opt.rho) == (0.5, 0.3)
    assert all(isinstance(value, float) for value in (now.rho_server, now.client_opt.rho))
    assert (now.at(0), now.varying, method.varying) == (now, (), ("rho_server", "client_opt"))
    plain = ff.make("fedgloss")
    assert plain.at(7) is plain


# --- refused ----------------------------------------------------------------------------------------------


def refusal(call: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        call()
    text = str(refused.value)
    assert "\n" not in text and len(text) < 250
    return text


@pytest.mark.parametrize(
    ("method", "name", "schedule", "allowed"),
    [
        ("fedsam", "rho", "ramp(-1,0.1,10)", "at least 0"),
        ("fedsam", "rho", "ramp(0.1,-1,10)", "at least 0"),
        ("fedsam", "rho", "cosine(0.1,-0.1,10)", "at least 0"),
        ("fedsam", "rho", "decay(-0.1,0.5)", "at least 0"),
        ("fedcm", "alpha", "cycle(1.5,0.1,10)", "at most 1"),
        ("fedcm", "alpha", "steps(0:0.1,5:0.2,9:1.1)", "at most 1"),
        ("fedavgm", "server_momentum", "ramp(0,1,10)", "less than 1"),
        ("fedgloss", "beta", "ramp(10,0,10)", "greater than 0"),
    ],
)
def test_a_schedule_that_leaves_the_range_is_refused_by_name(
    method: str, name: str, schedule: str, allowed: str
) -> None:
    text = refusal(lambda: ff.make(method, **{name: schedule}))
    assert text.startswith(f"{method}: {name} must be ")
    assert allowed in text and schedule.partition("(")[0] in text


@pytest.mark.parametrize(
    ("name", "schedule"),
    [
        ("lr", "ramp(-0.1,0.1,5)"),
        ("weight_decay", "decay(-1,0.5)"),
        ("momentum", "ramp(0,1,5)"),
        ("clip", "ramp(1,0,5)"),
    ],
)
def test_a_setting_that_leaves_its_range_is_refused_by_name(name: str, schedule: str) -> None:
    assert refusal(lambda: Settings(**{"rounds": 3, "lr": 0.1, name: schedule})).startswith(f"{name} must be ")


FIXED: dict[str, Any] = {
    "a whole number": (lambda c: ff.make("fedgf", window=c), "fedgf: window cannot change over the rounds"),
    "a warm-up": (lambda c: ff.make("fedgloss", rho_warmup=c), "fedgloss: rho_warmup cannot change over the rounds"),
    "a choice": (lambda c: ff.make("scaffold", option=c), "scaffold: option must be one of 'I', 'II'"),
    "a truth value": (lambda c: ff.make("fedgloss", admm=c), "fedgloss: admm must be true or false"),
    "an average": (lambda c: ff.SWA(lr_low=c), "swa: lr_low cannot change over the rounds"),
    "a window": (lambda c: ff.WIMA(window=c), "wima: window cannot change over the rounds"),
    "a sampler": (lambda c: Bernoulli(p=c), "bernoulli: p cannot change over the rounds"),
    "a first value": (lambda c: ff.make("fedwmsam", alpha=c), "fedwmsam: alpha cannot change over the rounds"),
    "rounds": (lambda c: Settings(rounds=c, lr=0.1), "rounds cannot change over the rounds"),
    "batch size": (lambda c: Settings(rounds=1, lr=0.1, batch_size=c), "batch_size cannot change over the rounds"),
    "lr_decay": (lambda c: Settings(rounds=1, lr=0.1, lr_decay=c), "lr_decay cannot change over the rounds"),
    "a bound": (
        lambda c: Settings(rounds=1, lr=0.1, max_update_norm=c),
        "max_update_norm cannot change over the rounds",
    ),
    "a schedule": (lambda c: ff.Ramp(0.0, c, 3), "ramp: end cannot change over the rounds"),
}


@pytest.mark.parametrize("schedule", [ff.Ramp(0.1, 0.5, 3), "ramp(0.1, 0.5, 3)"], ids=["object", "text"])
@pytest.mark.parametrize("where", FIXED)
def test_what_cannot_change_says_so(where: str, schedule: Any) -> None:
    call, beginning = FIXED[where]
    text = refusal(lambda: call(schedule))
    assert text.startswith(beginning)
    assert "ramp" in text.lower()


MALFORMED = {
    "ramp(1,2)": ["ramp(start, end, rounds)"],
    "ramp(1,2,3,4)": ["ramp(start, end, rounds)"],
    "ramp()": ["ramp(start, end, rounds)"],
    "ramp(a,b,c)": ["ramp(a,b,c)", "numbers"],
    "rmp(1,2,3)": ["'rmp'", "'ramp'"],
    "cosinus(1,2,3)": ["'cosinus'", "'cosine'"],
    "zzz(1)": ["'zzz'", "cosine, cycle, cyclefrom, decay, poly, ramp, steps"],
    "ramp(1,2,2.5)": ["rounds", "whole number", "2.5"],
    "ramp(1,2,0)": ["rounds", "at least 1"],
    "ramp(1,2,nan)": ["rounds", "nan"],
    "ramp(inf,2,3)": ["start", "finite", "inf"],
    "cycle(1,2,-3)": ["period", "at least 1"],
    "cyclefrom(-1,2,1,3)": ["start", "at least 0"],
    "cyclefrom(1.5,2,1,3)": ["start", "whole number"],
    "cyclefrom(1,2,1)": ["cyclefrom(start, high, low, period)"],
    "decay(1,0)": ["factor", "greater than 0"],
    "decay(1,1.5)": ["factor", "at most 1"],
    "steps(5:1)": ["round 0", "steps(0:0.1, 100:0.01)"],
    "steps(-1:1, 0:1)": ["round 0"],
    "steps()": ["steps"],
    "steps(0:1:2)": ["steps"],
    "steps(0:a)": ["steps"],
    "steps(0.5:1)": ["steps"],
    "steps(0:inf)": ["steps", "finite"],
    "steps(1, 2)": ["steps"],
    "ramp(1,2,3": ["number"],
    "ramp(1,2,3))": ["number"],
    "ramp": ["number"],
    "ramp 1 2 3": ["number"],
    "": ["number"],
}


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_text_is_refused_in_one_sentence(text: str) -> None:
    for said in (refusal(lambda: ff.make("fedsam", rho=text)), refusal(lambda: Settings(rounds=1, lr=text))):
        assert "rho" in said or said.startswith("lr")
        assert all(part in said for part in MALFORMED[text])


@pytest.mark.parametrize("values", [{}, {1: 0.1}, {0.5: 1.0}, {0: "a"}, {0: math.nan}, {"0": 1.0}, [0.1], 0.1])
def test_steps_need_numbers_from_round_0_on(values: Any) -> None:
    assert refusal(lambda: ff.Steps(values)).startswith("steps: ")


# --- every round uses its own number ----------------------------------------------------------------------


def chained(values: dict[str, Any], method: dict[str, Any] | None = None, count: int = 4) -> torch.Tensor:
    """Play the rounds one at a time with plain numbers, each from where the last one ended; for stateless methods."""
    model = net()
    for t in range(count):
        now = {name: numbers[t] for name, numbers in values.items()}
        made = ff.make("fedprox", **{name: numbers[t] for name, numbers in (method or {}).items()})
        single = train(task(model), made, [COHORTS[t]], local_epochs=2, **now)
        model = single.model()
    return single.vector


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_acts_round_by_round(name: str) -> None:
    schedule = ff.Steps(dict(enumerate(SETTINGS[name])))
    run = train(task(), ff.make("fedprox"), COHORTS, local_epochs=2, **{name: schedule})
    torch.testing.assert_close(run.vector, chained({name: SETTINGS[name]}), rtol=1e-12, atol=1e-14)
    used = [row["lr"] for row in run.history]
    assert used == (list(SETTINGS["lr"]) if name == "lr" else [0.3] * 4)
    assert not torch.equal(run.vector, train(task(), ff.make("fedprox"), COHORTS, local_epochs=2).vector)


@pytest.mark.parametrize(
    "schedule", [ff.Ramp(0.1, 0.4, 3), ff.Cosine(0.1, 0.4, 3), ff.Decay(0.4, 0.5), ff.Cycle(1, 0, 3)]
)
def test_all_at_once_and_with_a_parameter(schedule: Schedule) -> None:
    run = train(task(), ff.make("fedprox", mu=schedule), COHORTS, local_epochs=2, lr=schedule, weight_decay=schedule)
    values = [schedule.value(t) for t in range(4)]
    expected = chained({"lr": values, "weight_decay": values}, {"mu": values})
    torch.testing.assert_close(run.vector, expected, rtol=1e-12, atol=1e-14)
    assert [row["lr"] for row in run.history] == values


def test_the_decay_of_the_rate_multiplies_the_schedule() -> None:
    run = train(task(), cohorts=COHORTS, lr="ramp(0.4,0.1,3)", lr_decay=0.5)
    assert [row["lr"] for row in run.history] == pytest.approx([0.4, 0.3 / 2, 0.2 / 4, 0.1 / 8], rel=1e-14)


@unhurried
@given(
    high=st.floats(1e-6, 10),
    low=st.floats(0, 1),
    cycle=st.integers(2, 30),
    start=st.floats(0, 1),
    planned=st.integers(1, 60),
)
def test_a_cycle_from_a_round_on_is_the_rate_of_swa(
    high: float, low: float, cycle: int, start: float, planned: int
) -> None:
    """SWA's own rate, of the cycle that ends with a capture, without SWA; a cycle of 1 alone is another thing there."""
    average = ff.SWA(start=start, cycle=cycle, lr_low=low)
    schedule = ff.CycleFrom(average.first(planned), high, low, cycle)
    assert [schedule.value(t) for t in range(planned)] == [average.lr(high, t, planned) for t in range(planned)]


def test_the_cyclic_rate_alone_gives_the_trajectory_of_swa() -> None:
    average = ff.SWA(start=0.5, cycle=2, lr_low=0.1)
    alone = train(task(), cohorts=COHORTS, lr="cyclefrom(2, 0.4, 0.1, 2)")
    averaged = train(task(), cohorts=COHORTS, lr=0.4, average=average)
    assert [row["lr"] for row in alone.history] == [row["lr"] for row in averaged.history]
    assert torch.equal(alone.vector, averaged.vector) and torch.equal(alone.eval_vector, alone.vector)


def test_swa_starts_each_cycle_from_the_schedule() -> None:
    average = ff.SWA(start=0.5, cycle=2, lr_low=0.1)
    run = train(task(), cohorts=COHORTS, lr="steps(0:0.4,2:0.3,3:0.2)", average=average)
    assert [row["lr"] for row in run.history] == pytest.approx([0.4, 0.4, (0.3 + 0.1) / 2, 0.1], rel=1e-14)


def test_a_schedule_in_a_client_optimiser_acts_round_by_round() -> None:
    values = (0.0, 0.5, 0.1, 0.3)
    optimisers = [ff.SAM(rho=value) for value in values]
    made = ff.make("fedprox", client_opt=ff.SAM(rho=ff.Steps(dict(enumerate(values)))))
    run = train(task(), made, COHORTS, local_epochs=2)
    torch.testing.assert_close(run.vector, chained({}, {"client_opt": optimisers}), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("method", MOVING)
def test_neither_workers_nor_interruptions_matter(method: str, tmp_path: Path) -> None:
    made = ff.make(method, **MOVING[method])
    chosen = {"lr": ff.Cosine(0.3, 0.05, 3), "weight_decay": "ramp(0,0.1,3)", "local_epochs": 2}
    whole = train(task(), made, COHORTS, **chosen)
    assert same_run(whole, train(task(), made, COHORTS, **chosen, workers=2), 4)
    train(task(), made, COHORTS, **chosen, rounds=2, out=tmp_path / "run")
    resumed = ff.resume(tmp_path / "run", rounds=4)
    assert same_run(whole, resumed, 4)
    assert [row["lr"] for row in resumed.history] == [row["lr"] for row in whole.history]
    constant = ff.make(method, **{n: v for n, v in made.at(0).to_dict().items() if n != "id"})
    assert not torch.equal(train(task(), constant, COHORTS, **chosen).vector, whole.vector)


def test_the_record_holds_the_text(tmp_path: Path) -> None:
    made = ff.make("fedavg", server_lr=ff.Ramp(1, 0.5, 3), client_opt=ff.SAM(rho="steps(0:0.1,2:0.2)"))
    train(task(), made, COHORTS, lr=ff.Cosine(0.3, 0.1, 4), clip="decay(5,0.5)", out=tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["algorithm"]["server_lr"] == "ramp(1.0, 0.5, 3)"
    assert config["algorithm"]["client_opt"] == {"id": "sam", "rho": "steps(0:0.1, 2:0.2)", "space": "trained"}
    assert (config["settings"]["lr"], config["settings"]["clip"]) == ("cosine(0.3, 0.1, 4)", "decay(5.0, 0.5)")


def test_a_schedule_costs_nothing() -> None:
    varied = train(task(), ff.make("fedsam", rho="ramp(0.1,0.2,3)"), COHORTS, lr="ramp(0.1,0.2,3)").history
    plain = train(task(), ff.make("fedsam"), COHORTS).history
    for name in ("bytes_down", "bytes_up", "backprops"):
        assert [row[name] for row in varied] == [row[name] for row in plain]


# --- constraints between parameters -----------------------------------------------------------------------


class Shares(Algorithm):
    """A method whose two parameters may not exceed 1 together."""

    a: Fraction = 0.5
    b: Fraction = 0.5
    kind: Literal["x", "y"] = "x"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.varying and self.a + self.b > 1:
            raise ConfigError(f"shares: a={self.a:g} and b={self.b:g} exceed 1 together")


def test_constraints_between_parameters_hold_in_every_round() -> None:
    good = Shares(a=ff.Ramp(0.0, 1.0, 4), b=ff.Ramp(1.0, 0.0, 4))
    assert train(task(), good, COHORTS).status == "finished"
    bad = Shares(a=ff.Steps({0: 0.2, 3: 0.9}), b=0.5)
    assert train(task(), bad, COHORTS[:3]).status == "finished"
    played: list[Any] = []
    assert "exceed 1" in refusal(lambda: train(task(), bad, COHORTS, on_round=played.append))
    assert played == []


@pytest.mark.parametrize("rho", [ff.Ramp(0.0, 0.1, 3), ff.Steps({0: 0.0, 3: 0.1})])
def test_momentum_that_is_gone_cannot_be_perturbed_along_in_any_round(rho: Schedule) -> None:
    played: list[Any] = []

    def call() -> None:
        train(task(), ff.make("fedwmsam", alpha=1.0, lam=0.0, rho=rho), COHORTS, on_round=played.append)

    assert "alpha" in refusal(call)
    assert played == []


@pytest.mark.parametrize("method", ["scaffold", "fedcm", "fedvssam"])
def test_a_rate_of_zero_is_refused_where_formulas_divide_by_it(method: str) -> None:
    text = refusal(lambda: train(task(), ff.make(method), COHORTS, lr="ramp(0.1,0,3)"))
    assert method in text and "learning rate" in text
    assert train(task(), ff.make(method), COHORTS[:3], lr="ramp(0.1,0,3)").status == "finished"
    assert train(task(), cohorts=COHORTS, lr="ramp(0.1,0,3)").history[-1]["update_norm"] == 0


def test_client_momentum_in_any_round_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="exact only without client momentum"):
        train(task(), ff.make("scaffold"), COHORTS, momentum="steps(0:0,3:0.5)")


def test_schedules_are_no_client_optimisers() -> None:
    assert not set(Schedule.registry) & (set(Algorithm.registry) | set(ClientOptimiser.registry))
    assert "ramp" in refusal(lambda: ff.make("fedavg", client_opt="ramp(1,2,3)"))
