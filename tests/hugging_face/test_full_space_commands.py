"""`flatfed flatness` and `flatfed landscape` of a model with adapters, in the trained space and in the full one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import flatfed as ff
from cli.command import flatfed
from hugging_face.test_adapters import task
from hugging_face.test_models import SMALL, arguments, written_model, written_texts
from hugging_face.tiny import bert

MEASURED = "--measure=lambda_max,parameter_norm"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs with adapters, of other seeds."""
    home = tmp_path_factory.mktemp("runs")
    # Large weights: with those of `transformers` attention is as good as even, and adapters have no effect.
    texts, model = written_texts(home), written_model(home, bert(initializer_range=1.0))
    places = []
    for seed in (0, 1):
        how = ["--set", "model.lora=2", "--seed", seed, "--rounds", 4]
        done = flatfed(*arguments(texts, model, home / f"seed{seed}", *how))
        assert done.code == 0, done.err
        places.append(next((home / f"seed{seed}").rglob("config.json")).parent)
    return places


def numbers(*words: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(flatfed(*words, "--json").out)[0]
    return found["results"]


def test_flatness_in_both_spaces_is_what_python_finds_and_is_kept_apart(runs: list[Path]) -> None:
    for space in ("trained", "full", "trained"):
        found = numbers("flatness", runs[0], MEASURED, "--space", space)
        with ff.laboratory(runs[0], space=space, workers=0) as lab:
            expected = lab.measure("lambda_max")["lambda_max"]
            norm = float(lab.surface.w.norm())
        assert found["lambda_max"]["numbers"] == expected.numbers
        assert f"in the {space} space" in found["lambda_max"]["remark"]
        assert found["parameter_norm"]["numbers"]["parameter_norm"] == pytest.approx(norm, rel=1e-5)


def test_a_measurement_of_clients_says_that_it_needs_the_trained_space(runs: list[Path]) -> None:
    refused = flatfed("flatness", runs[0], "--measure=client_accuracy", "--space=full")
    assert refused.code == 2
    assert "needs the trained space: no client has the full one" in refused.err


KINDS = [("surface", 1), ("line", 2), ("along", 1), ("client", 1), ("client-plane", 1)]


@pytest.mark.parametrize(("kind", "count"), KINDS)
def test_landscapes_in_the_full_space(kind: str, count: int, runs: list[Path], tmp_path: Path) -> None:
    how = ["--kind", kind, "--points", 3, "--samples", 8, "--workers", 0]
    drawn = flatfed("landscape", *runs[:count], *how, "--space=full", "--out", tmp_path / "full")
    assert drawn.code == 0, drawn.err
    assert flatfed("landscape", *runs[:count], *how, "--out", tmp_path / "trained").code == 0
    full, trained = (json.loads((tmp_path / space / f"{kind}.json").read_text()) for space in ("full", "trained"))
    assert full != trained
    # The model itself is the same point in both spaces; what lies around it is not.
    for ours, theirs in zip(full["grids"], trained["grids"], strict=True):
        if kind != "client-plane":
            assert ours["losses"][1][1] == pytest.approx(theirs["losses"][1][1], rel=1e-5)
        assert "in the full space" in ours["note"] and "in the trained space" in theirs["note"]
    for ours, theirs in zip(full["lines"], trained["lines"], strict=True):
        assert "in the full space" in ours["note"] and "in the trained space" in theirs["note"]


def test_pictures_of_the_full_space_do_not_replace_the_others(runs: list[Path]) -> None:
    how = ["--points", 3, "--samples", 8, "--workers", 0]
    for space in ("trained", "full"):
        assert flatfed("landscape", runs[0], *how, "--space", space).code == 0
    assert (runs[0] / "flatness/surface.png").exists() and (runs[0] / "flatness/full-space/surface.png").exists()


def test_a_line_goes_through_the_merged_models(runs: list[Path], tmp_path: Path) -> None:
    how = ["--kind=line", "--points", 3, "--samples", 8, "--workers", 0, "--space=full", "--out", tmp_path]
    assert flatfed("landscape", *runs, *how).code == 0
    [line] = json.loads((tmp_path / "line.json").read_text())["lines"]
    with (
        ff.laboratory(runs[0], space="full", samples=8, workers=0) as a,
        ff.laboratory(runs[1], space="full", samples=8, workers=0) as b,
    ):
        points = [x * a.surface.w + (1 - x) * b.surface.w for x in line["xs"]]
        assert line["losses"]["train"] == pytest.approx([a.surface.loss(point) for point in points], rel=1e-5)


def test_clients_of_a_run_in_memory_are_lifted_too() -> None:
    problem = task(bert().double())
    run = ff.train(problem, "fedavg", **SMALL, dtype=torch.float64)
    with ff.laboratory(run, space="full", workers=0) as lab, ff.laboratory(run, workers=0) as usual:
        assert torch.equal(lab.lift(usual.surface.w), lab.surface.w)
        assert lab.run.round == usual.run.round
