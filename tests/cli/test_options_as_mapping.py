"""A mapping of options makes the comparison that a command with the same options makes; who goes before whom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.command import flatfed, read_json
from flatfed.experiments.comparing.comparison import Comparison
from flatfed.experiments.comparing.comparison_from_options import comparison_of, first_task
from flatfed.experiments.spelling.options import RunOptions
from flatfed.runs.records.files import KEY

SMALL: dict[str, Any] = {"rounds": 1, "clients": 5, "per_round": 2, "model": "logreg"}
METHODS = ("fedsam", "fedgloss+sam")


def described(comparison: Comparison) -> dict[str, Any]:
    """Return all that decides the results."""
    return {name: value for name, value in comparison.to_dict().items() if name != "about"}


def recorded(*arguments: object) -> dict[str, Any]:
    """Return what `flatfed compare` records, without what decides no result."""
    outcome = flatfed("compare", "digits", *METHODS, *arguments, "--workers", "0", "--out", "out")
    assert outcome.code == 0, outcome.err
    record: dict[str, Any] = read_json(Path("out/comparison.json"))
    return {name: value for name, value in record.items() if name not in ("about", KEY)}


def typed_small(options: dict[str, Any]) -> list[str]:
    """Return the options of `SMALL` as they are typed."""
    words = {"rounds": "--rounds", "clients": "--clients", "per_round": "--per-round", "model": "--model"}
    typed: list[str] = []
    for name, word in words.items():
        if options[name] is not None:
            typed += [word, str(options[name])]
    return typed


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "plain": ({}, ""),
    "alpha": ({"alpha": 0.3, "partition_seed": 4}, "--alpha 0.3 --partition-seed 4"),
    "beta": ({"beta": 1}, "--beta 1"),
    "partition": (
        {"partition": "pathological", "set": {"partition.classes_per_client": 3}},
        "--partition pathological --set partition.classes_per_client=3",
    ),
    "model": (
        {"model": "mlp", "set": {"model.hidden": 8}, "batch_size": "full"},
        "--set model.hidden=8 --batch-size full",
    ),
    "schedules": (
        {"lr": "cosine(0.1,0.01,3)", "momentum": 0.5, "clip": "ramp(1,2,3)"},
        "--lr cosine(0.1,0.01,3) --momentum 0.5 --clip ramp(1,2,3)",
    ),
    "augment": ({"augment": "none", "dtype": "float64"}, "--augment none --dtype float64"),
    "bernoulli": ({"per_round": None, "bernoulli": 0.5}, "--bernoulli 0.5"),
    "methods": ({"set": {"fedgloss:beta": 30, "rho": 0.2}}, "--set fedgloss:beta=30 --set rho=0.2"),
    "usual clients per round": ({"per_round": None, "clients": 3}, ""),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mapping_makes_the_comparison_of_the_same_options_typed(case: str) -> None:
    content, typed = CASES[case]
    options = SMALL | content
    comparison = comparison_of("digits", METHODS, [0], RunOptions.read(options))
    first_task(comparison)
    assert described(comparison) == recorded(*typed_small(options), *typed.split())


@pytest.mark.parametrize("case", ["beta", "schedules", "methods"])
def test_a_file_makes_it_too(case: str) -> None:
    options = SMALL | CASES[case][0]
    # JSON is YAML.
    Path("options.yaml").write_text(json.dumps(options))
    assert described(comparison_of("digits", METHODS, [0], RunOptions.read(options))) == recorded(
        "--config", "options.yaml"
    )


def test_what_is_typed_goes_before_the_other_way_of_the_file() -> None:
    Path("options.yaml").write_text("no_augment: true\nbernoulli: 0.5\nbeta: 0.3\n")
    record = recorded(*typed_small(SMALL), "--config", "options.yaml", "--augment", "crop", "--alpha", "2")
    assert record["task"]["augment"] == "crop"
    assert record["task"]["partition"]["alpha"] == 2.0
    assert record["sampler"] == {"id": "uniform", "count": 2}
