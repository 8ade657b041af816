"""The class is the configuration: checked when made, frozen, and JSON there and back."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Annotated, Any, ClassVar, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flatfed as ff
from flatfed.algorithms import make
from flatfed.core.configuration.checking import Alias, Count, Fraction, Index, Momentum, Positive, Range
from flatfed.core.configuration.config import Config, build, parameters
from flatfed.core.configuration.registry import Registry
from flatfed.core.configuration.settings import Settings, dtype_name
from flatfed.core.method.algorithm import Algorithm, Average, ClientOptimiser
from flatfed.core.round.sampling import Sampler

FAMILIES = (Algorithm, ClientOptimiser, Average, Sampler)
MEMBERS = [(family, id) for family in FAMILIES for id in sorted(family.registry)]
REQUIRED = {"uniform": {"count": 3}, "bernoulli": {"p": 0.5}, "replay": {"cohorts": [[0, 3], [1]]}}


class Gadget(Config):
    """A family of its own, so that these tests enter nothing into the real ones."""

    registry: ClassVar[Registry[Any]] = Registry("gadget")


class Crank(Gadget, id="crank"):
    """One parameter of each kind."""

    count: Count = 1
    index: Index = 0
    share: Fraction = 0.5
    decay: Momentum = 0.0
    force: Positive | None = 1.0
    angle: Annotated[float, Range(low=-1.0, high=1.0, open_low=True)] = 0.0
    mode: Literal["a", "b"] = "a"
    on: bool = True
    client_opt: ClientOptimiser = ff.SGD()


def changed(id: str, cls: type[Config]) -> Config:
    """Return a configuration whose numbers are not the defaults."""
    values: dict[str, Any] = {}
    for name, hint in parameters(cls).items():
        if name == "client_opt":
            values[name] = ff.ASAM(rho=0.125, eta=0.25)
        elif "float" in str(hint):
            values[name] = 0.375
    return cls(**{**REQUIRED.get(id, {}), **{k: v for k, v in values.items() if k not in REQUIRED.get(id, {})}})


def test_the_documented_ids_are_registered():
    assert {"fedavg", "fedprox", "fedavgm", "scaffold", "feddyn", "fedsam", "fedasam"} <= set(Algorithm.registry)
    assert {"fedgf", "fedgloss", "naivefedgloss", "fedsmoo", "fedgmt"} <= set(Algorithm.registry)
    assert set(ClientOptimiser.registry) >= {"sgd", "sam", "asam"}
    assert "swa" in Average.registry
    assert set(Sampler.registry) == {"uniform", "bernoulli", "replay"}


@pytest.mark.parametrize(("family", "id"), MEMBERS, ids=[id for _, id in MEMBERS])
def test_json_brings_every_configuration_back(family, id):
    config = changed(id, family.registry[id])
    data = json.loads(json.dumps(config.to_dict()))
    assert data["id"] == id == config.id
    back = family.registry.from_dict(data)
    assert back == config
    assert type(back) is type(config)
    assert back.to_dict() == config.to_dict()


def test_settings_come_back_too():
    chosen = Settings(rounds=3, lr=0.1, batch_size=None, clip=2, dtype="float64", max_update_norm=9.5)
    data = json.loads(json.dumps({k: v for k, v in chosen.to_dict().items() if k != "id"}))
    assert build(Settings, data) == chosen


@pytest.mark.parametrize(("family", "id"), MEMBERS, ids=[id for _, id in MEMBERS])
def test_a_configuration_is_frozen(family, id):
    config = changed(id, family.registry[id])
    for name in [*parameters(type(config)), "anything"]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(config, name, 1)


def test_make_and_the_class_are_the_same_thing():
    assert make("fedgloss", rho_server=0.2, client_opt="sam") == ff.FedGloSS(rho_server=0.2, client_opt=ff.SAM())
    assert ff.SAM(0.3).replace(rho=0.4) == ff.SAM(rho=0.4)
    assert make("fedavg", client_opt={"id": "asam", "eta": 0.5}).client_opt == ff.ASAM(eta=0.5)


@pytest.mark.parametrize(
    ("id", "nearest"),
    [("fedgloS", "fedgloss"), ("FedAvg", "fedavg"), ("scafold", "scaffold"), ("fed-sam", "fedsam")],
)
def test_an_unknown_id_names_the_nearest(id, nearest):
    with pytest.raises(ff.ConfigError, match=f"unknown algorithm {id!r}; did you mean .*{nearest!r}"):
        make(id)


def test_a_far_off_id_lists_what_there_is():
    known = ", ".join(sorted(ClientOptimiser.registry))
    with pytest.raises(ff.ConfigError, match=f"unknown client optimiser 'qqqq'; known: {known}"):
        make("fedavg", client_opt="qqqq")


@pytest.mark.parametrize(
    "call",
    [
        lambda: make("fedgloss", rho_sever=0.1),
        lambda: ff.FedGloSS(rho_sever=0.1),
        lambda: ff.FedGloSS().replace(rho_sever=0.1),
        lambda: Algorithm.registry.from_dict({"id": "fedgloss", "rho_sever": 0.1}),
    ],
    ids=["make", "class", "replace", "from_dict"],
)
def test_an_unknown_parameter_names_the_nearest(call):
    with pytest.raises(ff.ConfigError, match=r"fedgloss: unknown parameter 'rho_sever'; did you mean 'rho_server'"):
        call()


numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-5, 5)
LIMITS = {
    "count": lambda v: v >= 1,
    "index": lambda v: v >= 0,
    "share": lambda v: 0 <= v <= 1,
    "decay": lambda v: 0 <= v < 1,
    "force": lambda v: v > 0,
    "angle": lambda v: -1 < v <= 1,
}


@settings(deadline=None)
@given(name=st.sampled_from(sorted(LIMITS)), value=numbers | st.sampled_from([0, 1, -1, 0.0, 1.0, -1.0, 1e-300]))
def test_numbers_are_taken_in_their_range_and_only_there(name, value):
    whole = name in ("count", "index")
    if LIMITS[name](value) and (not whole or float(value).is_integer()):
        taken = getattr(Crank(**{name: value}), name)
        assert taken == value
        assert type(taken) is (int if whole else float)
    else:
        with pytest.raises(ff.ConfigError, match=f"crank: {name} must be "):
            Crank(**{name: value})


WRONG = {
    "digit": "1",
    "none": None,
    "list": [1],
    "without-id": {"rho": 0.1},
    "nan": math.nan,
    "complex": 1j,
    "bytes": b"a",
    "huge": 10**400,
    "average": ff.SWA(),
}


@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("name", ["share", "angle", "decay", "mode", "on", "client_opt"])
def test_values_of_another_type_are_refused_in_one_sentence(name, value):
    with pytest.raises(ff.ConfigError) as refused:
        Crank(**{name: value})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("name", sorted(LIMITS))
def test_true_and_false_are_not_numbers(name, value):
    with pytest.raises(ff.ConfigError, match="number"):
        Crank(**{name: value})


def test_messages_say_what_was_expected():
    with pytest.raises(ff.ConfigError, match=r"crank: angle must be greater than -1 and at most 1, not -1\.0"):
        Crank(angle=-1.0)
    with pytest.raises(ff.ConfigError, match=r"crank: mode must be one of 'a', 'b', not 'c'"):
        Crank(mode="c")
    with pytest.raises(ff.ConfigError, match=r"crank: on must be true or false, not 1"):
        Crank(on=1)
    with pytest.raises(ff.ConfigError, match=r"dtype must be torch\.float32 or torch\.float64, not float16"):
        dtype_name("float16")


def test_two_classes_cannot_share_an_id():
    with pytest.raises(ff.ConfigError, match=r"gadget id 'crank' is taken by .*Crank"):

        class Impostor(Gadget, id="crank"):
            pass

    assert Gadget.registry["crank"] is Crank


def test_a_subclass_without_an_id_does_not_pass_for_its_parent():
    class Variant(Crank):
        pass

    assert Gadget.registry["crank"] is Crank
    assert Variant().to_dict()["id"] != "crank"


class Lever(Gadget, id="lever"):
    pull: Annotated[Literal["soft", "hard"], Alias("gentle", stands_for="soft")] = "soft"
    angle: float = dataclasses.field(default=0.0, kw_only=True)
    length: float = 1.0


def test_an_alias_is_replaced_by_what_it_stands_for():
    old = Lever(pull="gentle")
    assert old == Lever() == Gadget.registry.from_dict({"id": "lever", "pull": "gentle"})
    assert old.replace(pull="hard").replace(pull="gentle").to_dict()["pull"] == "soft"
    with pytest.raises(ff.ConfigError, match=r"lever: pull must be one of 'soft', 'hard', not 'gent'"):
        Lever(pull="gent")


def test_parameters_stand_in_the_order_in_which_they_are_called():
    assert list(parameters(Lever)) == ["pull", "length", "angle"]
    assert Lever("hard", 2.0, angle=0.5).to_dict() == {"id": "lever", "pull": "hard", "length": 2.0, "angle": 0.5}
