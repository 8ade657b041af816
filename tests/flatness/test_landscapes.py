"""Landscapes of runs, point by point against models that are put together here; and points that are kept."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import flatfed as ff
from flatfed.core.errors import ConfigError, FlatfedError
from flatfed.core.probe import probe
from flatfed.data.segmentation import Segmentation, SegmentationLoss
from flatfed.experiments.landscapes import Landscape, View, landscape
from flatfed.flatness.landscape import scenes
from flatfed.flatness.landscape.directions import raw_direction
from flatfed.flatness.landscape.planes import plane_through
from flatfed.flatness.results import Grid, Line
from flatfed.flatness.sample import Sample
from flatfed.flatness.surface import Surface
from flatfed.models.textcnn import textcnn
from flatness.federations import (
    CLASSES,
    CLIENTS,
    COHORT,
    INPUTS,
    ROUNDS,
    checkpoint,
    cohort,
    descend,
    everyone,
    gradient,
    holdings,
    loss,
    mlp,
    task,
    trained,
    unit,
)

Pair = tuple[Tensor, Tensor]
METHODS = ("fedavg", "fedsam", "fedavgm")
TEST = 3


def normed() -> nn.Module:
    """Return a network with BatchNorm, its statistics as after some other training."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(INPUTS, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, CLASSES)).double()
        model[1].running_var.uniform_(0.5, 2.0)
    return model


def problem(kind: str, scale: float = 1.0) -> ff.Task:
    data = [(scale * x, y) for x, y in holdings()]
    own = {"local": "bn"} if kind == "own norms" else {}
    return task(model=mlp() if kind == "plain" else normed(), clients=data, test=data[TEST], **own)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of three methods, with and without BatchNorm, shared or the clients' own."""
    root = tmp_path_factory.mktemp("landscapes")
    for kind in ("plain", "norms", "own norms"):
        for number, method in enumerate(METHODS):
            scale = 1.0 if kind == "plain" else 1.0 + number  # so that statistics lie far apart
            trained(method, root / kind / method, problem(kind, scale), seed=number)
    return root


@pytest.fixture
def runs(home: Path, tmp_path: Path) -> Callable[..., list[Path]]:
    """Return copies of some of the runs."""

    def copies(kind: str, count: int, name: str = "runs") -> list[Path]:
        return [Path(shutil.copytree(home / kind / m, tmp_path / name / m)) for m in METHODS[:count]]

    return copies


def mixed(paths: Sequence[Path], shares: Sequence[float]) -> nn.Module:
    """Return a model whose every number is an affine combination of the runs' models, no variance below 0."""
    models = [ff.load_run(path).model() for path in paths]
    states = [model.state_dict() for model in models]
    for name, value in models[0].state_dict().items():
        if value.is_floating_point():
            value.copy_(sum(share * state[name] for share, state in zip(shares, states, strict=True)))
            if name.endswith("running_var"):
                value.clamp_(min=0)
    return models[0].eval()


@torch.no_grad()
def losses(model: nn.Module, pair: Pair) -> tuple[float, float]:
    """Return loss and error of a model."""
    outputs = model(pair[0])
    return float(cross_entropy(outputs, pair[1])), float((outputs.argmax(dim=1) != pair[1]).double().mean())


def parts_of(path: Path) -> dict[str, Pair]:
    """Return the training and test examples of a run."""
    problem = ff.load_run(path)._federation.task
    clients = [problem.examples(k).batch(torch.arange(len(problem.examples(k)))) for k in range(CLIENTS)]
    return {"train": (torch.cat([x for x, _ in clients]), torch.cat([y for _, y in clients])), "test": clients[TEST]}


def look(paths: Sequence[Path], kind: str = "surface", **changes: Any) -> Landscape:
    told = {name: changes.pop(name) for name in ("workers", "on_point") if name in changes}
    return landscape(list(paths), View(**({"kind": kind, "points": 5, "samples": None} | changes)), **told)


def line(found: Landscape) -> Line:
    assert not found.grids
    [only] = found.lines
    return only


# --- between two models -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "norms"])
def test_a_line_is_the_loss_of_the_models_between(kind: str, runs: Callable[..., list[Path]]) -> None:
    paths = runs(kind, 2)
    found = line(look(paths, "line", points=7))
    assert set(found.losses) == {"train", "test"}
    for name, pair in parts_of(paths[0]).items():
        direct = [losses(mixed(paths, (g, 1 - g)), pair)[0] for g in found.xs]
        np.testing.assert_allclose(found.losses[name], direct, rtol=1e-9)
        assert np.isfinite(found.losses[name]).all()
        ends = direct[found.xs.tolist().index(1.0)], direct[found.xs.tolist().index(0.0)]
        rises = [v - (g * ends[0] + (1 - g) * ends[1]) for g, v in zip(found.xs, direct, strict=True) if 0 <= g <= 1]
        assert found.barriers[name] == pytest.approx(max(rises), abs=1e-9)
    assert found.marks == {"fedavg": 1.0, "fedsam": 0.0}
    assert (found.label, found.x_name) == ("fedsam to fedavg", "share of fedavg")
    assert found.note == "training data of all clients, all 34 examples; test set, all 9 examples"


def test_variances_beyond_the_models_are_cut_off_at_zero(runs: Callable[..., list[Path]]) -> None:
    paths = runs("norms", 2)
    first, second = (ff.load_run(path).model().state_dict()["1.running_var"] for path in paths)
    assert bool((2 * first - second < 0).any() or (2 * second - first < 0).any()), "or this test says nothing"
    found = line(look(paths, "line", points=3))
    for values in found.losses.values():
        assert np.isfinite(values).all()


@pytest.mark.parametrize("points", [3, 5, 7, 9, 11, 13, 21, 51, 101, 333])
def test_both_models_are_on_the_line_whatever_the_points(points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def note(surfaces: Any, a: Any, b: Any, shares: list[float], *_: Any) -> Line:
        asked.extend(shares)
        return Line("", np.array(shares), {}, "")

    monkeypatch.setattr(scenes, "between", note)
    monkeypatch.setattr("flatfed.experiments.landscapes.laboratory", lambda *_, **__: ff.laboratory(task()))
    look([Path("a"), Path("b")], "line", points=points)
    assert asked[0] == -1.0 and asked[-1] == 2.0
    assert 0.0 in asked and 1.0 in asked
    np.testing.assert_allclose(np.diff(asked), 3 / (len(asked) - 1))
    assert len(asked) >= points


@pytest.mark.parametrize("stats", ["running", "recalibrate"])
def test_the_ends_of_a_line_are_what_measurements_say(stats: str, tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for number, path in enumerate(paths):
        trained(METHODS[number], path, problem("norms", 1 + number), eval_stats=stats)
    found = line(look(paths, "line", points=3))
    for name in ("train", "test"):
        data = parts_of(paths[0])[name]
        for path, place in zip(paths, (1.0, 0.0), strict=True):
            direct, _ = losses(ff.load_run(path).model().eval(), data)
            assert found.losses[name][found.xs.tolist().index(place)] == pytest.approx(direct, rel=1e-9)


def test_a_task_without_a_test_set_has_the_training_loss_alone(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for method, path in zip(METHODS, paths, strict=False):
        trained(method, path, task(test=None))
    assert set(line(look(paths, "line", points=3)).losses) == {"train"}


# --- through three ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "norms"])
def test_a_plane_goes_through_the_three_models(kind: str, runs: Callable[..., list[Path]]) -> None:
    paths = runs(kind, 3)
    first, second, third = (ff.load_run(path).vector for path in paths)
    u = unit(second - first)
    v = unit(third - first - (third - first) @ u * u)
    width, height, third_x = float((second - first).norm()), float((third - first) @ v), float((third - first) @ u)
    train, test = look(paths, "plane").grids
    for grid, pair in zip((train, test), parts_of(paths[0]).values(), strict=True):
        assert grid.marks["fedavg"] == (0.0, 0.0)
        assert grid.marks["fedsam"] == pytest.approx((width, 0.0), abs=1e-9)
        assert grid.marks["fedavgm"] == pytest.approx((third_x, height))
        low, high = min(0.0, third_x), max(width, third_x)
        span = high - low
        assert (grid.xs[0], grid.xs[-1]) == pytest.approx((low - 0.2 * span, high + 0.2 * span), rel=1e-6)
        assert (grid.ys[0], grid.ys[-1]) == pytest.approx((-0.2 * height, 1.2 * height), rel=1e-6)
        assert grid.errors is not None
        for row, y in enumerate(grid.ys):
            for place, x in enumerate(grid.xs):
                c = y / height
                b = (x - c * third_x) / width
                direct = losses(mixed(paths, (1 - b - c, b, c)), pair)
                assert grid.losses[row, place] == pytest.approx(direct[0], rel=1e-8)
                assert grid.errors[row, place] == pytest.approx(direct[1], abs=1e-12)
    assert (train.note, test.note) == ("training data of all clients, all 34 examples", "test set, all 9 examples")


def placed(surface: Surface, generator: torch.Generator) -> list[tuple[str, Tensor, dict[str, Tensor]]]:
    """Return three models, the third half-way along the first axis: a grid of 15 points meets all of them."""

    def like(tensor: Tensor) -> Tensor:
        return torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)

    along = 0.5 * unit(like(surface.w))
    up = like(surface.w)
    up = 0.3 * unit(up - (up @ unit(along)) * unit(along))
    statistics = surface.buffers["buffers"]
    shifts = [0.2 * like(statistics).abs() for _ in range(2)]
    return [
        ("first", surface.w, dict(surface.buffers)),
        ("second", surface.w + along, {**surface.buffers, "buffers": statistics + shifts[0]}),
        ("third", surface.w + 0.5 * along + up, {**surface.buffers, "buffers": statistics + shifts[1]}),
    ]


def test_the_loss_at_a_mark_is_the_models_own() -> None:
    surface = ff.laboratory(problem("norms")).surface
    models = placed(surface, torch.Generator().manual_seed(1))
    grid = scenes.through(surface, models, 15)
    for name, w, buffers in models:
        x, y = grid.marks[name]
        column, row = int(np.abs(grid.xs - x).argmin()), int(np.abs(grid.ys - y).argmin())
        assert (grid.xs[column], grid.ys[row]) == pytest.approx((x, y), abs=1e-6), "a mark of these lies on the grid"
        assert grid.losses[row, column] == pytest.approx(surface.at(w, buffers).loss(), rel=1e-5)


def test_models_on_one_line_have_no_plane(runs: Callable[..., list[Path]]) -> None:
    first, second = runs("plain", 2)
    for three in ([first, second, first], [first, first, second], [first, second, second]):
        with pytest.raises(ConfigError, match="lie on one line, or two are the same"):
            look(three, "plane")


@pytest.mark.parametrize("size", [1_000, 200_000])
@pytest.mark.parametrize("share", [0.5, 2.0, -1.0])
def test_models_on_one_line_in_single_precision(size: int, share: float) -> None:
    generator = torch.Generator().manual_seed(size)
    first, second = (torch.randn(size, generator=generator) for _ in range(2))
    with pytest.raises(ConfigError, match="lie on one line"):
        plane_through([first, second, (1 - share) * first + share * second])


# --- around one ---------------------------------------------------------------------------------------------


def normalised(model: nn.Module, number: int, seed: int, local: Sequence[str] = ()) -> dict[str, Tensor]:
    """Return a direction for each shared parameter; the raw one is the only thing taken from the code."""
    named = [(name, p.detach()) for name, p in model.named_parameters() if name not in local]
    raw = raw_direction(sum(p.numel() for _, p in named), number, seed, torch.float64)
    found, offset = {}, 0
    for name, weights in named:
        drawn = raw[offset : offset + weights.numel()].view(weights.shape)
        offset += weights.numel()
        if weights.ndim < 2:
            found[name] = torch.zeros_like(weights)
            continue
        rows = [d * w.norm() / (d.norm() + 1e-10) for d, w in zip(drawn, weights, strict=True)]
        found[name] = torch.stack(rows)
    return found


def pushed(model: nn.Module, pushes: Sequence[tuple[float, dict[str, Tensor]]]) -> nn.Module:
    for share, direction in pushes:
        for name, step in direction.items():
            model.get_parameter(name).data.add_(step, alpha=share)
    return model.eval()


@pytest.mark.parametrize(("kind", "seed"), [("plain", 0), ("plain", 3), ("norms", 0)])
def test_a_surface_is_the_loss_along_two_normalised_directions(
    kind: str, seed: int, runs: Callable[..., list[Path]]
) -> None:
    """The same raw directions for both models, each normalised by its own filters."""
    paths = runs(kind, 2)
    grids = look(paths, seed=seed, extent=0.7, points=3).grids
    assert [grid.label for grid in grids] == ["fedavg", "fedsam"]
    for path, grid in zip(paths, grids, strict=True):
        np.testing.assert_allclose(grid.xs, [-0.7, 0, 0.7], atol=1e-7)
        directions = [normalised(ff.load_run(path).model(), number, seed) for number in (0, 1)]
        for row, y in enumerate(grid.ys):
            for place, x in enumerate(grid.xs):
                model = pushed(ff.load_run(path).model(), list(zip((x, y), directions, strict=True)))
                direct = losses(model, parts_of(path)["train"])
                assert grid.losses[row, place] == pytest.approx(direct[0], rel=1e-9)
                assert grid.errors is not None and grid.errors[row, place] == pytest.approx(direct[1])
        assert f"raw directions of seed {seed}" in grid.note


def test_another_seed_has_other_directions(runs: Callable[..., list[Path]]) -> None:
    [path] = runs("plain", 1)
    first, second = (look([path], seed=seed).grids[0].losses for seed in (0, 1))
    assert first[2, 2] == second[2, 2]
    assert np.abs(first - second)[np.arange(5) != 2].min() > 0


@pytest.mark.parametrize(("points", "extent"), [(3, 1.0), (5, 0.5), (7, 1.0), (21, 1.0), (51, 1.0), (11, 0.3)])
def test_the_middle_of_a_surface_is_the_model(points: int, extent: float) -> None:
    """Not a hundred-millionth beside it, where every figure is taken to be the model's."""
    seen: list[tuple[float, ...]] = []
    surface = ff.laboratory(task()).surface

    class Seen:
        def get(self, at: tuple[float, ...]) -> dict[str, Any]:
            seen.append(at)
            return {"loss": 0.0}

    keep: Any = lambda part: Seen()  # noqa: E731
    grid = scenes.around(surface, "model", points, extent, keep=keep)
    assert grid.marks == {"model": (0.0, 0.0)}
    assert (0.0, 0.0) in seen
    np.testing.assert_allclose(grid.xs, np.linspace(-extent, extent, points), rtol=0, atol=1e-15)


def test_parts_of_the_clients_are_the_initial_ones_and_stay(runs: Callable[..., list[Path]]) -> None:
    paths = runs("own norms", 2)
    grids = look(paths, points=3).grids
    local = [name for name, _ in normed().named_parameters() if name.startswith("1.")]
    for path, grid in zip(paths, grids, strict=True):
        directions = [normalised(ff.load_run(path).model(), number, 0, local) for number in (0, 1)]
        assert grid.losses[1, 1] == ff.laboratory(path).surface.loss()
        model = pushed(ff.load_run(path).model(), [(1.0, directions[0]), (-1.0, directions[1])])
        assert all(torch.equal(model.get_parameter(name), normed().get_parameter(name)) for name in local)
        model[1].train()  # where statistics stay on the clients, those of each batch are taken
        batches = [(a, b - a) for a, b in zip([0, 4, 9, 14, 19, 24, 29], [4, 9, 14, 19, 24, 29, 34], strict=True)]
        total = 0.0
        for first, count in batches:
            x, y = (part[first : first + count] for part in parts_of(path)["train"])
            total += count * losses(model, (x, y))[0]
        assert len(grid.xs) == 3 and grid.losses[0, 2] == pytest.approx(total / 34, rel=1e-9)


# --- at growing distance ------------------------------------------------------------------------------------


def test_along_the_gradient_and_the_mean_over_random_directions(runs: Callable[..., list[Path]]) -> None:
    paths = runs("plain", 2)
    found = look(paths, "along", points=5, extent=0.8, directions=3, seed=2)
    assert not found.grids
    steep, random = found.lines[:2], found.lines[2:]
    assert [one.label for one in (*steep, *random)] == ["fedavg", "fedsam"] * 2
    for path, up, around in zip(paths, steep, random, strict=True):
        w = ff.load_run(path).vector
        slope = unit(gradient(w, *everyone()))
        np.testing.assert_allclose(up.xs, [0, 0.2, 0.4, 0.6, 0.8])
        np.testing.assert_allclose(
            up.losses["along the gradient"], [loss(w + s * slope, *everyone()) for s in up.xs], rtol=1e-9
        )
        directions = [
            torch.cat([part.flatten() for part in normalised(ff.load_run(path).model(), number, 2).values()])
            for number in range(3)
        ]
        means = [np.mean([loss(w + s * d, *everyone()) for d in directions]) for s in around.xs]
        np.testing.assert_allclose(around.losses["along random directions"], means, rtol=1e-9)
        assert up.losses["along the gradient"][0] == pytest.approx(loss(w, *everyone()))


# --- a client's model ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", [None, 1, 4])
def test_a_clients_model_on_its_own_examples_and_on_everyones(
    chosen: int | None, runs: Callable[..., list[Path]]
) -> None:
    [path] = runs("plain", 1)
    client = cohort(ff.load_run(path), ROUNDS - 1)[0] if chosen is None else chosen
    own, everyones = look([path], "client", client=chosen, points=3).grids
    w = descend(client, ff.load_run(path).vector)
    assert own.losses[1, 1] == pytest.approx(loss(w, *holdings()[client]), rel=1e-9)
    assert everyones.losses[1, 1] == pytest.approx(loss(w, *everyone()), rel=1e-9)
    assert own.label == f"fedavg, client {client}: own examples"
    assert own.note.startswith(f"client {client}, all {len(holdings()[client][0])} examples")
    assert everyones.note.startswith("training data of all clients, all 34 examples")


@pytest.mark.parametrize("kind", ["norms", "own norms"])
def test_a_clients_model_has_its_own_statistics_and_parts(kind: str, runs: Callable[..., list[Path]]) -> None:
    [path] = runs(kind, 1)
    own, everyones = look([path], "client", client=2, points=3).grids
    lab = ff.laboratory(path)
    assert lab.federation is not None
    [model] = probe(lab.federation, [2]).models
    there = lab.surface.at(model.w, model.buffers)
    assert own.losses[1, 1] == there.over("client 2").loss()
    assert everyones.losses[1, 1] == pytest.approx(there.loss(), rel=1e-12)


@pytest.mark.parametrize("client", [CLIENTS, 99])
def test_a_client_that_is_not_there(client: int, runs: Callable[..., list[Path]]) -> None:
    with pytest.raises(ConfigError, match=rf"no client {client}"):
        look(runs("plain", 1), "client", client=client)


def test_a_client_without_examples(tmp_path: Path) -> None:
    empty = [(x[:0], y[:0]) if k == 2 else (x, y) for k, (x, y) in enumerate(holdings())]
    trained("fedavg", tmp_path / "run", task(clients=empty))
    with pytest.raises(FlatfedError, match="client 2"):
        look([tmp_path / "run"], "client", client=2)


# --- points are kept ----------------------------------------------------------------------------------------


class Counted:
    """Counts the points that are evaluated."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count, plain = 0, Surface.figures_at

        def counted(surface: Surface, points: Sequence[Any], *rest: Any, **more: Any) -> Any:
            self.count += len(points)
            return plain(surface, points, *rest, **more)

        patch.setattr(Surface, "figures_at", counted)

    def of(self, look: Callable[[], Landscape]) -> tuple[int, Landscape]:
        before = self.count
        found = look()
        return self.count - before, found


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def same(a: Landscape, b: Landscape) -> bool:
    return json.dumps(a.to_dict()) == json.dumps(b.to_dict())


KINDS = {"surface": (2, 50), "line": (2, 14), "plane": (3, 50), "along": (1, 5 + 1 + 4 * 10), "client": (1, 50)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_look_evaluates_nothing(kind: str, runs: Callable[..., list[Path]], counted: Counted) -> None:
    count, points = KINDS[kind]
    paths, told = runs("norms", count), list[tuple[str, int, int]]()
    evaluated, first = counted.of(lambda: look(paths, kind))
    assert evaluated == points
    evaluated, second = counted.of(lambda: look(paths, kind, on_point=lambda *step: told.append(step)))
    assert evaluated == 0
    assert same(first, second)
    assert all(done == total for _, done, total in told)


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_look_goes_on_where_it_was(kind: str, runs: Callable[..., list[Path]], counted: Counted) -> None:
    count, points = KINDS[kind]
    whole = look(runs("norms", count, "whole"), kind)
    paths, heard = runs("norms", count, "stopped"), list[int]()

    def stop(name: str, done: int, total: int) -> None:
        heard.append(done)
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        look(paths, kind, on_point=stop)
    kept = [line for file in paths[0].glob("flatness/*.jsonl") for line in file.read_text().splitlines()[1:]]
    assert len(kept) == 3
    evaluated, found = counted.of(lambda: look(paths, kind))
    assert evaluated == points - 3
    assert same(found, whole)


@pytest.mark.parametrize("torn", ["half a line", "no line end", "nothing but the start of the key", "empty"])
def test_a_file_that_was_torn_off_is_used_as_far_as_it_goes(
    torn: str, runs: Callable[..., list[Path]], counted: Counted
) -> None:
    paths = runs("plain", 1)
    whole = look(paths, points=3)
    [file] = paths[0].glob("flatness/*.jsonl")
    text = file.read_text()
    cut = {"half a line": len(text) - 9, "no line end": len(text) - 1, "nothing but the start of the key": 20}
    file.write_text(text[: cut.get(torn, 0)])
    evaluated, again = counted.of(lambda: look(paths, points=3))
    assert evaluated == {"half a line": 1, "no line end": 0}.get(torn, 9)
    assert same(again, whole)
    assert counted.of(lambda: look(paths, points=3))[0] == 0


@pytest.mark.parametrize(("coarse", "fine"), [(3, 5), (5, 9), (3, 7), (7, 13), (7, 19)])
def test_a_finer_surface_takes_over_what_fits(
    coarse: int, fine: int, runs: Callable[..., list[Path]], counted: Counted
) -> None:
    """Where the finer grid holds every point of the coarser one."""
    assert (fine - 1) % (coarse - 1) == 0
    paths = runs("plain", 1)
    look(paths, points=coarse)
    evaluated, found = counted.of(lambda: look(paths, points=fine))
    assert evaluated == fine**2 - coarse**2
    assert same(found, look(runs("plain", 1, "fresh"), points=fine))


@pytest.mark.parametrize(("coarse", "fine"), [(3, 5), (3, 7), (5, 13), (7, 19)])
def test_a_finer_line_takes_over_what_fits(
    coarse: int, fine: int, runs: Callable[..., list[Path]], counted: Counted
) -> None:
    paths = runs("plain", 2)
    before, _ = counted.of(lambda: look(paths, "line", points=coarse))
    after, _ = counted.of(lambda: look(paths, "line", points=fine))
    fresh, _ = counted.of(lambda: look(runs("plain", 2, "fresh"), "line", points=fine))
    assert after == fresh - before


CHANGES: dict[str, dict[str, Any]] = {
    "another seed": {"seed": 1},
    "a part of the examples": {"samples": 20},
    "the last global model": {"weights": "global"},
    "another client": {"kind": "client", "client": 3},
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_decides_a_landscape_is_not_mixed_up(
    change: str, runs: Callable[..., list[Path]], counted: Counted
) -> None:
    paths, plain = runs("plain", 1), {"kind": "client", "client": 1} if change == "another client" else {}
    look(paths, points=3, **plain)
    evaluated, found = counted.of(lambda: look(paths, points=3, **CHANGES[change]))
    assert evaluated == 9 * len(found.grids)
    assert same(found, look(runs("plain", 1, "fresh"), points=3, **CHANGES[change]))


def test_other_rounds_and_other_partners_are_not_mixed_up(runs: Callable[..., list[Path]], counted: Counted) -> None:
    first, second, third = runs("plain", 3)
    earlier, last = checkpoint(first, ROUNDS - 1), checkpoint(first, ROUNDS)
    at_end = look([first], points=3).grids[0]
    evaluated, before = counted.of(lambda: look([earlier], points=3))
    assert evaluated == 9
    assert before.grids[0].losses[1, 1] == pytest.approx(ff.laboratory(earlier).surface.loss(), rel=1e-12)
    assert not np.array_equal(before.grids[0].losses, at_end.losses)
    assert counted.of(lambda: look([last], points=3))[0] == 0
    for pair in ([first, second], [first, third], [second, first], [earlier, last]):
        assert counted.of(lambda pair=pair: look(pair, "line", points=3))[0] == 8


def test_more_rounds_are_looked_at_anew(runs: Callable[..., list[Path]], counted: Counted) -> None:
    [path] = runs("plain", 1)
    look([path], points=3)
    ff.resume(path, rounds=ROUNDS + 2, workers=0)
    evaluated, found = counted.of(lambda: look([path], points=3))
    assert evaluated == 9
    assert found.grids[0].losses[1, 1] == pytest.approx(loss(ff.load_run(path).vector, *everyone()))


def test_clients_of_a_round_that_was_the_last_and_is_no_more(tmp_path: Path) -> None:
    """At its end a run tries its last round again; once it is extended, the same checkpoint tries the next one."""
    path = tmp_path / "run"
    trained("fedavg", path, rounds=2, batch_size=2)
    at_end = look([path], "client", points=3, client=1)
    ff.resume(path, rounds=3, workers=0)
    fresh = Path(shutil.copytree(path, tmp_path / "fresh"))
    shutil.rmtree(fresh / "flatness")
    expected = look([checkpoint(fresh, 2)], "client", points=3, client=1)
    assert not same(expected, at_end), "or this test says nothing"
    assert same(look([checkpoint(path, 2)], "client", points=3, client=1), expected)


def test_readings_of_clients_of_a_round_that_was_the_last_and_is_no_more(tmp_path: Path) -> None:
    path = tmp_path / "run"
    trained("fedavg", path, rounds=2)

    def asked(source: Path) -> list[int]:
        with ff.laboratory(source) as lab:
            return sorted(lab.measure("client_divergence")["client_divergence"].clients["client_divergence"])

    assert asked(path) == sorted(cohort(ff.load_run(path), 1))
    ff.resume(path, rounds=3, workers=0)
    assert cohort(ff.load_run(path), 1) != cohort(ff.load_run(path), 2), "or this test says nothing"
    assert asked(checkpoint(path, 2)) == sorted(cohort(ff.load_run(path), 2))


@pytest.mark.parametrize("kind", ["surface", "plane", "client"])
def test_the_same_bits_with_workers(kind: str, runs: Callable[..., list[Path]]) -> None:
    count, _ = KINDS[kind]
    alone = look(runs("norms", count, "alone"), kind, points=3, workers=0)
    assert same(alone, look(runs("norms", count, "together"), kind, points=3, workers=2))


def test_a_part_of_the_examples_is_the_fixed_one(runs: Callable[..., list[Path]]) -> None:
    [path] = runs("plain", 1)
    [grid] = look([path], points=3, samples=10, seed=4).grids
    part = Sample("train", 10, 4).examples(ff.load_run(path)._federation.task)
    assert grid.losses[1, 1] == pytest.approx(loss(ff.load_run(path).vector, *part.batch(torch.arange(10))))
    assert "10 of 34 examples (seed 4)" in grid.note


def test_a_loss_that_overflows_is_infinite_and_no_json_number(tmp_path: Path) -> None:
    trained("fedavg", tmp_path / "run", dtype=torch.float32)
    for _ in range(2):  # evaluated, and read back
        [grid] = look([tmp_path / "run"], points=3, extent=1e38).grids
        assert math.isinf(grid.losses[0, 0]) and math.isfinite(grid.losses[1, 1])
        assert json.loads(json.dumps(grids_of(grid), allow_nan=False))["losses"][0][0] is None


def grids_of(grid: Grid) -> dict[str, Any]:
    found: dict[str, Any] = Landscape([grid], []).to_dict()["grids"][0]
    return found


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
        assert ends.losses["test"][place] == pytest.approx(ff.load_run(path).figures()["test_loss"], rel=1e-4)
    plane = look(paths, "plane", points=3)
    along = look(paths[:1], "along", points=3, directions=2)
    client = look(paths[:1], "client", points=3)
    assert (len(plane.grids), len(along.lines), len(client.grids)) == (2, 2, 2)


def numbers(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.mse_loss(outputs.squeeze(1), targets)


def test_a_regression_has_losses_and_no_errors(tmp_path: Path) -> None:
    data = [(x, x.sum(dim=1)) for x, _ in holdings()]
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
    with pytest.raises(ConfigError, match=rf"odd number of at least 3 points an axis, not {points}"):
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
        ("client", 2, "1 run, not 2"),
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
        found = line(look(paths, "line", points=3))
    except ConfigError:
        return
    own = [ff.laboratory(path).surface.loss() for path in paths]
    assert [found.losses["train"][2], found.losses["train"][1]] == pytest.approx(own, rel=1e-9)


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


def test_progress_is_told_for_each_model(runs: Callable[..., list[Path]]) -> None:
    heard: list[tuple[str, int, int]] = []
    look(runs("plain", 2), points=3, on_point=lambda *step: heard.append(step))
    assert heard == [(name, done, 9) for name in ("fedavg", "fedsam") for done in range(10)]
    assert COHORT < CLIENTS
