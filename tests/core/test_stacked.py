"""One stacked model gives each client what the client gets alone, and a model that it cannot stand for is refused."""

from __future__ import annotations

import functools
import inspect
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

import flatfed as ff
from core.bench import CLASSES, INPUTS, net, seeded
from flatfed.core.configuration.settings import Settings
from flatfed.core.model.oracle import Oracle
from flatfed.core.model.stacked import StackedModel, stacked_view, write_gradients
from flatfed.core.round.vectorised import LARGEST_GROUP, group_sizes

TIGHT = 1e-12
PLAIN = Settings(rounds=1, lr=0.1, batch_size=4)
Plus = Callable[[Any], Tensor]


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def classes(count: int, seed: int = 0) -> Tensor:
    return torch.randint(CLASSES, (count,), generator=torch.Generator().manual_seed(seed))


def close(actual: Tensor, expected: Tensor) -> None:
    """Compare to 1e-12 of the largest entry."""
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    largest = float(expected.abs().max()) if expected.numel() else 0.0
    torch.testing.assert_close(actual, expected, rtol=TIGHT, atol=TIGHT * largest)


def close_outputs(actual: Any, expected: Any) -> None:
    assert type(actual) is type(expected)
    if isinstance(expected, Tensor):
        close(actual, expected)
    else:
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            close_outputs(one, other)


class Bench:
    """A model as an oracle, for a client alone, and stacked; every client somewhere of its own."""

    def __init__(self, model: nn.Module, inputs: Tensor, targets: Tensor, clients: int, loss: Any = None) -> None:
        more = {} if loss is None else {"loss": loss}
        problem = ff.Task(model.double(), [(inputs, targets)], **more)
        self.oracle, self.stack = Oracle(problem, torch.float64), StackedModel(problem, torch.float64)
        self.points = self.oracle.w + 0.3 * drawn(clients, self.oracle.layout.size, seed=11)
        self.batches = [
            self.oracle.batch(part, answer)
            for part, answer in zip(inputs.chunk(clients), targets.chunk(clients), strict=True)
        ]

    def whole(self) -> tuple[Tensor, Tensor]:
        return torch.cat([x for x, _ in self.batches]), torch.cat([y for _, y in self.batches])

    def gradients(self, plus: Sequence[Plus | None]) -> tuple[Tensor, list[float]]:
        actual, losses = self.stack.gradients(self.points, *self.whole(), plus)
        matrix = torch.full_like(self.points, torch.nan)
        write_gradients(self.stack.layout, matrix, actual)
        return matrix, losses

    def check(self, plus: Sequence[Plus | None] | None = None) -> None:
        """Compare gradients, losses and outputs with those of each client alone."""
        plus = plus or [None] * len(self.points)
        matrix, losses = self.gradients(plus)
        outputs = self.stack.outputs(self.points, self.whole()[0])
        assert len(losses) == len(outputs) == len(self.points)
        for k, (batch, point) in enumerate(zip(self.batches, self.points, strict=True)):
            gradient, loss = self.oracle.gradient(*batch, at=point, plus=plus[k])
            assert float(gradient.abs().max()) > 0, "nothing is compared with nothing"
            close(matrix[k], gradient)
            assert losses[k] == pytest.approx(loss, rel=TIGHT, abs=TIGHT)
            close_outputs(outputs[k], self.oracle.outputs(batch[0], point))


def bench(make: Callable[[], nn.Module], shape: tuple[int, ...], clients: int = 3, each: int = 4) -> Bench:
    inputs = drawn(clients * each, *shape, seed=1)
    return Bench(seeded(make), inputs, classes(clients * each), clients)


# --- dense layers -----------------------------------------------------------------------------------------


class Tokens(nn.Module):
    """Dense layers on sequences, then their mean."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.inside, self.out = nn.Linear(INPUTS, 5, bias=bias), nn.Linear(5, CLASSES, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.inside(x))).flatten(1, -2).mean(1)


class Residual(nn.Module):
    """A layer that is used twice, one that is not used, and an edge around."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.idle, self.out = nn.Linear(INPUTS, INPUTS), nn.Linear(2, 2), nn.Linear(INPUTS, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = x + torch.tanh(self.block(x))
        return self.out(x + torch.relu(self.block(x)))


def dense(*widths: int, bias: bool = True) -> nn.Module:
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        layers += [nn.Linear(a, b, bias=bias), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


DENSE: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "one layer": (lambda: dense(INPUTS, CLASSES), (INPUTS,)),
    "three layers": (lambda: dense(INPUTS, 7, 6, CLASSES), (INPUTS,)),
    "no bias": (lambda: dense(INPUTS, 6, CLASSES, bias=False), (INPUTS,)),
    "one column": (lambda: dense(1, 1, CLASSES), (1,)),
    "images": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, CLASSES)), (3, 2, 2)),
    "sequences": (Tokens, (6, INPUTS)),
    "sequences, no bias": (lambda: Tokens(bias=False), (6, INPUTS)),
    "sequences of sequences": (Tokens, (2, 3, INPUTS)),
    "used twice and not at all": (Residual, (INPUTS,)),
}


@pytest.mark.parametrize("name", DENSE)
def test_dense_layers(name: str) -> None:
    bench(*DENSE[name]).check()


@settings(max_examples=25, deadline=None)
@given(
    clients=st.integers(1, LARGEST_GROUP),
    each=st.integers(1, 7),
    widths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    bias=st.booleans(),
)
def test_dense_layers_of_any_shape(clients: int, each: int, widths: list[int], bias: bool) -> None:
    bench(lambda: dense(*widths, CLASSES, bias=bias), (widths[0],), clients, each).check()


# --- convolutions -----------------------------------------------------------------------------------------


def convolved(channels: int, side: tuple[int, int], **options: Any) -> nn.Module:
    """A convolution of 4 channels with a dense layer after it."""
    layer = nn.Conv2d(channels, 4, **{"kernel_size": 3, **options})
    size = layer(torch.zeros(1, channels, *side)).numel()
    return nn.Sequential(layer, nn.Tanh(), nn.Flatten(), nn.Linear(size, CLASSES))


CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "stride": {"stride": 2},
    "strides": {"stride": (1, 3)},
    "padding": {"padding": 1},
    "paddings": {"padding": (2, 0)},
    "same": {"padding": "same"},
    "valid": {"padding": "valid"},
    "dilation": {"dilation": 2},
    "groups": {"groups": 2},
    "depthwise": {"groups": 4},
    "one pixel": {"kernel_size": 1},
    "oblong": {"kernel_size": (1, 4)},
    "all at once": {"stride": 2, "padding": (2, 1), "dilation": (1, 2), "groups": 2, "bias": False},
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    bench(lambda: convolved(4, (6, 5), **CONVOLUTIONS[name]), (4, 6, 5)).check()


@pytest.mark.parametrize("channels", [1, 2])
def test_convolutions_of_few_channels(channels: int) -> None:
    bench(lambda: convolved(channels, (4, 4)), (channels, 4, 4)).check()


def deep() -> nn.Module:
    """Two convolutions with a pooling between, as small networks have them."""
    first = (nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(*first, nn.Conv2d(4, 3, 2, groups=1), nn.ReLU(), nn.Flatten(), nn.Linear(12, CLASSES))


@pytest.mark.parametrize("shown", ["contiguous", "channels last"])
@pytest.mark.parametrize("stored", ["contiguous", "channels last"])
def test_storage_does_not_matter(stored: str, shown: str) -> None:
    formats = {"contiguous": torch.contiguous_format, "channels last": torch.channels_last}
    model = seeded(deep).to(memory_format=formats[stored])
    inputs = drawn(12, 2, 6, 6).contiguous(memory_format=formats[shown])
    Bench(model, inputs, classes(12), clients=4).check()


@settings(max_examples=25, deadline=None)
@given(
    clients=st.integers(1, LARGEST_GROUP),
    each=st.integers(1, 3),
    channels=st.integers(1, 3),
    groups=st.integers(1, 3),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.integers(1, 2),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
    bias=st.booleans(),
)
@example(clients=1, each=1, channels=2, groups=2, kernel=(1, 1), stride=1, padding=0, dilation=1, bias=False)
@example(clients=1, each=1, channels=3, groups=3, kernel=(3, 3), stride=2, padding=1, dilation=1, bias=True)
def test_convolutions_of_any_shape(
    clients: int,
    each: int,
    channels: int,
    groups: int,
    kernel: tuple[int, int],
    stride: int,
    padding: int,
    dilation: int,
    bias: bool,
) -> None:
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "bias": bias}

    def make() -> nn.Module:
        layer = nn.Conv2d(groups * channels, 2 * groups, kernel, **options)
        size = layer(torch.zeros(1, groups * channels, 6, 5)).numel()
        return nn.Sequential(layer, nn.Tanh(), nn.Flatten(), nn.Linear(size, CLASSES))

    bench(make, (groups * channels, 6, 5), clients, each).check()


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_client_that_has_overflowed_does_not_touch_the_others(value: float) -> None:
    """Groups of a convolution, and rows of a product, are computed beside each other."""
    made = bench(lambda: nn.Sequential(deep(), nn.Linear(CLASSES, CLASSES)), (2, 6, 6), clients=5)
    made.points[1] = value
    made.points[3, :40] = -value
    matrix, losses = made.gradients([None] * 5)
    assert not matrix[1].isfinite().all()
    for k in (0, 2, 4):
        gradient, loss = made.oracle.gradient(*made.batches[k], at=made.points[k])
        close(matrix[k], gradient)
        assert losses[k] == pytest.approx(loss, rel=TIGHT)


# --- norms ------------------------------------------------------------------------------------------------

IMAGE = (4, 4, 3)
NORMS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "one group": (lambda: nn.GroupNorm(1, 4), IMAGE),
    "groups": (lambda: nn.GroupNorm(2, 4), IMAGE),
    "groups, not affine": (lambda: nn.GroupNorm(2, 4, affine=False), IMAGE),
    "groups, large epsilon": (lambda: nn.GroupNorm(4, 4, eps=0.3), IMAGE),
    "groups of features": (lambda: nn.GroupNorm(2, 6), (6,)),
    "groups over sequences": (lambda: nn.GroupNorm(2, 4), (4, 5)),
    "features": (lambda: nn.LayerNorm(6), (6,)),
    "features, not affine": (lambda: nn.LayerNorm(6, elementwise_affine=False), (6,)),
    "features, no bias": (lambda: nn.LayerNorm(6, bias=False), (6,)),
    "features, large epsilon": (lambda: nn.LayerNorm(6, eps=0.3), (6,)),
    "features of sequences": (lambda: nn.LayerNorm(5), (3, 5)),
    "whole images": (lambda: nn.LayerNorm(IMAGE), IMAGE),
    "rows and columns": (lambda: nn.LayerNorm(IMAGE[1:]), IMAGE),
    "images, not affine": (lambda: nn.LayerNorm(IMAGE, elementwise_affine=False), IMAGE),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms(name: str) -> None:
    make, shape = NORMS[name]
    size = int(np.prod(shape))
    bench(lambda: nn.Sequential(make(), nn.Tanh(), nn.Flatten(), nn.Linear(size, CLASSES)), shape).check()


@pytest.mark.parametrize("affine", [False, True])
def test_norms_between_layers(affine: bool) -> None:
    def make() -> nn.Module:
        first = (nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4, affine=affine), nn.ReLU(), nn.Flatten(), nn.Linear(16, 6))
        return nn.Sequential(*first, nn.LayerNorm(6, elementwise_affine=affine), nn.Tanh(), nn.Linear(6, CLASSES))

    bench(make, (2, 4, 4), clients=5).check()


@settings(max_examples=20, deadline=None)
@given(
    clients=st.integers(1, LARGEST_GROUP),
    each=st.integers(1, 4),
    groups=st.integers(1, 3),
    more=st.lists(st.integers(1, 4), max_size=3),
    affine=st.booleans(),
)
def test_norms_of_any_shape(clients: int, each: int, groups: int, more: list[int], affine: bool) -> None:
    shape = (2 * groups, *more)

    def make() -> nn.Module:
        norms = nn.GroupNorm(groups, 2 * groups, affine=affine), nn.LayerNorm(shape[1:] or shape)
        size = int(np.prod(shape))
        return nn.Sequential(*norms, nn.Flatten(), nn.Linear(size, CLASSES))

    bench(make, shape, clients, each).check()


# --- losses and outputs -----------------------------------------------------------------------------------


class Auxiliary(nn.Module):
    """Two outputs from one trunk, as a tuple, a list, or a tuple in a list."""

    def __init__(self, kind: str = "tuple") -> None:
        super().__init__()
        self.kind = kind
        self.trunk, self.main, self.side = nn.Linear(INPUTS, 5), nn.Linear(5, CLASSES), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Any:
        h = torch.tanh(self.trunk(x))
        outputs = self.main(h), self.side(h)
        return {"tuple": outputs, "list": list(outputs), "nested": [outputs[0], (outputs[1], h)]}[self.kind]


def with_auxiliary(outputs: Any, targets: Tensor) -> Tensor:
    side = outputs[1][0] if isinstance(outputs[1], tuple) else outputs[1]
    return functional.cross_entropy(outputs[0], targets) + 0.4 * functional.cross_entropy(side, targets % 2)


@pytest.mark.parametrize("kind", ["tuple", "list", "nested"])
def test_several_outputs_with_an_auxiliary_loss(kind: str) -> None:
    model = seeded(lambda: Auxiliary(kind))
    made = Bench(model, drawn(15, INPUTS), classes(15), clients=3, loss=with_auxiliary)
    made.check()
    made.check([None, lambda outputs: outputs[0].square().mean(), lambda outputs: outputs[0].sum() * 0.1])


def first_alone(outputs: Any, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs[0], targets)


def test_an_output_that_the_loss_ignores_moves_nothing() -> None:
    made = Bench(seeded(Auxiliary), drawn(8, INPUTS), classes(8), clients=2, loss=first_alone)
    made.check()
    matrix, _ = made.gradients([None, None])
    side = [piece for piece in made.stack.layout.parameters if piece.name.startswith("side.")]
    assert len(side) == 2
    assert all(not stacked_view(piece, matrix).any() for piece in side)


def lopsided(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss that is no mean over examples: it must be given each client's alone."""
    each = functional.cross_entropy(outputs, targets, reduction="none")
    return each.max() + each.square().mean().sqrt()


smoothed = functools.partial(functional.cross_entropy, label_smoothing=0.2)
weighted = functools.partial(functional.cross_entropy, weight=torch.tensor([0.2, 1.0, 3.0], dtype=torch.float64))


@pytest.mark.parametrize("loss", [lopsided, smoothed, weighted], ids=["no mean", "smoothed", "weights of classes"])
def test_losses_of_ones_own(loss: Any) -> None:
    Bench(net(), drawn(20, INPUTS), classes(20), clients=4, loss=loss).check()


@pytest.mark.parametrize("columns", [1, 2])
def test_regression(columns: int) -> None:
    model = seeded(lambda: dense(INPUTS, 5, columns))
    Bench(model, drawn(12, INPUTS), drawn(12, columns, seed=3), clients=3, loss=functional.mse_loss).check()


def flat_error(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.smooth_l1_loss(outputs, targets)


def test_outputs_of_one_number_an_example() -> None:
    model = seeded(lambda: nn.Sequential(dense(INPUTS, 5, 1), nn.Flatten(0)))
    Bench(model, drawn(12, INPUTS), drawn(12, seed=3), clients=3, loss=flat_error).check()


@pytest.mark.parametrize("loss", [None, smoothed], ids=["cross-entropy", "of one's own"])
def test_ignored_targets_do_not_count(loss: Any) -> None:
    """Clients ignore different numbers of examples, so that no common divisor does."""
    targets = classes(15)
    targets[[0, 5, 6, 9]] = -100
    Bench(net(), drawn(15, INPUTS), targets, clients=3, loss=loss).check()


def test_a_client_whose_targets_are_all_ignored_has_no_loss_and_leaves_the_others_theirs() -> None:
    targets = classes(12)
    targets[4:8] = -100
    made = Bench(net(), drawn(12, INPUTS), targets, clients=3)
    matrix, losses = made.gradients([None] * 3)
    assert np.isnan(losses[1])
    assert not matrix[1].isfinite().all() or not matrix[1].any()
    for k in (0, 2):
        close(matrix[k], made.oracle.gradient(*made.batches[k], at=made.points[k])[0])


def test_soft_targets() -> None:
    shares = torch.softmax(drawn(12, CLASSES, seed=3), dim=1)
    Bench(net(), drawn(12, INPUTS), shares, clients=3).check()


def pixels(count: int) -> Tensor:
    targets = torch.randint(CLASSES, (count, 4, 3), generator=torch.Generator().manual_seed(2))
    targets[0, 0], targets[5, 1:] = 255, 255
    return targets


def test_a_class_for_every_pixel() -> None:
    model = seeded(lambda: nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, CLASSES, 1)))
    loss = functools.partial(functional.cross_entropy, ignore_index=255)
    Bench(model, drawn(9, 2, 4, 3), pixels(9), clients=3, loss=loss).check()
    Bench(model, drawn(9, 2, 4, 3), pixels(9) % CLASSES, clients=3).check()


def test_what_is_added_for_some_clients_is_in_their_gradients_alone() -> None:
    made = bench(lambda: dense(INPUTS, 5, CLASSES), (INPUTS,), clients=4)
    plus: list[Plus | None] = [None, lambda o: o.square().sum(), None, lambda o: functional.softplus(o).mean()]
    made.check(plus)
    plain, losses = made.gradients([None] * 4)
    both, same = made.gradients(plus)
    assert losses == same
    moved = [not torch.equal(a, b) for a, b in zip(plain, both, strict=True)]
    assert moved == [False, True, False, True]


def test_each_addition_is_shown_its_own_clients_outputs() -> None:
    made = bench(lambda: dense(INPUTS, CLASSES), (INPUTS,), clients=3)
    seen: list[Tensor] = []

    def look(outputs: Tensor) -> Tensor:
        seen.append(outputs.detach().clone())
        return outputs.sum() * 0

    made.gradients([look, None, look])
    for k, outputs in zip((0, 2), seen, strict=True):
        close(outputs, made.oracle.outputs(made.batches[k][0], made.points[k]))


def test_asking_leaves_points_task_and_batch_as_they_were() -> None:
    made = bench(deep, (2, 6, 6))
    kept = made.points.clone(), [(x.clone(), y.clone()) for x, y in made.batches]
    model = {name: p.clone() for name, p in made.stack.task.model.state_dict().items()}
    made.check()
    assert torch.equal(made.points, kept[0])
    assert not made.points.requires_grad
    for (x, y), (a, b) in zip(made.batches, kept[1], strict=True):
        assert torch.equal(x, a) and torch.equal(y, b)
    assert all(torch.equal(p, model[name]) for name, p in made.stack.task.model.state_dict().items())


# --- where parameters lie ---------------------------------------------------------------------------------


def test_a_stacked_view_is_every_rows_own_view_of_the_same_memory() -> None:
    layout = ff.Task(seeded(deep), [(drawn(2, 2, 6, 6), classes(2))], local=ff.Local(names=("0.*",))).layout()
    assert {piece.channels_last for piece in layout.parameters} == {False, True}
    matrix = drawn(5, layout.size)
    for piece in layout.parameters:
        view = stacked_view(piece, matrix)
        assert torch.equal(view, torch.stack([piece.view(row) for row in matrix]))
        assert view.untyped_storage().data_ptr() == matrix.untyped_storage().data_ptr()


def test_gradients_fill_rows_that_are_longer_than_the_model() -> None:
    made = bench(deep, (2, 6, 6))
    actual, _ = made.stack.gradients(made.points, *made.whole(), [None] * 3)
    wide = torch.full((3, made.points.shape[1] + 5), 7.0, dtype=torch.float64)
    write_gradients(made.stack.layout, wide[:, :-5], actual)
    assert torch.equal(wide[:, :-5], made.gradients([None] * 3)[0])
    assert bool((wide[:, -5:] == 7).all())


# --- how many go together ---------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(clients=st.integers(0, 5000))
def test_groups_hold_everyone_and_are_small_and_even(clients: int) -> None:
    sizes = group_sizes(clients)
    assert sum(sizes) == clients
    assert all(1 <= size <= LARGEST_GROUP for size in sizes)
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert sizes == group_sizes(clients)


def test_from_sixteen_clients_on_there_is_work_for_four() -> None:
    assert all(len(group_sizes(clients)) >= 4 for clients in range(16, 200))
    assert [group_sizes(clients) for clients in (0, 1, 3)] == [[], [1], [3]]


def test_groups_depend_on_the_number_of_clients_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [group_sizes(clients) for clients in range(100)]
    assert list(inspect.signature(group_sizes).parameters) == ["clients"]
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert [group_sizes(clients) for clients in range(100)] == expected
    finally:
        torch.set_num_threads(threads)
