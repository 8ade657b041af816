"""Which published values belong to a run, and in what they differ: one setting, changed in one thing at a time."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from flatfed.published.matching import Match, matching

CONFIG: dict[str, Any] = {
    "method": "fedgloss+sam",
    "algorithm": {
        "id": "fedgloss",
        "rho_server": 0.15,
        "beta": 10.0,
        "admm": True,
        "rho_warmup": 2000,
        "client_opt": {"id": "sam", "rho": 0.15},
    },
    "average": None,
    "sampler": {"id": "uniform", "count": 5},
    "settings": {
        "rounds": 10000,
        "local_epochs": 1,
        "lr": 0.01,
        "batch_size": 64,
        "weight_decay": 4e-4,
        "momentum": 0.0,
        "seed": 0,
    },
    "task": {"kind": "catalogue", "dataset": "cifar10"},
    "setting": {
        "data": {"name": "cifar10", "options": {}},
        "clients": {"count": 100},
        "partition": {"id": "dirichlet", "alpha": 0.0, "prior": "uniform", "size_sigma": 0.0},
        "model": {"name": "cnn", "options": {}},
        "augmentation": {"names": ["crop(padding=4)", "flip(p=0.5)"], "default": True},
    },
}
"""FedGloSS with SAM on CIFAR-10 as its paper ran it: the parts of a `config.json` that a match looks at."""


def changed(**changes: Any) -> dict[str, Any]:
    """Return the configuration with other values, `a__b` for what stands in `a` under `b`."""
    config = copy.deepcopy(CONFIG)
    for name, value in changes.items():
        *path, last = name.split("__")
        part = config
        for key in path:
            part = part[key]
        part[last] = value
    return config


def of_table(config: dict[str, Any], paper: str, table: str, metric: str = "accuracy_pct") -> list[Match]:
    return [
        match
        for match in matching(config)
        if (match.value.paper, match.value.table, match.value.metric) == (paper, table, metric)
    ]


def main_result(config: dict[str, Any]) -> Match:
    (match,) = of_table(config, "fedgloss", "Table 3")
    return match


def test_a_run_as_the_paper_ran_it() -> None:
    match = main_result(CONFIG)
    assert match.value.printed == "83.9 ± 0.4"
    assert match.differences == ()
    assert match.unstated == ()


def test_every_value_of_the_setting_is_there() -> None:
    metrics = {match.value.metric for match in matching(CONFIG)}
    assert {"accuracy_pct", "lambda_max", "rounds_to_target", "comm_cost_rel"} <= metrics
    assert {match.value.paper for match in matching(CONFIG)} == {"fedgloss"}


@pytest.mark.parametrize(
    "changes",
    [
        {"task__dataset": "fashion-mnist"},
        {"setting__partition__alpha": 0.3},
        {"setting__partition": {"id": "iid"}},
        {"setting__partition": {"id": "dirichlet-per-class", "beta": 0.05}},
        {"setting__model__name": "lenet"},
        {"setting__clients__count": 50},
        {"sampler__count": 7},
        {"sampler": {"id": "replay", "cohorts": [[0, 1]]}},
        {"method": "fedgloss+asam"},
        {"method": "fedgloss+sam+swa"},
        {"method": "fedmine"},
        {"task": {"kind": "tensors", "name": "task"}},
    ],
    ids=str,
)
def test_another_setting_has_no_published_value(changes: dict[str, Any]) -> None:
    assert matching(changed(**changes)) == []


@pytest.mark.parametrize(
    ("changes", "printed"),
    [
        ({"setting__partition__alpha": 0.05}, "84.4 ± 0.5"),
        ({"method": "fedavg", "algorithm": {"id": "fedavg"}}, "59.9 ± 0.4"),
        ({"method": "fedavg+sam", "algorithm": {"id": "fedavg"}}, "70.2 ± 0.9"),
        ({"sampler": {"id": "bernoulli", "p": 0.05}}, "83.9 ± 0.4"),
    ],
    ids=str,
)
def test_other_settings_have_values_of_their_own(changes: dict[str, Any], printed: str) -> None:
    assert main_result(changed(**changes)).value.printed == printed


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"settings__rounds": 200}, "published after 10000 rounds, this run 200"),
        ({"settings__local_epochs": 2}, "published with local epochs 1, this run 2"),
        ({"settings__lr": 0.1}, "published with lr 0.01, this run 0.1"),
        ({"settings__lr": {"id": "cosine", "start": 0.1}}, "published with lr 0.01, this run cosine"),
        ({"settings__batch_size": None}, "published with batch size 64, this run none"),
        ({"settings__weight_decay": 0.0}, "published with weight decay 0.0004, this run 0"),
        ({"settings__momentum": 0.9}, "published with momentum 0, this run 0.9"),
        ({"algorithm__rho_server": 0.1}, "published with rho_server 0.15 (authors' code), this run 0.1"),
        ({"algorithm__rho_warmup": 0}, "published with rho_warmup 2000, this run 0"),
        ({"algorithm__client_opt__rho": 0.05}, "published with client_opt.rho 0.15, this run 0.05"),
        ({"algorithm__admm": False}, "published with admm true, this run false"),
        ({"setting__partition__size_sigma": 0.5}, "this run with partition.size_sigma 0.5"),
        ({"setting__augmentation__names": []}, "this run has no augmentation"),
        ({"setting__augmentation__names": ["cutout(size=8)"]}, "published without cutout, this run with"),
    ],
    ids=str,
)
def test_what_differs_besides_is_stated(changes: dict[str, Any], difference: str) -> None:
    match = main_result(changed(**changes))
    assert match.value.printed == "83.9 ± 0.4"
    assert match.differences == (difference,)


def test_a_value_of_an_earlier_round_says_so() -> None:
    half, whole = sorted(of_table(CONFIG, "fedgloss", "Table 6"), key=lambda match: match.value.value or 0.0)
    assert half.differences == ("published after 5000 of 10000 rounds, this run 10000",)
    assert whole.differences == ()


def test_augmentation_of_the_paper() -> None:
    config = changed(method="fedavg", algorithm={"id": "fedavg"}, setting__partition__alpha=0.0)
    by_extras = {match.value.extras: match for match in of_table(config, "fedsam", "Table 17")}
    assert by_extras[()].differences == ()
    assert by_extras["mixup",].differences == ("published with mixup, this run without",)
    assert not by_extras["mixup",].value.is_certain
    config["setting"]["augmentation"]["names"] += ["mixup(alpha=0.1)"]
    by_extras = {match.value.extras: match for match in of_table(config, "fedsam", "Table 17")}
    assert by_extras["mixup",].differences == ()
    assert by_extras[()].differences == ("published without mixup, this run with",)


def test_parameters_of_the_method_that_a_table_varies() -> None:
    average = {"id": "swa", "start": 0.75, "cycle": 10, "lr_low": 1e-4}
    config = changed(method="fedavg+swa", algorithm={"id": "fedavg"}, average=average)
    starts = {match.value.extras[-1]: match.differences for match in of_table(config, "fedsam", "Table 15")}
    assert starts["swa_start_round=7500"] == ()
    assert starts["swa_start_round=2500"] == ("published with average.start 0.25, this run 0.75",)


def test_parameters_that_a_paper_chose_for_a_partition() -> None:
    average = {"id": "swa", "start": 0.75, "cycle": 5, "lr_low": 1e-4}
    config = changed(method="fedasam+swa", algorithm={"id": "fedasam", "rho": 0.7, "eta": 0.2}, average=average)
    (match,) = of_table(config, "fedsam", "Table 2")
    assert match.differences == ("published with average.cycle 10, this run 5",)
    config["average"]["cycle"] = 10
    config["setting"]["partition"]["alpha"] = 100.0
    (match,) = of_table(config, "fedsam", "Table 2")
    assert match.differences == ("published with rho 0.05, this run 0.7",)


@pytest.mark.parametrize(
    ("dataset", "alpha", "printed"),
    [
        ("cifar10", 0.05, "78.79"),
        ("cifar10", 100.0, "84.71"),
        ("cifar100", 0.5, "46.48"),
        ("cifar100", 1000.0, "54.16"),
    ],
)
def test_a_paper_that_prints_the_concentration_of_each_class(dataset: str, alpha: float, printed: str) -> None:
    config = changed(method="fedgf", algorithm={"id": "fedgf", "rho": 0.05}, setting__partition__alpha=alpha)
    config["task"]["dataset"] = config["setting"]["data"]["name"] = dataset
    (match,) = of_table(config, "fedgf", "Table 1")
    assert match.value.printed == printed


def test_the_normalisation_of_a_paper_is_no_difference_to_it() -> None:
    config = changed(setting__data__options={"normalisation": "fedgloss"})
    assert {match.differences for match in of_table(config, "fedgloss", "Table 3")} == {()}
    config = changed(
        method="fedsam", algorithm={"id": "fedsam", "rho": 0.1}, setting__data__options={"normalisation": "fedgloss"}
    )
    (match,) = of_table(config, "fedsam", "Table 2")
    assert match.differences == ("this run with data.normalisation fedgloss",)


def test_a_method_that_a_paper_ran_otherwise() -> None:
    config = changed(method="fedsmoo", algorithm={"id": "fedsmoo", "regularise": True})
    (match,) = of_table(config, "fedgf", "Table 1")
    assert match.differences == ("published with regularise false, this run true",)
    config["algorithm"]["regularise"] = False
    (match,) = of_table(config, "fedgf", "Table 1")
    assert match.differences == ()


def test_what_a_paper_does_not_state_is_named() -> None:
    partition = {"id": "dirichlet-per-class", "beta": 0.1, "size_sigma": 0.0}
    config = changed(
        method="fedwmsam",
        algorithm={"id": "fedwmsam", "rho": 0.01},
        setting__partition=partition,
        sampler={"id": "uniform", "count": 10},
        settings__rounds=500,
        settings__local_epochs=5,
        settings__lr=0.1,
        settings__batch_size=50,
        settings__weight_decay=1e-3,
    )
    (match,) = of_table(config, "fedwmsam", "Table 1")
    assert (match.value.printed, match.differences, match.unstated) == ("76.64", (), ("model",))
    by_rho = {match.value.extras: match.differences for match in of_table(config, "fedwmsam", "Table 6")}
    assert by_rho["rho=0.01",] == ()
    assert by_rho["rho=0.5",] == ("published with rho 0.5, this run 0.01",)
    config["settings"]["lr"] = 0.01
    (match,) = of_table(config, "fedwmsam", "Table 1")
    assert match.differences == ("published with lr 0.1 (authors' code), this run 0.01",)
    config["setting"]["partition"]["beta"] = 0.6
    (match,) = of_table(config, "fedwmsam", "Table 1")
    assert match.unstated == ("model", "number of clients", "clients per round", "local epochs")


def test_centralised_training_has_no_partition_and_no_clients() -> None:
    config = changed(
        method="centralised+sam",
        algorithm={"id": "centralised", "client_opt": {"id": "sam"}},
        setting__partition={"id": "iid"},
        sampler={"id": "uniform", "count": 1},
    )
    (match,) = matching(config)
    assert (match.value.printed, match.differences, match.unstated) == ("87.1", (), ("rounds",))


def test_options_of_the_data_that_a_table_fixes() -> None:
    config = changed(
        method="fedavg",
        algorithm={"id": "fedavg"},
        task__dataset="idda",
        setting__data={"name": "idda", "options": {"scenario": "rainy", "lists": "uniform", "memory": 4.0}},
        setting__clients__count=69,
        setting__partition={"id": "natural", "by": ""},
        setting__model={"name": "bisenetv2", "options": {}},
        settings__rounds=1500,
        settings__local_epochs=2,
        settings__lr=0.1,
        settings__batch_size=8,
        settings__weight_decay=0.0,
        settings__momentum=0.9,
    )
    found = matching(config)
    assert {match.value.dataset for match in found} == {"idda-rainy"}
    assert {match.value.partition for match in found} == {"uniform"}
    assert all(match.differences == () for match in found)
    config["setting"]["data"]["options"]["crop"] = "256x256"
    assert all(match.differences == ("this run with data.crop 256x256",) for match in matching(config))
    config["setting"]["data"]["options"]["lists"] = "heterogeneous"
    assert {match.value.partition for match in matching(config)} == {"domain"}


def test_a_record_from_before_settings_were_recorded() -> None:
    config = changed()
    del config["setting"]
    partition = {"id": "dirichlet", "alpha": 0.0}
    config["task"] |= {"clients": 100, "model": "cnn", "partition": partition, "data_options": {}}
    assert main_result(config).differences == ()
