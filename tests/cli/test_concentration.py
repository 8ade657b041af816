"""--alpha is a total over the classes, --beta is per class; and what is set twice is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.command import SMALL, flatfed, read_json, refused

RUN = ("run", "digits", "fedsam", *SMALL)
PER_CLASS = {"id": "dirichlet-per-class", "beta": 0.1, "size_sigma": 0.0}


def shown(*options: str) -> Any:
    outcome = flatfed("data", "show", "digits", *options, "--json")
    assert outcome.code == 0, outcome.err
    return outcome.json["partition"]


def test_beta_selects_the_partition_per_class() -> None:
    assert shown("--beta", "0.1") == PER_CLASS
    assert shown("--beta", "0.1", "--partition", "dirichlet-per-class") == PER_CLASS
    assert shown("--partition", "dirichlet-per-class", "--set", "partition.beta=0.1") == PER_CLASS
    assert shown("--beta", "0.1", "--set", "partition.size_sigma=0.5") == PER_CLASS | {"size_sigma": 0.5}
    assert flatfed(*RUN, "--beta", "0.1", "--out", "out").code == 0
    assert read_json(Path("out/config.json"))["task"]["partition"] == PER_CLASS


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--alpha", "0.1", "--beta", "0.1"), ("--alpha", "--beta", "give one")),
        (("--partition", "dirichlet", "--beta", "0.1"), ("--beta", "'dirichlet' has no beta", "dirichlet-per-class")),
        (("--partition", "iid", "--beta", "0.1"), ("--beta", "'iid' has no beta")),
        (("--partition", "dirichlet-per-class", "--alpha", "1"), ("--alpha", "has no alpha")),
        (("--beta", "0"), ("--beta must be greater than 0",)),
        (("--beta", "much"), ("--beta", "not a number")),
        (("--alpha", "0.1", "--set", "partition.alpha=0.2"), ("--alpha 0.1", "partition.alpha=0.2", "give one")),
        (("--beta", "0.1", "--set", "partition.beta=0.1"), ("--beta 0.1", "partition.beta=0.1", "give one")),
        (("--set", "partition.alpha=1", "--set", "partition.alpha=2"), ("partition.alpha is given twice",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_contradicts_itself_is_refused(options: tuple[str, ...], parts: tuple[str, ...]) -> None:
    refused(flatfed(*RUN, *options), *parts)
    refused(flatfed("data", "show", "digits", *options), *parts)
    assert not Path("runs").exists()


@pytest.mark.parametrize("name", ["rho", "fedsam:rho", "partition.size_sigma", "data.x", "model.x"])
def test_what_is_set_twice_is_refused(name: str) -> None:
    refused(flatfed(*RUN, "--set", f"{name}=1", "--set", f"{name}=2"), f"--set {name} is given twice, as 1 and as 2")


def test_a_setting_for_all_and_one_for_a_method_are_two() -> None:
    assert flatfed(*RUN, "--set", "rho=0.1", "--set", "fedsam:rho=0.2", "--out", "out").code == 0
    assert read_json(Path("out/config.json"))["algorithm"]["rho"] == 0.2


@pytest.mark.parametrize(
    ("file", "options", "expected"),
    [
        ("beta: 0.1", (), PER_CLASS),
        ("beta: 0.6", ("--beta", "0.1"), PER_CLASS),
        ("alpha: 0.6", ("--beta", "0.1"), PER_CLASS),
        ("beta: 0.6\npartition: dirichlet-per-class", ("--set", "partition.beta=0.1"), PER_CLASS),
        ("set: {partition.beta: 0.6}\npartition: dirichlet-per-class", ("--beta", "0.1"), PER_CLASS),
        ("beta: 0.6", ("--alpha", "0.3"), {"id": "dirichlet", "alpha": 0.3, "prior": "uniform", "size_sigma": 0.0}),
        ("set: {partition.alpha: 1}", ("--alpha", "0.3"), {"id": "dirichlet", "alpha": 0.3}),
    ],
)
def test_the_command_line_goes_before_a_file(file: str, options: tuple[str, ...], expected: dict[str, Any]) -> None:
    Path("file.yaml").write_text(f"{file}\n")
    outcome = flatfed(*RUN, "--config", "file.yaml", *options, "--out", "out")
    assert outcome.code == 0, outcome.err
    written = read_json(Path("out/config.json"))["task"]["partition"]
    assert written == written | expected


@pytest.mark.parametrize("file", ["alpha: 0.1\nbeta: 0.1", "beta: 0.1\nset: {partition.beta: 0.2}"])
def test_a_file_that_contradicts_itself_is_refused(file: str) -> None:
    Path("file.yaml").write_text(f"{file}\n")
    refused(flatfed(*RUN, "--config", "file.yaml"), "beta", "give one")


def test_a_file_may_be_overridden_by_set() -> None:
    Path("file.yaml").write_text("set: {rho: 0.3}\n")
    assert flatfed(*RUN, "--config", "file.yaml", "--set", "rho=0.4", "--out", "out").code == 0
    assert read_json(Path("out/config.json"))["algorithm"]["rho"] == 0.4


@pytest.mark.parametrize("command", [("run",), ("compare",), ("data", "show")])
def test_the_help_says_what_each_counts(command: tuple[str, ...]) -> None:
    text = " ".join(flatfed(*command, "--help").out.split())
    alpha, beta = text.partition("--alpha X")[2], text.partition("--beta X")[2]
    assert "in total over the classes" in alpha[:150] and "classes per client" in alpha[:200]
    assert "concentration per class" in beta[:150] and "classes per client" in beta[:200]


def test_data_show_says_what_each_counts() -> None:
    assert (
        "concentration       alpha is the total over 10 classes, 0.01 for each\n"
        in flatfed("data", "show", "digits", "--alpha", "0.1").out
    )
    assert (
        "concentration       beta is for each of 10 classes, 1 in total\n"
        in flatfed("data", "show", "digits", "--beta", "0.1").out
    )
    assert "concentration" not in flatfed("data", "show", "digits", "--partition", "iid").out
