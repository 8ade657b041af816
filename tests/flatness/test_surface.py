"""Losses, gradients and products of a surface against direct formulas, however the examples are divided."""

from __future__ import annotations

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import flatfed as ff
from flatfed.core.errors import ConfigError
from flatfed.flatness.sums import Sample
from flatfed.flatness.surface import Surface
from flatness.problems import (
    COUNT,
    KINDS,
    SIZES,
    UNEQUAL,
    Direct,
    close,
    data,
    direct,
    directions,
    divided,
    network,
    opened,
    surface,
    task,
)

DIVISIONS = [(SIZES, 512), (SIZES, 5), (UNEQUAL, 4), (UNEQUAL, 1), ((1,) * COUNT, 7)]
IGNORED = (0, 1, 2, 3, 4, 11, 22)


@functools.cache
def truth(kind: str, ignored: tuple[int, ...] = ()) -> tuple[Tensor, Tensor, Tensor]:
    """Return loss, gradient and Hessian at the network's own parameters."""
    known, w = direct(kind, ignored), surface(kind).w
    return known.loss(w), known.gradient(w), known.hessian(w)


def check(actual: Surface, expected: tuple[Tensor, Tensor, Tensor]) -> None:
    """Compare loss, gradient and a product with what they are."""
    loss, gradient, hessian = expected
    (v,) = directions(actual.size)
    assert actual.loss() == pytest.approx(float(loss), rel=1e-12)
    close(actual.gradient(), gradient)
    close(actual.product(v), hessian @ v)


@pytest.mark.parametrize(("sizes", "test_batch"), DIVISIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_however_the_examples_are_divided(kind: str, sizes: tuple[int, ...], test_batch: int) -> None:
    check(surface(kind, sizes, test_batch), truth(kind))


@pytest.mark.parametrize("test_batch", [1, 2, 5, 512])
@pytest.mark.parametrize("kind", KINDS)
def test_targets_to_be_ignored_do_not_count(kind: str, test_batch: int) -> None:
    check(surface(kind, UNEQUAL, test_batch, IGNORED), truth(kind, IGNORED))


@pytest.mark.parametrize("kind", KINDS)
def test_at_another_point_and_of_another_model(kind: str) -> None:
    actual, known = surface(kind, UNEQUAL, 4), direct(kind)
    other, v = directions(actual.size, 2)
    for elsewhere in (other, 0.1 * other):
        assert actual.loss(elsewhere) == pytest.approx(float(known.loss(elsewhere)), rel=1e-12)
        close(actual.gradient(elsewhere), known.gradient(elsewhere))
        close(actual.product(v, elsewhere), known.hessian(elsewhere) @ v)
        assert actual.at(elsewhere).loss() == actual.loss(elsewhere)
        assert torch.equal(actual.at(elsewhere).product(v), actual.product(v, elsewhere))


@settings(max_examples=30, deadline=None)
@given(
    coefficients=st.lists(st.floats(-2, 2), min_size=3, max_size=3),
    test_batch=st.integers(1, 30),
    kind=st.sampled_from(KINDS),
)
def test_metrics_at_points_of_a_plane(coefficients: list[float], test_batch: int, kind: str) -> None:
    actual, known = surface(kind, UNEQUAL, test_batch), direct(kind)
    along = directions(actual.size, 3)
    heard: dict[int, float] = {}
    points = [tuple(coefficients), (0.0, 0.0, 0.0), (1.0,)]
    answers = actual.metrics_at(points, along, on_point=lambda n, one: heard.update({n: one["loss"]}))
    places = [actual.w + sum(c * d for c, d in zip(point, along, strict=False)) for point in points]
    for answer, place in zip(answers, places, strict=True):
        assert answer["loss"] == pytest.approx(float(known.loss(place)), rel=1e-10)
    with torch.no_grad():
        outputs = network(kind).eval()(data(kind)[0])
    right = (outputs.argmax(dim=1) == data(kind)[1]).double().mean()
    assert answers[1]["accuracy"] == actual.metrics()["accuracy"] == pytest.approx(float(right))
    assert [heard[n] for n in range(3)] == [one["loss"] for one in answers]


@pytest.mark.parametrize("kind", KINDS)
def test_products_are_linear_and_symmetric(kind: str) -> None:
    actual = surface(kind, UNEQUAL, 3)
    u, v = directions(actual.size, 2)
    close(actual.product(2 * u - 3 * v), 2 * actual.product(u) - 3 * actual.product(v))
    assert float(u @ actual.product(v)) == pytest.approx(float(v @ actual.product(u)), rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_slopes_of_the_loss(kind: str) -> None:
    actual, step = surface(kind, test_batch=6), 1e-6
    (v,) = directions(actual.size)
    slope = (actual.loss(actual.w + step * v) - actual.loss(actual.w - step * v)) / (2 * step)
    assert slope == pytest.approx(float(actual.gradient() @ v), rel=1e-6)


@pytest.mark.parametrize("ignored", [(), IGNORED])
def test_the_same_bits_with_workers(ignored: tuple[int, ...]) -> None:
    alone = opened("batch norm", UNEQUAL, 2, ignored)
    with opened("batch norm", UNEQUAL, 2, ignored, workers=2) as together:
        (v,) = directions(alone.surface.size)
        assert alone.surface.loss() == together.surface.loss()
        assert torch.equal(alone.surface.gradient(), together.surface.gradient())
        assert torch.equal(alone.surface.product(v), together.surface.product(v))
        assert torch.equal(alone.surface.noisy_losses(0.1, 5, 3), together.surface.noisy_losses(0.1, 5, 3))
        points = [(0.5,), (-0.5,), (0.0,)]
        assert alone.surface.metrics_at(points, [v]) == together.surface.metrics_at(points, [v])
        names = "lambda_max", "trace", "lpf(samples=4)", "sharpness(steps=3)"
        assert alone.measure(*names) == together.measure(*names)


@pytest.mark.parametrize(("of", "places"), [("client 0", range(9)), ("client 3", range(10, 23)), ("test", range(9))])
def test_the_examples_of_one_client_and_of_a_test_set(of: str, places: range) -> None:
    actual = opened("tanh", UNEQUAL, 4, of=of).surface
    inputs, targets = data("tanh")
    known = Direct(network("tanh"), inputs[list(places)], targets[list(places)])
    assert actual.loss() == pytest.approx(float(known.loss(actual.w)), rel=1e-12)
    close(actual.gradient(), known.gradient(actual.w))
    assert torch.equal(actual.gradient(), surface("tanh", UNEQUAL, 4).over(of).gradient())


@settings(max_examples=40, deadline=None)
@given(most=st.integers(1, 30), seed=st.integers(0, 2**40), client=st.sampled_from([None, 0, 1, 3]))
def test_a_part_is_a_fixed_choice_without_repeats(most: int, seed: int, client: int | None) -> None:
    problem = task("tanh", UNEQUAL)
    of = "train" if client is None else f"client {client}"
    whole = Sample(of).examples(problem)
    part, again = (Sample(of, most, seed).examples(problem) for _ in range(2))
    rows, everyone = part.batch(torch.arange(len(part)))[0], whole.batch(torch.arange(len(whole)))[0].tolist()
    assert len(part) == min(most, len(whole)) == Sample(of, most, seed).count(problem)
    places = [everyone.index(row) for row in rows.tolist()]
    assert places == sorted(set(places))
    assert torch.equal(rows, again.batch(torch.arange(len(again)))[0])


def test_parts_of_other_seeds_are_other_parts_and_cover_all() -> None:
    problem, chosen = task("tanh", UNEQUAL), set()
    for seed in range(40):
        part = Sample("train", 5, seed).examples(problem)
        chosen |= {tuple(row) for row in part.batch(torch.arange(5))[0].tolist()}
    assert len(chosen) == COUNT


def test_the_loss_over_a_part_is_that_of_its_examples() -> None:
    lab = ff.laboratory(task("tanh", UNEQUAL, 3), samples=8, seed=5)
    part = lab.surface.sample.examples(task("tanh", UNEQUAL))
    known = Direct(network("tanh"), *part.batch(torch.arange(8)))
    check(lab.surface, (known.loss(lab.surface.w), known.gradient(lab.surface.w), known.hessian(lab.surface.w)))
    assert lab.surface.note == "training data of all clients, 8 of 23 examples (seed 5)"
    assert surface("tanh").note == "training data of all clients, all 23 examples"


def test_other_holders_of_the_same_examples() -> None:
    inputs, targets = data("tanh")
    parts = [torch.arange(COUNT)[k::3] for k in range(3)]
    kinds = [
        ff.laboratory(network("tanh"), (inputs, targets)),
        ff.laboratory(network("tanh"), TensorDataset(inputs, targets)),
        ff.laboratory(network("tanh"), divided((inputs, targets), UNEQUAL)),
        ff.laboratory(ff.Task(network("tanh"), ff.Partition(inputs, targets, parts), test_batch=4)),
    ]
    for lab in kinds:
        check(lab.surface, truth("tanh"))


class Odd(nn.Module):
    """A tied, a frozen and an unused parameter, and one that enters linearly."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.frozen = nn.Parameter(torch.full((3,), 0.7), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x)) * self.frozen)


def test_tied_frozen_and_unused_parameters() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Odd().double()
        inputs, targets = torch.randn(7, 3).double(), torch.arange(7) % 3
    actual = ff.laboratory(model, (inputs, targets)).surface
    assert actual.size == 9 + 3 + 2
    known = Direct(model, inputs, targets)
    check(actual, (known.loss(actual.w), known.gradient(actual.w), known.hessian(actual.w)))


def linear_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs.sum(dim=1).mean()


def test_a_loss_without_curvature() -> None:
    inputs = torch.arange(12.0, dtype=torch.float64).view(4, 3)
    lab = ff.laboratory(nn.Linear(3, 2).double(), (inputs, torch.zeros(4, dtype=torch.int64)), loss=linear_loss)
    assert not lab.surface.product(torch.ones(8, dtype=torch.float64)).any()
    assert lab.measure("lambda_max")["lambda_max"].numbers["lambda_max"] == 0
    close(lab.surface.gradient(), torch.cat([inputs.mean(dim=0).repeat(2), torch.ones(2, dtype=torch.float64)]))


def test_nothing_is_changed_by_measuring() -> None:
    model, (inputs, targets) = network("batch norm").train(), data("batch norm")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    lab = ff.laboratory(model, (inputs, targets))
    lab.measure("loss", "lambda_max", "trace(samples=2)", "lpf(samples=2)", "sharpness", "adaptive_sharpness")
    assert model.training and all(p.grad is None for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


def test_dropout_is_off_and_nothing_is_augmented() -> None:
    def refuse(inputs: Tensor, generator: torch.Generator) -> Tensor:
        raise AssertionError("augmented")

    plain = network("tanh")
    model = nn.Sequential(plain[0], plain[1], nn.Dropout(0.5), plain[2])
    actual = ff.laboratory(ff.Task(model, [data("tanh")], augment=refuse)).surface
    check(actual, truth("tanh"))


def test_what_a_task_prepares_is_prepared() -> None:
    inputs, targets = data("tanh")
    problem = ff.Task(network("tanh"), [(inputs * 4, targets)], prepare=quarter)
    check(ff.laboratory(problem).surface, truth("tanh"))


def quarter(inputs: Tensor) -> Tensor:
    return inputs / 4


def test_models_of_different_sizes_have_no_common_surface() -> None:
    actual = surface("tanh")
    with pytest.raises(ConfigError, match=r"models of 51 and of 7 parameters have no common surface"):
        actual.at(torch.zeros(7, dtype=torch.float64))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_model_that_is_not_finite(bad: float) -> None:
    model = network("tanh")
    with torch.no_grad():
        model[2].bias[1] = bad
    with pytest.raises(ConfigError, match="weights are not finite numbers: it has diverged"):
        ff.laboratory(model, data("tanh"))
    actual = surface("tanh")
    with pytest.raises(ConfigError, match="weights are not finite"):
        actual.at(torch.full_like(actual.w, bad))


def test_without_a_target_that_counts_there_is_neither_loss_nor_gradient_nor_product() -> None:
    actual = surface("tanh", ignored=range(COUNT))
    for ask in (actual.loss, actual.gradient, lambda: actual.product(actual.w)):
        with pytest.raises(ConfigError, match="no target of these examples counts"):
            ask()
