"""Landscapes of texts, pictures and numbers; and what has no landscape."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import flatfed as ff
from flatfed.core.errors import ConfigError
from flatfed.data.storage.segmentation import Segmentation, SegmentationLoss
from flatfed.experiments.measuring.landscapes import View
from flatfed.models.networks.textcnn import textcnn
from flatness.federations import (
    CLIENTS,
    COHORT,
    INPUTS,
    client_data,
    task,
    trained,
)
from flatness.landscapes import (
    METHODS,
    line,
    look,
    normed,
)

# --- other tasks --------------------------------------------------------------------------------------------


def texts() -> ff.Task:
    generator = torch.Generator().manual_seed(0)
    data = [
        (torch.randint(0, 12, (8, 6), generator=generator), torch.randint(0, 3, (8,), generator=generator))
        for _ in range(4)
    ]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ff.Task(textcnn(3, vocabulary=12, length=6), data, test=data[0])


def pictures() -> ff.Task:
    generator = torch.Generator().manual_seed(0)
    data = []
    for _ in range(4):
        masks = torch.randint(0, 3, (5, 6, 6), generator=generator)
        masks[:, 0] = 255
        data.append((torch.randn(5, 2, 6, 6, generator=generator), masks))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 3, 1))
    return ff.Task(model, data, test=data[0], loss=SegmentationLoss(), metrics=Segmentation(3))


@pytest.mark.parametrize("made", [texts, pictures])
def test_texts_and_segmentation_have_landscapes(made: Callable[[], ff.Task], tmp_path: Path) -> None:
    paths, problem = [tmp_path / "a", tmp_path / "b", tmp_path / "c"], made()
    for method, path in zip(METHODS, paths, strict=True):
        trained(method, path, problem, dtype=torch.float32, batch_size=4, lr=0.05)
    for path, grid in zip(paths, look(paths, points=3).grids, strict=True):
        assert grid.losses[1, 1] == pytest.approx(ff.laboratory(path).surface.loss(), rel=1e-5)
        assert np.isfinite(grid.losses).all() and grid.losses.std() > 0
        assert grid.errors is not None and ((grid.errors >= 0) & (grid.errors <= 1)).all()
    ends = line(look(paths[:2], "line", points=3))
    for path, place in zip(paths, (2, 1), strict=False):
        assert ends.losses["test"][place] == pytest.approx(ff.load_run(path).metrics()["test_loss"], rel=1e-4)
    plane = look(paths, "plane", points=3)
    along = look(paths[:1], "along", points=3, directions=2)
    client = look(paths[:1], "client", points=3)
    assert (len(plane.grids), len(along.lines), len(client.grids)) == (2, 2, 2)
    for kind in ("clients", "client-plane"):
        assert len(look(paths[:1], kind, points=3).grids) == 2


def numbers(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.mse_loss(outputs.squeeze(1), targets)


def test_a_regression_has_losses_and_no_errors(tmp_path: Path) -> None:
    data = [(x, x.sum(dim=1)) for x, _ in client_data()]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Linear(INPUTS, 1).double()
    for method in METHODS:
        trained(method, tmp_path / method, ff.Task(model, data, test=data[0], loss=numbers), lr=0.01)
    paths = [tmp_path / method for method in METHODS]
    assert look(paths[:1]).grids[0].errors is None
    assert [grid.errors for grid in look(paths, "plane", points=3).grids] == [None, None]


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("points", [0, 1, 2, 4, 20, -3])
def test_an_axis_needs_a_middle(points: int) -> None:
    with pytest.raises(ConfigError, match=rf"odd number of at least 3 points per axis, not {points}"):
        View(points=points)


@pytest.mark.parametrize("extent", [0.0, -1.0, math.nan, math.inf])
def test_an_extent_that_is_none(extent: float) -> None:
    with pytest.raises(ConfigError, match="the extent must be"):
        View(extent=extent)


@pytest.mark.parametrize(
    ("kind", "count", "message"),
    [
        ("surface", 0, "at least 1 run"),
        ("line", 1, "2 runs, not 1"),
        ("line", 3, "2 runs, not 3"),
        ("plane", 2, "3 runs, not 2"),
        ("client", 0, "at least 1 run"),
        ("clients", 2, "1 run, not 2"),
        ("client-plane", 2, "1 run, not 2"),
        ("along", 0, "at least 1 run"),
    ],
)
def test_the_wrong_number_of_runs(kind: str, count: int, message: str, home: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        look([home / "plain" / method for method in METHODS][:count], kind)


@pytest.mark.parametrize(("kind", "count"), [("surface", 2), ("line", 2), ("plane", 3)])
def test_models_of_different_shapes_have_no_common_axes(kind: str, count: int, home: Path) -> None:
    paths = [home / "plain" / "fedavg", home / "norms" / "fedsam", home / "plain" / "fedavgm"]
    with pytest.raises(ConfigError, match="has another model than"):
        look(paths[:count], kind)


@pytest.mark.parametrize("kind", ["surface", "line"])
def test_a_model_of_which_less_is_shared_has_no_common_axes(kind: str, home: Path, tmp_path: Path) -> None:
    """The parameters are the same, in the same order; but the head of one of the models stays on the clients."""
    trained("fedsam", tmp_path / "head", task(local=ff.Local(names=("2.*",))))
    whole = Path(shutil.copytree(home / "plain" / "fedavg", tmp_path / "whole"))
    with pytest.raises(ConfigError, match="model"):
        look([whole, tmp_path / "head"], kind, points=3)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_model_whose_statistics_are_not_shared(order: tuple[int, int], home: Path, tmp_path: Path) -> None:
    """The weights have common axes, the statistics do not: a refusal, or the losses that the models have."""
    shutil.copytree(home / "norms" / "fedavg", tmp_path / "copy0")
    trained("fedsam", tmp_path / "copy1", task(model=normed(), local="bn-stats"))
    paths = [tmp_path / f"copy{k}" for k in order]
    try:
        actual = line(look(paths, "line", points=3))
    except ConfigError:
        return
    own = [ff.laboratory(path).surface.loss() for path in paths]
    assert [actual.losses["train"][2], actual.losses["train"][1]] == pytest.approx(own, rel=1e-9)


@pytest.mark.parametrize("double", [0, 1, 2])
def test_a_plane_through_models_of_single_and_double_precision(double: int, tmp_path: Path) -> None:
    paths = [tmp_path / method for method in METHODS]
    for number, path in enumerate(paths):
        trained(METHODS[number], path, dtype=torch.float64 if number == double else torch.float32)
    try:
        grids = look(paths, "plane", points=3).grids
    except ConfigError:  # a refusal is as good
        return
    assert np.isfinite(grids[0].losses).all()


def test_names_tell_equal_methods_apart(home: Path, tmp_path: Path) -> None:
    copies = [Path(shutil.copytree(home / "plain" / "fedavg", tmp_path / name)) for name in ("a", "b/run", "c/run")]
    labels = [[grid.label for grid in look(some, points=3).grids] for some in (copies[:2], copies[1:])]
    assert labels == [["fedavg (a)", "fedavg (run)"], ["fedavg #1", "fedavg #2"]]


def test_progress_is_reported_for_each_model(runs: Callable[..., list[Path]]) -> None:
    heard: list[tuple[str, int, int]] = []
    look(runs("plain", 2), points=3, on_point=lambda *step: heard.append(step))
    assert heard == [(name, done, 9) for name in ("fedavg", "fedsam") for done in range(10)]
    assert COHORT < CLIENTS
