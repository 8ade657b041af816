"""What the tables name is known here: methods, data sets, partitions, models; or stands in a list with the reason."""

from __future__ import annotations

import pytest

from flatfed.algorithms.spelling import parse_method, spelling_of
from flatfed.core.configuration.config import parameters
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import ConfigError
from flatfed.core.method.algorithm import Algorithm, Average, ClientOptimiser
from flatfed.data.catalogue import datasets, find
from flatfed.data.partition import Partitioner
from flatfed.models import models
from flatfed.published import method_names, setting_names
from flatfed.published import numbers as published
from flatfed.published.choices import PLACES
from flatfed.published.conditions import conditions_of
from flatfed.published.lookup import lookup
from flatfed.published.method_names import OWN_GRADIENT, name_of, one_spelling
from flatfed.published.setting_names import data_of, partition_of

METHODS = sorted({name_of(value) for value in published.values() if value.algorithm not in method_names.NOT_HERE})


def test_every_method_has_a_spelling_or_a_reason() -> None:
    without = {value.algorithm for value in published.values() if method_names.spelling_of(value) is None}
    assert without == method_names.NOT_HERE.keys()
    assert all(method_names.NOT_HERE.values())


@pytest.mark.parametrize("method", METHODS)
def test_every_spelling_is_one_of_flatfed(method: str) -> None:
    parsed = parse_method(method)
    assert parsed.spelling == method
    assert spelling_of(parsed.algorithm, parsed.average) == method


def test_which_methods_take_no_client_optimiser() -> None:
    named = {method_names.OTHER_NAMES.get(value.algorithm, value.algorithm) for value in published.values()}
    own = {id for id in named - method_names.NOT_HERE.keys() if "client_opt" not in parameters(Algorithm.registry[id])}
    assert own == OWN_GRADIENT


@pytest.mark.parametrize(
    ("written", "one"),
    [
        ("fedavg+sam", "fedsam"),
        ("fedavg+asam+swa", "fedasam+swa"),
        ("feddyn+sam", "feddyn+sam"),
        ("feddyn+sgd", "feddyn"),
        ("centralized+sam", "centralised+sam"),
        ("FedGloSS+SAM", "fedgloss+sam"),
    ],
)
def test_one_thing_has_one_spelling(written: str, one: str) -> None:
    assert one_spelling(written) == one


def test_the_parts_of_a_cell_make_its_method() -> None:
    cells = {(value.algorithm, value.client_opt, value.extras): name_of(value) for value in published.values()}
    assert cells["feddyn", "sam", ()] == "feddyn+sam"
    assert cells["fedasam", "asam", ("swa",)] == "fedasam+swa"
    assert cells["fedavg", "sgd", ("mixup", "swa")] == "fedavg+swa"
    assert cells["adabest", "asam", ("swa",)] == "adabest+asam+swa"
    assert cells["centralized", "sam", ("prev_gradient_approx",)] == "centralised+sam-prev"
    assert cells["fedgloss", "", ()] == "fedgloss"
    assert cells["silobn", "asam", ("test=seen",)] == "silobn+asam"
    assert cells["silobn", "sgd", ("test=seen",)] == "silobn"


def test_every_data_set_is_known_with_its_options() -> None:
    for value in published.values():
        if not value.dataset:
            continue
        name, options = data_of(value)
        assert name in datasets()
        assert options.keys() <= find(name).with_defaults({}).keys()


def test_every_model_is_known() -> None:
    assert {value.model for value in published.values()} - {""} <= models().keys()
    assert {entry.model for entry in published.parameters()} - {""} <= models().keys()


def test_every_partition_is_known_or_has_a_reason() -> None:
    for value in published.values():
        partition = partition_of(value)
        if partition is not None:
            assert Partitioner.registry.from_dict(dict(partition)).id == partition["id"]
        elif value.partition and value.partition_value:
            assert value.partition_value in setting_names.NOT_HERE
        else:
            # Not stated, or none at all.
            assert value.partition in ("", setting_names.CENTRALISED, "dirichlet", "pathological")


def test_a_concentration_means_what_its_paper_means() -> None:
    (total,) = lookup("fedgloss", 3, "fedgloss+sam", "cifar10", "dirichlet 0")
    assert partition_of(total) == {"id": "dirichlet", "alpha": 0.0}
    (each,) = lookup("fedwmsam", 1, "fedwmsam", "cifar10", "dirichlet 0.1")
    assert partition_of(each) == {"id": "dirichlet-per-class", "beta": 0.1}
    classes = lookup("fedwmsam", 1, "fedwmsam", "cifar100", "pathological 20")[0]
    assert partition_of(classes) == {"id": "pathological", "classes_per_client": 20}


def test_extras_that_set_parameters_set_ones_that_are_there() -> None:
    for value in published.values():
        name = method_names.spelling_of(value)
        if name is None:
            continue
        method = parse_method(name)
        owners = {"algorithm": method.algorithm, "average": method.average}
        for place in conditions_of(value).parameters.keys() - {"algorithm.admm", "algorithm.regularise", "algorithm.c"}:
            owner, _, parameter = place.partition(".")
            assert parameter in parameters(type(owners[owner])), (value, place)


@pytest.mark.parametrize(("name", "parameter"), PLACES)
def test_what_papers_chose_has_a_place_in_a_record(name: str, parameter: str) -> None:
    assert any(name in entry.methods and entry.parameter == parameter for entry in published.parameters())
    owner, *path = PLACES[name, parameter].split(".")
    if owner == "settings":
        assert path[0] in parameters(Settings)
    elif owner == "average":
        assert path[0] in parameters(Average.registry[name])
    elif path[0] == "client_opt":
        assert "client_opt" in parameters(Algorithm.registry[name])
        assert path[1] in parameters(ClientOptimiser.registry["sam"])
    else:
        assert path[0] in parameters(Algorithm.registry[name])


def test_extras_taken_apart() -> None:
    value = lookup("fedsam", 15, "fedavg+swa", "cifar100", "dirichlet 0")[0]
    assert value.extras == ("swa", "cycle=20", "swa_start_round=1000")
    parameters_of = conditions_of(value).parameters
    assert (parameters_of["average.cycle"], parameters_of["average.start"]) == (20.0, 0.05)
    half = lookup("fedgloss", 6, "fedgloss+sam", "cifar10", "dirichlet 0", "accuracy_pct")
    assert sorted(conditions_of(value).share for value in half) == [0.5, 1.0]
    none = conditions_of(lookup("fedwmsam", 5)[-1])
    switches = ("control", "rho", "lam")
    assert [none.parameters[f"algorithm.{name}"] for name in switches] == [False, 0.0, 0.0]
    assert none.remarks == ()


def test_a_method_without_a_spelling_is_none_of_flatfed() -> None:
    for name in method_names.NOT_HERE:
        with pytest.raises(ConfigError, match="unknown"):
            parse_method(name)
