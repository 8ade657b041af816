"""`flatfed flatness --protocol fedgloss`: lambda as FedGloSS's released code measures it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import flatfed as ff
from cli.command import SMALL, flatfed, read_json, refused
from data.test_cifar import write_binary
from flatfed.data.sources.published.cifar import CIFAR10, CIFAR100

MEASURE = "lambda_ratio(mode=power)"


@pytest.fixture(scope="module")
def _trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs over a few made-up pictures in the layout of both data sets, with and without the mean of global models."""
    root = tmp_path_factory.mktemp("cifar")
    for dataset in ("cifar10", "cifar100"):
        write_binary(root / "data", dataset)
        for method in ("fedavg", "fedavg+wima"):
            where = ("--data-dir", root / "data", "--out", root / dataset / method)
            few = ("--clients", 3, "--per-round", 2) if dataset == "cifar10" else ("--clients", 2, "--per-round", 2)
            outcome = flatfed("run", dataset, method, *SMALL, *few, "--partition", "iid", *where)
            assert outcome.code == 0, outcome.err
    return root


@pytest.fixture
def runs(_trained: Path, tmp_path: Path) -> Path:
    """A copy for each test: what is measured is kept in the run's directory."""
    return Path(shutil.copytree(_trained, tmp_path / "runs"))


@pytest.mark.parametrize(("dataset", "other"), [("cifar10", CIFAR100["fedgloss"]), ("cifar100", CIFAR10["fedgloss"])])
def test_power_iteration_on_the_test_set_with_the_others_constants(dataset: str, other: object, runs: Path) -> None:
    path = runs / dataset / "fedavg+wima"
    outcome = flatfed("flatness", path, "--protocol", "fedgloss", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    [actual] = outcome.json
    run = ff.load_run(path)
    assert not torch.equal(run.vector, run.eval_vector), "the mean of the last models is measured"
    task = replace(run._federation.task, prepare=other)
    with ff.laboratory(path, data="test", task=task) as lab:
        assert torch.equal(lab.surface.w, run.eval_vector)
        expected = lab.measure(MEASURE)
    numbers = actual["results"]["lambda_ratio"]["numbers"]
    assert actual["over"].startswith("test set, all 12 examples")
    assert set(numbers) >= {"lambda_max", "lambda_5", "lambda_ratio"}
    assert numbers["lambda_products"] <= 5 * 20
    assert numbers == expected["lambda_ratio"].numbers


def test_it_is_not_mixed_up_with_the_plain_measurement(runs: Path) -> None:
    path = runs / "cifar10" / "fedavg+wima"
    with_protocol = flatfed("flatness", path, "--protocol", "fedgloss", "--json").json[0]["results"]
    plain = flatfed("flatness", path, "--measure", MEASURE, "--data", "test", "--json").json[0]["results"]
    assert with_protocol != plain
    again = flatfed("flatness", path, "--protocol", "fedgloss", "--json").json[0]["results"]
    assert again == with_protocol
    keys = [entry["key"] for entry in read_json(path / "flatness" / "results.json")["results"]]
    assert [key.get("protocol") for key in keys if key["sample"]["of"] == "test"].count("fedgloss") == 1


def test_a_run_without_the_mean_says_so(runs: Path) -> None:
    outcome = flatfed("flatness", runs / "cifar10" / "fedavg", "--protocol", "fedgloss")
    assert outcome.code == 0, outcome.err
    assert "fedavg: this run did not keep the mean of its last 100 global models" in outcome.err
    assert "the evaluated model was taken instead" in outcome.err
    assert "lambda_max" in outcome.out and "lambda_ratio" in outcome.out


def test_a_mean_of_fewer_models_says_so(runs: Path) -> None:
    small = ("--set", "average.window=2", "--data-dir", runs / "data", "--clients", 3, "--partition", "iid")
    assert flatfed("run", "cifar10", "fedavg+wima", *SMALL, *small, "--out", "run").code == 0
    outcome = flatfed("flatness", "run", "--protocol", "fedgloss")
    assert "the mean of the last 2 global models was taken, not of 100" in outcome.err


@pytest.mark.parametrize(
    "options", [("--measure", "loss"), ("--data", "train"), ("--data", "test"), ("--weights", "global")], ids=str
)
def test_options_that_it_decides(options: tuple[str, str], runs: Path) -> None:
    outcome = flatfed("flatness", runs / "cifar10" / "fedavg", "--protocol", "fedgloss", *options)
    refused(outcome, "--protocol decides", f"leave out {options[0]}")


def test_other_data_sets(run: Path) -> None:
    refused(flatfed("flatness", run, "--protocol", "fedgloss"), "runs of cifar10 and cifar100, not of digits")
    refused(flatfed("flatness", run, "--protocol", "fedsam"), "--protocol")
