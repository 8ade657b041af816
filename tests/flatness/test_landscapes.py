"""Landscapes of runs, point by point against models that are put together here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import flatfed as ff
from flatfed.core.errors import ConfigError, FlatfedError
from flatfed.core.round.probe import probe
from flatfed.flatness.drawable import Line
from flatfed.flatness.landscape import scenes
from flatfed.flatness.landscape.planes import plane_through
from flatfed.flatness.landscape.scenes import PlacedModel, raw_direction
from flatfed.flatness.surface import Surface
from flatness.federations import (
    CLIENTS,
    COHORT,
    ROUNDS,
    checkpoint,
    client_data,
    cohort,
    descend,
    everyone,
    gradient,
    loss,
    task,
    trained,
    unit,
)
from flatness.landscapes import (
    METHODS,
    line,
    look,
    losses,
    mixed,
    normed,
    parts_of,
    problem,
)

# --- between two models -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "norms"])
def test_a_line_is_the_loss_of_the_models_between(kind: str, runs: Callable[..., list[Path]]) -> None:
    paths = runs(kind, 2)
    actual = line(look(paths, "line", points=7))
    assert set(actual.losses) == {"train", "test"}
    for name, pair in parts_of(paths[0]).items():
        direct = [losses(mixed(paths, (g, 1 - g)), pair)[0] for g in actual.xs]
        np.testing.assert_allclose(actual.losses[name], direct, rtol=1e-9)
        assert np.isfinite(actual.losses[name]).all()
        ends = direct[actual.xs.tolist().index(1.0)], direct[actual.xs.tolist().index(0.0)]
        rises = [v - (g * ends[0] + (1 - g) * ends[1]) for g, v in zip(actual.xs, direct, strict=True) if 0 <= g <= 1]
        assert actual.barriers[name] == pytest.approx(max(rises), abs=1e-9)
    assert actual.marks == {"fedavg": 1.0, "fedsam": 0.0}
    assert (actual.label, actual.x_name) == ("fedsam to fedavg", "share of fedavg")
    assert actual.note == "training data of all clients, all 34 examples; test set, all 9 examples"


def test_variances_beyond_the_models_are_cut_off_at_zero(runs: Callable[..., list[Path]]) -> None:
    paths = runs("norms", 2)
    first, second = (ff.load_run(path).model().state_dict()["1.running_var"] for path in paths)
    assert bool((2 * first - second < 0).any() or (2 * second - first < 0).any()), "or this test says nothing"
    actual = line(look(paths, "line", points=3))
    for values in actual.losses.values():
        assert np.isfinite(values).all()


@pytest.mark.parametrize("points", [3, 5, 7, 9, 11, 13, 21, 51, 101, 333])
def test_both_models_are_on_the_line_whatever_the_points(points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def note(surfaces: Any, a: Any, b: Any, shares: list[float], *_: Any) -> Line:
        asked.extend(shares)
        return Line("", np.array(shares), {}, "")

    monkeypatch.setattr(scenes, "between", note)
    monkeypatch.setattr("flatfed.experiments.measuring.landscapes.laboratory", lambda *_, **__: ff.laboratory(task()))
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
    actual = line(look(paths, "line", points=3))
    for name in ("train", "test"):
        data = parts_of(paths[0])[name]
        for path, place in zip(paths, (1.0, 0.0), strict=True):
            direct, _ = losses(ff.load_run(path).model().eval(), data)
            assert actual.losses[name][actual.xs.tolist().index(place)] == pytest.approx(direct, rel=1e-9)


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


def placed(surface: Surface, generator: torch.Generator) -> list[PlacedModel]:
    """Return three models, the third half-way along the first axis: a grid of 15 points meets all of them."""

    def like(tensor: Tensor) -> Tensor:
        return torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)

    along = 0.5 * unit(like(surface.w))
    up = like(surface.w)
    up = 0.3 * unit(up - (up @ unit(along)) * unit(along))
    statistics = surface.buffers["buffers"]
    shifts = [0.2 * like(statistics).abs() for _ in range(2)]
    return [
        PlacedModel("first", surface.w, dict(surface.buffers)),
        PlacedModel("second", surface.w + along, {**surface.buffers, "buffers": statistics + shifts[0]}),
        PlacedModel("third", surface.w + 0.5 * along + up, {**surface.buffers, "buffers": statistics + shifts[1]}),
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
    actual, offset = {}, 0
    for name, weights in named:
        drawn = raw[offset : offset + weights.numel()].view(weights.shape)
        offset += weights.numel()
        if weights.ndim < 2:
            actual[name] = torch.zeros_like(weights)
            continue
        rows = [d * w.norm() / (d.norm() + 1e-10) for d, w in zip(drawn, weights, strict=True)]
        actual[name] = torch.stack(rows)
    return actual


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
    actual = look(paths, "along", points=5, extent=0.8, directions=3, seed=2)
    assert not actual.grids
    steep, random = actual.lines[:2], actual.lines[2:]
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


@pytest.mark.parametrize("place", [None, 0, 2])
@pytest.mark.parametrize("round", ["last", "next"])
def test_a_clients_model_on_its_own_examples_and_on_everyones(
    place: int | None, round: str, runs: Callable[..., list[Path]]
) -> None:
    [path] = runs("plain", 1)
    run, settings = ff.load_run(path), ff.load_run(path)._federation.settings
    clients = cohort(run, ROUNDS - 1) if round == "last" else ff.Uniform(COHORT).draw(CLIENTS, settings.seed, ROUNDS, 0)
    client = clients[place or 0]
    own, everyones = look([path], "client", client=None if place is None else client, points=3, round=round).grids
    with ff.laboratory(checkpoint(path, ROUNDS - 1 if round == "last" else ROUNDS)) as lab:
        w = descend(client, lab.surface.w)
    assert own.losses[1, 1] == pytest.approx(loss(w, *client_data()[client]), rel=1e-9)
    assert everyones.losses[1, 1] == pytest.approx(loss(w, *everyone()), rel=1e-9)
    assert own.label == f"fedavg, client {client}: own examples"
    assert own.note.startswith(f"client {client}, all {len(client_data()[client][0])} examples")
    assert everyones.note.startswith("training data of all clients, all 34 examples")


@pytest.mark.parametrize("kind", ["norms", "own norms"])
def test_a_clients_model_has_its_own_statistics_and_parts(kind: str, runs: Callable[..., list[Path]]) -> None:
    [path] = runs(kind, 1)
    own, everyones = look([path], "client", client=2, points=3, round="next").grids
    lab = ff.laboratory(path)
    assert lab.federation is not None
    [model] = probe(lab.federation, [2]).models
    there = lab.surface.at(model.w, model.buffers)
    assert own.losses[1, 1] == there.over("client 2").loss()
    assert everyones.losses[1, 1] == pytest.approx(there.loss(), rel=1e-12)


def test_a_client_that_took_no_part_in_the_last_round(runs: Callable[..., list[Path]]) -> None:
    [path] = runs("plain", 1)
    took = cohort(ff.load_run(path), ROUNDS - 1)
    [absent, *_] = sorted({*range(CLIENTS)} - {*took})
    with pytest.raises(ConfigError, match=rf"client {absent} did not take part in the last round; those that did are"):
        look([path], "client", client=absent)


@pytest.mark.parametrize("client", [CLIENTS, 99])
def test_a_client_that_is_not_there(client: int, runs: Callable[..., list[Path]]) -> None:
    with pytest.raises(ConfigError, match=rf"no client {client}"):
        look(runs("plain", 1), "client", client=client)


def test_a_client_without_examples(tmp_path: Path) -> None:
    empty = [(x[:0], y[:0]) if k == 2 else (x, y) for k, (x, y) in enumerate(client_data())]
    trained("fedavg", tmp_path / "run", task(clients=empty))
    with pytest.raises(FlatfedError, match="client 2"):
        look([tmp_path / "run"], "client", client=2)
