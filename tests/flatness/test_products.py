"""Products of the Hessian and of the Gauss-Newton matrix in both ways, and against dense matrices."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import flatfed as ff
from flatfed.flatness import products, sums
from flatfed.flatness.products import BatchLoss, tangents_agree
from flatfed.flatness.surface import Surface
from flatfed.models import build
from flatfed.models.networks.textcnn import textcnn
from flatness.problems import KINDS, UNEQUAL, close, data, direct, directions, network, opened, surface


def dense_gauss_newton(kind: str) -> Tensor:
    """Return `(1/n) sum_i J_i^T (diag p_i - p_i p_i^T) J_i`: the closed form for cross-entropy."""
    known, w = direct(kind), surface(kind).w

    def outputs(vector: Tensor) -> Tensor:
        values = {piece.name: piece.view(vector) for piece in known.layout.parameters}
        return torch.func.functional_call(known.model, values, (known.inputs,))

    jacobian: Tensor = torch.autograd.functional.jacobian(outputs, w)
    p = outputs(w).softmax(dim=1)
    middle = torch.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1)
    return torch.einsum("nci,ncd,ndj->ij", jacobian, middle, jacobian) / len(p)


@pytest.mark.parametrize("kind", KINDS)
def test_gauss_newton_products(kind: str) -> None:
    actual = surface(kind, UNEQUAL, 4)
    (v,) = directions(actual.size)
    close(actual.gauss_newton_product(v), dense_gauss_newton(kind) @ v)


@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_eigenvalue_of_the_gauss_newton_matrix(kind: str) -> None:
    result = opened(kind, UNEQUAL, 5).measure("gauss_newton(tolerance=1e-8)")["gauss_newton"]
    truth = float(torch.linalg.eigvalsh(dense_gauss_newton(kind))[-1])
    assert result.numbers["gauss_newton_max"] == pytest.approx(truth, rel=1e-6)
    assert result.numbers["gauss_newton_residual"] <= 1e-8 * truth
    assert result.remark == f"converged after {result.numbers['gauss_newton_products']:.0f} products"


def test_the_same_gauss_newton_bits_with_workers() -> None:
    alone = opened("group norm", UNEQUAL, 2)
    with opened("group norm", UNEQUAL, 2, workers=2) as together:
        assert alone.measure("gauss_newton") == together.measure("gauss_newton")


def test_for_outputs_that_are_linear_in_the_parameters_both_matrices_are_one() -> None:
    lab = ff.laboratory(nn.Linear(4, 3).double(), data("tanh"))
    (v,) = directions(lab.surface.size)
    close(lab.surface.gauss_newton_product(v), lab.surface.product(v))


# --- both ways ----------------------------------------------------------------------------------------------


def batch_of(model: nn.Module, inputs: Tensor, loss: Callable[[Any], Tensor] | None = None) -> BatchLoss:
    """Return the loss of a network in float64, a little off its initial values."""
    model = copy.deepcopy(model).double().eval()
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(3)
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    targets = torch.arange(len(inputs)) % 3
    return BatchLoss(
        lambda: model(inputs), loss or (lambda outputs: F.cross_entropy(outputs, targets)), list(model.parameters())
    )


def images(side: int, channels: int = 3, count: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, channels, side, side, generator=generator, dtype=torch.float64)
    return x.contiguous(memory_format=torch.channels_last)


NETWORKS = {
    "cnn": lambda: batch_of(build("cnn", 3, 3, 16, 0), images(16)),
    "cnn-small-bn": lambda: batch_of(build("cnn-small-bn", 3, 1, 8, 0), images(8, 1)),
    "lenet": lambda: batch_of(build("lenet", 3, 3, 32, 0), images(32)),
    "residual": lambda: batch_of(Residual(), images(6)),
    "textcnn": lambda: batch_of(textcnn(3, 50, 9), torch.arange(27).view(3, 9)),
}


class Residual(nn.Module):
    """What the residual networks are made of: GroupNorm, grouped convolutions, a sum, pools, ReLU6."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.GroupNorm(2, 4)
        self.second, self.head = nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = F.max_pool2d(x + F.relu6(self.second(x)), 3, 2, 1)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


@pytest.mark.parametrize("name", NETWORKS)
def test_both_ways_agree_on_the_networks(name: str) -> None:
    batch = NETWORKS[name]()
    assert tangents_agree(batch)
    v = [torch.randn(p.shape, generator=torch.Generator().manual_seed(5), dtype=p.dtype) for p in batch.parameters]
    one, other = products.gauss_newton_by_tangents(batch, v)[1], products.gauss_newton_by_double_backward(batch, v)[1]
    largest = max(float(part.abs().max()) for part in other if part is not None)
    for mine, theirs in zip(one, other, strict=True):
        assert mine is not None and theirs is not None
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-9 * largest)


def test_padding_may_be_counted_from_the_end() -> None:
    tokens = torch.tensor([[0, 4], [4, 4], [2, 3]])
    assert tangents_agree(batch_of(Padded(), tokens))


class Padded(nn.Module):
    """Tokens of which the last of five is padding."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.ones(5, 3))

    def forward(self, tokens: Tensor) -> Tensor:
        return F.embedding(tokens, self.table, padding_idx=-1).mean(dim=1).exp()


def test_nothing_is_left_on_the_parameters() -> None:
    batch = batch_of(network("tanh"), data("tanh")[0])
    products.hessian_by_tangents(batch, [torch.ones_like(p) for p in batch.parameters])
    assert all(not vars(p) for p in batch.parameters)


def test_several_outputs_of_which_one_does_not_move() -> None:
    batch = batch_of(Several(), data("tanh")[0], lambda outputs: (outputs["a"].square() * outputs["b"][0]).mean())
    assert tangents_agree(batch)


class Several(nn.Module):
    """Outputs in a dictionary; one is the input itself."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> dict[str, Any]:
        return {"a": torch.tanh(x * self.weight), "b": [self.weight.exp(), x]}


# --- the trial ----------------------------------------------------------------------------------------------


class OwnRule(torch.autograd.Function):
    """The square, by a function without a rule for tangents."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * slopes[0]


class Squares(nn.Module):
    """A layer whose square is taken in a way that tangents may not follow."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.layer, self.way = nn.Linear(4, 3), way

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        if self.way == "function":
            return OwnRule.apply(y)
        if self.way == "in place":
            return y.mul_(y.clone())
        return y * y


@pytest.mark.parametrize(("way", "agrees"), [("plain", True), ("function", False), ("in place", False)])
def test_a_model_that_tangents_cannot_follow_goes_by_double_backward(way: str, agrees: bool) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Squares(way).double()
    assert tangents_agree(batch_of(model, data("tanh")[0])) is agrees
    actual, expected = products_of(model), products_of(relabelled(model))
    close(actual[0], expected[0])
    close(actual[1], expected[1])


def relabelled(model: Squares) -> Squares:
    """Return the same function, computed in the plain way."""
    plain = copy.deepcopy(model)
    plain.way = "plain"
    return plain


def products_of(model: nn.Module) -> tuple[Tensor, Tensor]:
    at = ff.laboratory(model, data("tanh")).surface
    (v,) = directions(at.size)
    return at.product(v), at.gauss_newton_product(v)


def test_the_trial_is_made_once_for_a_set_of_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    trials: list[bool] = []

    def counted(batch: BatchLoss) -> bool:
        trials.append(tangents_agree(batch))
        return trials[-1]

    monkeypatch.setattr(sums, "tangents_agree", counted)
    at: Surface = surface("conv", UNEQUAL, 4)
    for v in directions(at.size, 3):
        at.product(v)
        at.gauss_newton_product(v)
    assert trials == [True]
    at.over("client 0").product(v)
    assert trials == [True], "one for all clients serves for each"


def test_statistics_of_the_batch() -> None:
    """Local statistics: each test batch has its own, in products too, and the trial tries that."""
    inputs, targets = data("tanh")
    model = network("batch norm")
    at = ff.laboratory(ff.Task(model, [(inputs, targets)], local="bn-stats")).surface
    (v,) = directions(at.size)
    w, step = at.w, 1e-5
    slope = (at.gradient(w + step * v) - at.gradient(w - step * v)) / (2 * step)
    torch.testing.assert_close(at.product(v), slope, rtol=1e-5, atol=1e-7)
