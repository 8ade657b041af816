"""Methods with client optimisers and averages: what runs, what is the same, and what is refused."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import flatfed as ff
from flatfed.algorithms import ClientOptimiser
from flatfed.algorithms.spelling import parse_method, spelling_of
from methods.bench import COHORTS, array, network_setup, train_network
from methods.designs import marked
from methods.identities.shared import METHODS, OPTIMISERS, TAKE_A_CLIENT_OPT, TAKE_NONE, train_id
from methods.table import CLIENT_OPTS

AVERAGES = {"swa": {"average.start": 0.5, "average.cycle": 1}, "wima": {"average.window": 2}}
ROUND = COHORTS[:1]


def trained(spelling: str, settings: dict[str, Any] | None = None) -> Any:
    method = parse_method(spelling, settings)
    assert spelling_of(method.algorithm, method.average) == spelling.replace("+sgd", "")
    return train_network(method.algorithm, network_setup(schedule=ROUND), average=method.average)


def every_pair() -> list[tuple[str, str, str | None]]:
    """Every method with every optimiser, and with every average; every optimiser with every average."""
    averages = (None, *AVERAGES)
    return [
        (method, opt, averages[(i + j) % len(averages)])
        for i, method in enumerate(TAKE_A_CLIENT_OPT)
        for j, opt in enumerate(OPTIMISERS)
    ]


PRODUCT = [(method, opt, name) for method in TAKE_A_CLIENT_OPT for opt in OPTIMISERS for name in (None, *AVERAGES)]


@marked("method, opt, average", PRODUCT, every_pair())
def test_every_method_with_a_choice_runs_with_every_optimiser_and_average(
    method: str, opt: str, average: str | None
) -> None:
    run = trained(f"{method}+{opt}" + (f"+{average}" if average else ""), AVERAGES[average] if average else None)
    assert run.status == "finished"
    assert np.isfinite(array(run.eval_vector)).all()
    assert not np.array_equal(array(run.vector), network_setup().w0)


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("method", TAKE_NONE)
def test_every_other_method_runs_with_every_average(method: str, average: str) -> None:
    run = trained(f"{method}+{average}", AVERAGES[average])
    assert run.status == "finished"
    assert np.isfinite(array(run.eval_vector)).all()


@pytest.mark.parametrize("method", TAKE_A_CLIENT_OPT)
def test_the_optimisers_make_different_runs(method: str) -> None:
    setup, params = network_setup(schedule=ROUND), METHODS[method]
    actual = [array(train_id(method, setup, **params, client_opt=o()).vector) for o in OPTIMISERS.values()]
    for i, a in enumerate(actual):
        assert all(np.linalg.norm(a - b) > 1e-7 for b in actual[:i])


@pytest.mark.parametrize(
    ("spelling", "settings", "named", "params"),
    [
        ("fedavg+sam", {"client_opt.rho": 0.3}, "fedsam", {"rho": 0.3}),
        ("fedavg+asam", {"client_opt.rho": 0.6, "client_opt.eta": 0.1}, "fedasam", {"rho": 0.6, "eta": 0.1}),
        ("fedavg+sam", {}, "fedsam", {}),
        ("fedavg+asam", {}, "fedasam", {}),
        ("fedavg+sgd", {}, "fedavg", {}),
    ],
)
def test_named_methods_are_their_combinations_bit_for_bit(
    spelling: str, settings: dict[str, Any], named: str, params: dict[str, Any]
) -> None:
    setup = network_setup()
    combined = train_network(parse_method(spelling, settings).algorithm, setup)
    np.testing.assert_array_equal(array(combined.vector), array(train_id(named, setup, **params).vector))


@pytest.mark.parametrize("id", [id for id in OPTIMISERS if id != "sgd"])
def test_a_suffix_is_the_optimiser_with_its_published_values(id: str) -> None:
    chosen, cls = parse_method(f"fedavg+{id}").algorithm.client_opt, ClientOptimiser.registry[id]
    assert chosen == cls() == cls(**CLIENT_OPTS[id].published)
    assert getattr(ff, cls.__name__) is cls
    assert chosen.id == id


DEFAULTS: dict[str, dict[str, Any]] = {
    "fedadam": {"server_lr": 0.01, "beta1": 0.9, "beta2": 0.99, "tau": 1e-3, "v0": None, "bias_correction": False},
    "fedyogi": {"server_lr": 0.01, "beta1": 0.9, "beta2": 0.99, "tau": 1e-3, "v0": None},
    "fedadagrad": {"server_lr": 0.01, "beta1": 0.0, "tau": 1e-3, "v0": None},
    "fedadamw": {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "alpha": 0.5, "blocks": "tensor", "server_lr": 1.0},
    "fednova": {},
    "scaffold": {"server_lr": 1.0, "option": "II", "send_dc": True},
    "adabest": {"beta": 0.9, "mu": 0.02, "mu_scaling": "paper"},
    "fedcm": {"alpha": 0.1, "server_lr": 1.0},
    "fedacg": {"lam": 0.85, "beta": 0.001, "server_lr": 1.0},
    "mimelite": {"beta": 0.9, "server_lr": 1.0},
    "mime": {"beta": 0.9, "server_lr": 1.0},
    "mofedsam": {"rho": 0.1, "beta": 0.1, "server_lr": 1.0},
    "fedspeed": {"rho": 0.1, "alpha": 0.95, "lam": 100.0, "server_dual": "all", "normalise": True, "server_lr": 1.0},
    "fedgamma": {"rho": 0.1, "send_dc": True, "server_lr": 1.0},
    "fedlesam": {"rho": 0.01, "ascent": "client", "server_lr": 1.0},
    "fedlesam-s": {"rho": 0.01, "ascent": "client", "send_dc": True, "server_lr": 1.0},
    "fedlesam-d": {"rho": 0.01, "beta": 10.0, "ascent": "client", "server_lr": 1.0},
    "fedgmt": {"alpha": 0.95, "gamma": 1.0, "tau": 3.0, "beta": 10.0, "server_dual": "all"},
    "fedgf": {
        "rho": 0.05,
        "rho_global": None,
        "threshold": 0.2,
        "window": 30,
        "c": None,
        "share_of": "seen",
        "server_lr": 1.0,
    },
    "fedwmsam": {
        "rho": 0.01,
        "alpha": 0.1,
        "lam": 0.01,
        "control": True,
        "perturb_sign": 1,
        "reading": "code",
        "server_lr": 1.0,
    },
    "fedvssam": {
        "rho": 0.05,
        "mix_local": 0.5,
        "mix_global": 0.5,
        "mix_perturb": None,
        "mix_update": None,
        "server_lr": 1.0,
    },
}


@pytest.mark.parametrize("method", DEFAULTS)
def test_a_method_takes_its_published_parameters_and_no_others(method: str) -> None:
    takes = dict(inspect.signature(type(ff.make(method))).parameters)
    assert ("client_opt" in takes) == (method in TAKE_A_CLIENT_OPT)
    assert set(takes) - {"client_opt"} == set(DEFAULTS[method])
    assert ff.make(method) == ff.make(method, **DEFAULTS[method])


# --- refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opt", OPTIMISERS)
@pytest.mark.parametrize("method", TAKE_NONE)
def test_a_method_with_its_own_gradient_takes_no_client_optimiser(method: str, opt: str) -> None:
    with pytest.raises(ff.ConfigError, match=f"{method} takes no client optimiser"):
        parse_method(f"{method}+{opt}")
    with pytest.raises(ff.ConfigError, match="client_opt"):
        ff.make(method, client_opt=OPTIMISERS[opt]())


@pytest.mark.parametrize(
    ("spelling", "reason"),
    [
        ("fedavg+sam+asam", "once each"),
        ("fedavg+sam+vasso", "once each"),
        ("fedavg+swa+sam", "then a client optimiser"),
        ("fedavg+wima+fsam", "then a client optimiser"),
        ("fedavg+swa+wima", "once each"),
        ("sam+fedavg", "not an algorithm"),
        ("wima", "not an algorithm"),
        ("vasso+fedcm", "not an algorithm"),
        ("fedavg+vaso", "vasso"),
        ("fedwsam", "fedwmsam"),
        ("fedlesam_s", "fedlesam-s"),
    ],
)
def test_a_misspelt_combination_is_refused_with_a_reason(spelling: str, reason: str) -> None:
    with pytest.raises(ff.ConfigError, match=reason):
        parse_method(spelling)


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("scaffold", {"option": "III"}, "option"),
        ("adabest", {"mu_scaling": "per_step"}, "mu_scaling"),
        ("fedspeed", {"server_dual": "some"}, "server_dual"),
        ("fedspeed", {"lam": 0.0}, "lam"),
        ("fedgmt", {"server_dual": "some"}, "server_dual"),
        ("fedlesam", {"ascent": "both"}, "ascent"),
        ("fedlesam", {"beta": 10.0}, "beta"),
        ("fedlesam", {"send_dc": False}, "send_dc"),
        ("fedgf", {"share_of": "all"}, "share_of"),
        ("fedgloss", {"rho_server_warmup": "linear"}, "rho_server_warmup"),
        ("fedadam", {"beta1": 1.0}, "beta1"),
        ("fedadagrad", {"beta2": 0.9}, "beta2"),
        ("fedyogi", {"v0": -1.0}, "v0"),
        ("fedcm", {"alpha": 1.2}, "alpha"),
        ("fedadamw", {"beta2": 1.0}, "beta2"),
        ("fedadamw", {"eps": 0.0}, "eps"),
        ("fedadamw", {"blocks": "layer"}, "blocks"),
        ("mofedsam", {"rho": -0.1}, "rho"),
        ("fedacg", {"mu": 0.1}, "mu"),
        ("fednova", {"rho": 0.9}, "rho"),
        ("mime", {"beta": 1.5}, "beta"),
    ],
)
def test_a_value_that_means_nothing_is_refused_by_name(method: str, params: dict[str, Any], named: str) -> None:
    with pytest.raises(ff.ConfigError, match=named):
        ff.make(method, **params)


@pytest.mark.parametrize(
    ("cls", "params", "named"),
    [("VaSSO", {"theta": 1.5}, "theta"), ("FriendlySAM", {"lam": 1.5}, "lam"), ("VaSSO", {"rho": -1.0}, "rho")],
)
def test_an_optimiser_refuses_what_means_nothing(cls: str, params: dict[str, Any], named: str) -> None:
    with pytest.raises(ff.ConfigError, match=named):
        getattr(ff, cls)(**params)


def test_methods_that_divide_by_the_steps_warn_of_momentum_and_the_others_do_not() -> None:
    warned = {"scaffold", "fedadamw", "fedcm", "mofedsam", "fedgamma", "fedlesam-s", "fedwmsam", "fedvssam"}
    setup = network_setup(momentum=0.5, schedule=ROUND)
    for method in METHODS:
        if method in warned:
            with pytest.warns(UserWarning, match="momentum"):
                train_id(method, setup)
        else:
            train_id(method, setup)  # a warning would be an error here
