"""`flatfed list`: what there is."""

from __future__ import annotations

import subprocess

import pytest

from cli.command import PROCESS, flatfed, on_terminal
from flatfed.algorithms.spelling import parse_method
from flatfed.core.configuration.config import parameters
from flatfed.core.configuration.values import parse_value
from flatfed.core.method.algorithm import Algorithm, Average, ClientOptimiser
from flatfed.data.augment.spelling import augmentations
from flatfed.data.catalogue import datasets
from flatfed.data.partition import Partitioner
from flatfed.models import models

KINDS = ("algorithms", "datasets", "models", "partitions", "augmentations")


def ids_of(kind: str) -> list[str]:
    if kind == "algorithms":
        suffixes = [*sorted(ClientOptimiser.registry), *sorted(Average.registry)]
        return [*sorted(Algorithm.registry), *(f"+{id}" for id in suffixes)]
    known = {"datasets": datasets(), "models": models(), "partitions": Partitioner.registry}
    return sorted((known | {"augmentations": augmentations()})[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_every_id_has_a_line_that_says_what_it_is(kind: str) -> None:
    outcome = flatfed("list", kind)
    assert (outcome.code, outcome.err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in outcome.out.splitlines() if not line.startswith(" "))
    assert list(lines) == ids_of(kind)
    assert all(about.endswith(".") for about in lines.values())


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_as_json(kind: str) -> None:
    entries = flatfed("list", kind, "--json").json
    assert [entry["id"] for entry in entries] == ids_of(kind)
    assert all(entry["about"] for entry in entries)


def test_every_parameter_is_listed_with_its_default() -> None:
    entries = {entry["id"]: entry for entry in flatfed("list", "algorithms", "--json").json}
    for id, cls in Algorithm.registry.items():
        made = parse_method(id).algorithm.to_dict()
        shown = entries[id]["parameters"]
        assert list(shown) == list(parameters(cls))
        assert all(shown[name] == made[name] for name in shown if name != "client_opt")
    assert entries["+asam"]["parameters"] == {"rho": 0.5, "eta": 0.2, "tensors": "weights"}


def test_none_is_written_as_it_must_be_given() -> None:
    lines = flatfed("list", "algorithms").out.splitlines()
    listed = lines[next(i for i, line in enumerate(lines) if line.startswith("fedgf ")) + 1]
    value = listed.partition("rho_global=")[2].partition(",")[0]
    assert parse_value(value) is parse_method("fedgf").algorithm.to_dict()["rho_global"] is None


@pytest.mark.parametrize("kind", KINDS)
def test_no_line_runs_over_a_narrow_terminal(kind: str) -> None:
    outcome = on_terminal("list", kind, columns=80)
    assert outcome.code == 0
    assert all(len(line) <= 80 for line in outcome.out.splitlines())


def test_a_pipe_that_closes_early_is_no_drama() -> None:
    with subprocess.Popen(
        [*PROCESS, "list", "algorithms"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()
