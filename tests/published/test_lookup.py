"""Looking up published numbers: known answers of each paper, and names that no paper has."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import flatfed.published
from flatfed.core.errors import ConfigError
from flatfed.published import lookup, lookup_parameters
from flatfed.published.numbers import values

KNOWN: list[tuple[dict[str, Any], list[str]]] = [
    # FedGloSS
    (
        {"paper": "fedgloss", "table": 3, "method": "fedgloss+sam", "metric": "accuracy_pct"},
        ["83.9 ± 0.4", "84.4 ± 0.5", "50.6 ± 0.6", "53.4 ± 0.5", "80.0 ± 0.3", "47.2 ± 0.2"],
    ),
    (
        {"paper": "fedgloss", "table": "Table 8", "method": "fedgloss+sam", "partition": "dirichlet 0"},
        ["2.03 ± 0.05", "17.18 ± 0.97"],
    ),
    ({"paper": "fedgloss", "table": "table-6", "method": "centralised+sam-prev"}, ["86.3", "57.6"]),
    # FedSAM
    ({"paper": "fedsam", "table": 1, "method": "fedasam", "metric": "lambda_max"}, ["30.11", "20.19"]),
    (
        {"paper": "fedsam", "table": 2, "method": "fedasam+swa", "dataset": "cifar100", "partition": "dirichlet 0"},
        ["42.01", "42.64", "41.62"],
    ),
    ({"paper": "fedsam", "table": 7, "method": "centralized"}, ["74.03"]),
    ({"paper": "fedsam", "table": 8, "method": "fedavg+swa", "dataset": "cityscapes"}, ["45.64", "42.48"]),
    # FedWMSAM
    ({"paper": "fedwmsam", "table": 6, "method": "fedwmsam"}, ["76.59", "76.64", "75.63", "72.44", "59.05"]),
    ({"paper": "fedwmsam", "dataset": "officehome", "method": "fedwmsam"}, ["99.42", "96.50", "97.90", "97.17"]),
    ({"paper": "fedwmsam", "table": 1, "method": "fedwmsam", "partition": "pathological 3"}, ["85.31", "74.46"]),
    # FedVSSAM
    ({"paper": "fedvssam", "method": "fedvssam", "metric": "accuracy_pct"}, ["96.74"]),
    ({"paper": "fedvssam", "table": 3, "method": "fedcm", "dataset": "dbpedia14", "partition": "dirichlet"}, ["320"]),
    # FedGF
    (
        {"paper": "fedgf", "table": 1, "method": "fedgf", "dataset": "cifar10", "partition": "dirichlet 0"},
        ["78.41", "79.68", "80.86"],
    ),
    ({"paper": "fedgf", "table": 3, "method": "fedgf"}, ["1", "2", "3"]),
]


@pytest.mark.parametrize(("chosen", "printed"), KNOWN)
def test_known_answers(chosen: dict[str, Any], printed: list[str]) -> None:
    assert [value.printed for value in lookup(**chosen)] == printed


def test_a_cell_with_its_whole_setting() -> None:
    (value,) = lookup("fedvssam", 1, "fedvssam", "cifar10", "dirichlet moderate")[:1]
    assert (value.clients_total, value.clients_per_round, value.rounds, value.local_epochs) == (100, 10, 800, None)
    assert (value.model, value.metric, value.target, value.value) == ("resnet18", "rounds_to_target", "75", 111.0)


def test_a_run_that_diverged_has_no_number() -> None:
    found = lookup("fedgloss", 3, "feddyn+sam", "cifar100", metric="accuracy_pct")
    assert [(value.value, value.status) for value in found if value.model == "cnn"] == [(None, "diverged")] * 2


def test_an_uncertain_cell_says_why() -> None:
    found = lookup("fedgf", 4, partition="dirichlet 10")
    assert [(value.printed, value.is_certain) for value in found] == [
        ("24000", False),
        ("24800", False),
        ("1.03", False),
    ]
    assert all("not recoverable" in value.reason for value in found)


def test_nothing_chosen_is_everything() -> None:
    assert lookup() == list(values())


def test_the_same_by_names_of_tables_and_of_flatfed() -> None:
    assert lookup(dataset="dbpedia14") == lookup(dataset="dbpedia-14") != []
    assert len(lookup(dataset="idda")) == len(lookup(dataset="idda-rainy")) + len(lookup(dataset="idda-country")) == 60
    assert lookup(method="fedavg+sam") == lookup(method="fedsam") != []
    assert {value.dataset for value in lookup(dataset="cifar100")} == {"cifar100"}


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"paper": "fedsm"}, "unknown paper 'fedsm'; did you mean 'fedsam'"),
        ({"paper": "fedsam", "table": "Table 71"}, "unknown table 'Table 71'; did you mean 'Table 7'"),
        ({"paper": "fedwmsam", "table": 17}, "unknown table '17'"),
        ({"method": "fedasm"}, "unknown method in the published tables 'fedasm'; did you mean 'fedasam'"),
        ({"dataset": "cifr10"}, "unknown data set in the published tables 'cifr10'; did you mean 'cifar10'"),
        ({"partition": "dirichlt"}, "unknown partition in the published tables 'dirichlt'; did you mean 'dirichlet'"),
        ({"metric": "acuracy"}, "unknown metric 'acuracy'; did you mean 'accuracy_pct'"),
    ],
)
def test_a_name_that_no_paper_has(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        lookup(**chosen)
    assert str(error.value).startswith(message)


def test_names_that_do_not_meet_give_nothing() -> None:
    assert lookup("fedvssam", method="fedgloss+sam") == []


def test_hyperparameters_are_the_methods_own_and_those_of_all() -> None:
    found = lookup_parameters("fedgloss", "fedgloss", "cifar10")
    chosen = {(entry.model, entry.algorithm, entry.parameter): entry.chosen for entry in found}
    assert chosen["cnn", "fedgloss", "rho_s"] == "0.15"
    assert chosen["cnn", "fedgloss", "T_s"] == "2000"
    assert chosen["cnn", "all", "client_lr"] == "0.01"
    assert {entry.algorithm for entry in found} == {"all", "fedgloss"}


def test_hyperparameters_of_an_average_and_of_several_methods() -> None:
    assert {entry.algorithm for entry in lookup_parameters("fedsam", "fedasam+swa")} == {"all", "fedasam", "swa"}
    shared = [entry for entry in lookup_parameters(method="mofedsam") if "," in entry.algorithm]
    assert [entry.methods for entry in shared] == [("fedsam", "mofedsam", "fedsmoo")]


def test_hyperparameters_of_a_whole_are_those_of_its_parts() -> None:
    assert {entry.data for entry in lookup_parameters("fedsam", dataset="idda-rainy")} == {"", "idda", "idda-rainy"}
    parts = {"idda-rainy", "idda-country"}
    assert {entry.data for entry in lookup_parameters("fedsam", dataset="idda")} == {"", "idda", *parts}
    assert {entry.data for entry in lookup_parameters("fedsam", dataset="cifar100-pam")} == {"", "cifar100-pam"}


def test_hyperparameters_of_a_condition() -> None:
    found = lookup_parameters("fedsam", "fedsam", "cifar10")
    chosen = {entry.condition: entry.chosen for entry in found if entry.algorithm == "fedsam"}
    assert (chosen["alpha=0"], chosen["alpha=0.05"], chosen["alpha=100"]) == ("0.1", "0.1", "0.02")


@pytest.mark.parametrize("chosen", [{"paper": "fedsm"}, {"method": "fedasm"}, {"dataset": "cifr10"}])
def test_hyperparameters_of_nothing_known(chosen: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        lookup_parameters(**chosen)


def test_lookup_is_a_name_of_the_package_and_needs_no_torch() -> None:
    assert flatfed.published.lookup is lookup
    code = "import sys, flatfed.published as p; assert p.lookup('fedgf', 5) and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
