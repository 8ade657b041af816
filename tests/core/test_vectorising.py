"""Whether clients are vectorised: a rule on the task alone, which refuses what a stacked model cannot stand for."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import flatfed as ff
from core.bench import CLASSES, INPUTS, net, pairs, seeded, task
from flatfed.core.configuration.settings import Settings
from flatfed.core.model.stacked import CannotStack, StackedModel
from flatfed.core.model.vectorising import (
    MOST_PARAMETERS,
    check_vectorised,
    step_work,
    why_not_vectorised,
    wins_vectorised,
)

PLAIN = Settings(rounds=1, lr=0.1, batch_size=4)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def dense(*widths: int) -> nn.Module:
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


# --- refusals ---------------------------------------------------------------------------------------------


class Trunk(nn.Module):
    """Two dense layers; those below do something to the batch on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(INPUTS, 5), nn.Linear(5, CLASSES)

    def before(self, x: Tensor) -> Tensor:
        return x

    def between(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.between(torch.tanh(self.first(self.before(x)))))


class CentredInputs(Trunk):
    def before(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class CentredFeatures(Trunk):
    def between(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class Rolled(Trunk):
    def before(self, x: Tensor) -> Tensor:
        return x + torch.roll(x, 1, 0)


class Scaled(Trunk):
    def before(self, x: Tensor) -> Tensor:
        return x / x.abs().max()


class Compared(Trunk):
    def between(self, x: Tensor) -> Tensor:
        return torch.softmax(x @ x.T, dim=1) @ x


class Flipped(Trunk):
    def before(self, x: Tensor) -> Tensor:
        return x + x.flip(0)


class Counted(Trunk):
    def before(self, x: Tensor) -> Tensor:
        return x * (1 + 1 / len(x))


def from_zero(make: Callable[[], nn.Module]) -> nn.Module:
    """The model with every parameter 0, where convex problems begin."""
    model = seeded(make)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return model


def batch_normed() -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(INPUTS, affine=False, track_running_stats=False), nn.Linear(INPUTS, CLASSES))


MIXING: dict[str, Callable[[], nn.Module]] = {
    "centred inputs": CentredInputs,
    "centred features": CentredFeatures,
    "rolled": Rolled,
    "scaled by the largest": Scaled,
    "attention between examples": Compared,
    "the batch backwards": Flipped,
    "the number of examples": Counted,
    "BatchNorm without anything of its own": batch_normed,
    "centred inputs, from zero": lambda: from_zero(lambda: nn.Sequential(Centring(), nn.Linear(INPUTS, CLASSES))),
    "centred features, from zero": lambda: from_zero(CentredFeatures),
}


class Centring(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


@pytest.mark.parametrize("name", MIXING)
def test_a_model_that_mixes_the_examples_of_a_batch_is_refused(name: str) -> None:
    assert why_not_vectorised(task(seeded(MIXING[name])), PLAIN)


class Coin(Trunk):
    def between(self, x: Tensor) -> Tensor:
        return x if float(torch.rand(())) < 0.5 else 2 * x


class Noise(Trunk):
    def between(self, x: Tensor) -> Tensor:
        return x + 0.1 * torch.randn_like(x)


class Dropped(Trunk):
    share = 0.5

    def between(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.share, self.training)


class RarelyDropped(Dropped):
    share = 0.001


def dropout(p: float) -> nn.Module:
    return nn.Sequential(nn.Linear(INPUTS, 5), nn.Dropout(p), nn.Linear(5, CLASSES))


RANDOM: dict[str, Callable[[], nn.Module]] = {
    "dropout": lambda: dropout(0.5),
    "rare dropout": lambda: dropout(0.01),
    "functional dropout": Dropped,
    "functional and rare": RarelyDropped,
    "a layer that is sometimes left out": Coin,
    "noise": Noise,
}


@pytest.mark.parametrize("name", RANDOM)
def test_a_model_that_draws_is_refused_whatever_the_draw(name: str) -> None:
    """The answer may not depend on the numbers that the trial happens to draw."""
    problem = task(seeded(RANDOM[name]))
    with torch.random.fork_rng():
        for seed in range(12):
            torch.manual_seed(seed)
            assert why_not_vectorised(problem, PLAIN), f"with seed {seed}"


def drawing_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs if float(torch.rand(())) < 0.5 else 2 * outputs, targets)


def test_a_loss_that_draws_is_refused_whatever_the_draw() -> None:
    with torch.random.fork_rng():
        for seed in range(12):
            torch.manual_seed(seed)
            assert why_not_vectorised(task(loss=drawing_loss), PLAIN), f"with seed {seed}"


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(7, 5), nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.table((x.abs() * 3).long().clamp(max=6)).mean(1))


class Scale(nn.Module):
    """A layer of one's own with a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((INPUTS,), 1.5))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


class Bare(nn.Module):
    """A parameter of the whole model, beside its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature, self.out = nn.Parameter(torch.tensor(2.0)), nn.Linear(INPUTS, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x) / self.temperature


class Frozen(Trunk):
    def __init__(self) -> None:
        super().__init__()
        self.first.weight.requires_grad_(False)


class TiedWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.out = nn.Linear(INPUTS, 4), nn.Linear(4, 4), nn.Linear(4, CLASSES)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.second(torch.tanh(self.first(x)))))


class TwoNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(INPUTS, INPUTS)
        self.other, self.out = self.one, nn.Linear(INPUTS, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.other(torch.tanh(self.one(x)))))


class Functional(Trunk):
    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(torch.tanh(self.first(x)), self.out.weight, self.out.bias)


class AlsoFunctional(Trunk):
    """The layer is called, and its weight is used besides."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x))
        return self.out(h) + functional.linear(h, self.out.weight)


class Directions(Trunk):
    """The weight is used without a gradient, and only its directions."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x))
        return self.out(h) + functional.linear(h, functional.normalize(self.out.weight.detach(), dim=1))


class Bypassed(Trunk):
    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(nn.Linear.forward(self.first, x)))


class OwnLinear(nn.Linear):
    """A dense layer that is not quite one."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 2


class TimeFirst(nn.Module):
    """Examples are not the first dimension where the layer is called."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.out = nn.Linear(1, 5), nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.inside(x.T.unsqueeze(2))).mean(0))


class Summed(Trunk):
    """One of two outputs is about the whole batch."""

    def forward(self, x: Tensor) -> Any:
        h = torch.tanh(self.first(x))
        return self.out(h), h.mean()


def on_grid(layer: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, (1, 2, 2)), layer, nn.Flatten(), nn.LazyLinear(CLASSES))


def circular() -> nn.Module:
    model = on_grid(nn.Conv2d(1, 2, 2, padding=1, padding_mode="circular"))
    model(torch.zeros(1, INPUTS))
    return model


STRUCTURE: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "BatchNorm": (lambda: nn.Sequential(nn.Linear(INPUTS, 5), nn.BatchNorm1d(5), nn.Linear(5, CLASSES)), "BatchNorm"),
    "BatchNorm without statistics": (
        lambda: nn.Sequential(nn.BatchNorm1d(INPUTS, track_running_stats=False), nn.Linear(INPUTS, CLASSES)),
        "BatchNorm1d",
    ),
    "an embedding": (Words, "Embedding"),
    "a layer of one's own": (lambda: nn.Sequential(Scale(), nn.Linear(INPUTS, CLASSES)), "Scale"),
    "a changed dense layer": (lambda: OwnLinear(INPUTS, CLASSES), "OwnLinear"),
    "PReLU": (lambda: nn.Sequential(nn.Linear(INPUTS, CLASSES), nn.PReLU()), "PReLU"),
    "a parameter of the model": (Bare, "Bare"),
    "frozen": (Frozen, "frozen"),
    "tied": (TiedWeights, "shared"),
    "two names": (TwoNames, "shared"),
}


@pytest.mark.parametrize("name", STRUCTURE)
def test_what_cannot_be_stacked_is_refused_with_its_name(name: str) -> None:
    make, word = STRUCTURE[name]
    problem = task(seeded(make))
    with pytest.raises(CannotStack, match=word):
        StackedModel(problem, torch.float64)
    assert word in why_not_vectorised(problem, PLAIN)


OTHERS: dict[str, Callable[[], nn.Module]] = {
    "padding around": circular,
    "functional use": Functional,
    "functional use besides": AlsoFunctional,
    "functional use without a gradient": Directions,
    "a layer's class": Bypassed,
    "time first": TimeFirst,
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(INPUTS, CLASSES)),
    "spectral norm": lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(INPUTS, CLASSES))),
    "an LSTM": lambda: nn.Sequential(nn.LSTM(INPUTS, 3), First()),
}


class First(nn.Module):
    def forward(self, x: Any) -> Tensor:
        return x[0]


@pytest.mark.parametrize("name", OTHERS)
def test_what_only_a_trial_can_show_is_refused(name: str) -> None:
    assert why_not_vectorised(task(seeded(OTHERS[name])), PLAIN)


def test_a_convolution_that_pads_otherwise_is_refused_by_name() -> None:
    assert "pads" in why_not_vectorised(task(seeded(circular)), PLAIN)


def test_an_output_of_the_whole_batch_is_refused() -> None:
    def loss(outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs[0], targets) + outputs[1].square()

    assert why_not_vectorised(task(seeded(Summed), loss=loss, test=None), PLAIN)


def test_a_model_that_fails_is_refused_with_what_it_said() -> None:
    class Picky(Trunk):
        def before(self, x: Tensor) -> Tensor:
            if len(x) > 4:
                raise ValueError("four examples at most")
            return x

    assert "four examples at most" in why_not_vectorised(task(seeded(Picky)), PLAIN)


@pytest.mark.parametrize("name", [*STRUCTURE, *OTHERS])
def test_what_is_refused_is_not_chosen_and_forcing_it_says_why(name: str) -> None:
    problem = task(seeded(STRUCTURE[name][0] if name in STRUCTURE else OTHERS[name]))
    assert not wins_vectorised(problem, PLAIN, 8)
    why = why_not_vectorised(problem, PLAIN)
    with pytest.raises(ff.ConfigError, match="together") as caught:
        check_vectorised(problem, PLAIN.replace(vectorised=True))
    assert why in str(caught.value)
    check_vectorised(problem, PLAIN.replace(vectorised=False))
    check_vectorised(problem, PLAIN)


class Twice(Trunk):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Linear(5, 5)

    def between(self, x: Tensor) -> Tensor:
        return self.block(torch.tanh(self.block(x)))


# --- what is taken ----------------------------------------------------------------------------------------

TAKEN: dict[str, Callable[[], nn.Module]] = {
    "dense": net,
    "dense, from zero": lambda: from_zero(lambda: nn.Linear(INPUTS, CLASSES)),
    "used twice": Twice,
    "a dropout of nothing": lambda: dropout(0.0),
    "convolutions": lambda: on_grid(nn.Conv2d(1, 2, 2, padding=1)),
    "norms": lambda: nn.Sequential(nn.LayerNorm(INPUTS), nn.Linear(INPUTS, 6), nn.GroupNorm(2, 6), nn.Linear(6, 3)),
    "pooling": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 3, 1), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3, CLASSES)
    ),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_can_be_stacked_is_taken(name: str) -> None:
    model = seeded(TAKEN[name])
    model(torch.zeros(1, INPUTS, dtype=next(model.parameters()).dtype if name != "convolutions" else None))
    problem = task(model)
    assert why_not_vectorised(problem, PLAIN) == ""
    assert wins_vectorised(problem, PLAIN, 8)
    check_vectorised(problem, PLAIN.replace(vectorised=True))


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e3, 1e6])
def test_the_size_of_the_numbers_does_not_matter(scale: float) -> None:
    """Losses from 1e-18 to 1e12: what rounding leaves of them is no sign that examples are mixed."""
    data = [(scale * drawn(40, 30, seed=k), scale * drawn(40, 2, seed=k + 5)) for k in range(2)]
    model = seeded(lambda: dense(30, 20, 2))
    problem = task(model, clients=data, loss=functional.mse_loss, test=None)
    assert why_not_vectorised(problem, PLAIN.replace(batch_size=None)) == ""


def test_clients_without_examples_do_not_stand_in_the_way() -> None:
    empty = (torch.zeros(0, INPUTS), torch.zeros(0, dtype=torch.int64))
    many = [empty] * 120 + pairs((3,))
    assert why_not_vectorised(task(clients=many), PLAIN) == ""


def test_the_choice_is_for_small_steps() -> None:
    inputs, targets = drawn(200, 400), torch.arange(200) % CLASSES

    def problem(width: int) -> ff.Task:
        return ff.Task(seeded(lambda: dense(400, width, CLASSES)), [(inputs, targets)])

    few, many = PLAIN.replace(batch_size=2), PLAIN.replace(batch_size=None)
    assert step_work(problem(400), few) < 2e6 < 40e6 < step_work(problem(400), many)
    assert wins_vectorised(problem(400), few, 8)
    assert not wins_vectorised(problem(400), many, 8)
    assert problem(800).layout().size > MOST_PARAMETERS
    assert not wins_vectorised(problem(800), few, 8)
    for batch in (few, many):
        check_vectorised(problem(800), batch.replace(vectorised=True))  # it is slower, and still can be had


def test_the_choice_leaves_generators_threads_and_model_alone() -> None:
    problem = task(net())
    with torch.random.fork_rng():
        torch.manual_seed(5)
        before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy(), torch.get_num_threads()  # noqa: NPY002
        weights = {name: p.clone() for name, p in problem.model.state_dict().items()}
        assert wins_vectorised(problem, PLAIN, 8)
        assert not wins_vectorised(task(seeded(Noise)), PLAIN, 8)
        assert torch.equal(torch.get_rng_state(), before[0])
        assert random.getstate() == before[1]
        assert np.array_equal(np.random.get_state()[1], before[2])  # noqa: NPY002
        assert torch.get_num_threads() == before[3]
    assert torch.is_grad_enabled()
    assert all(torch.equal(p, weights[name]) for name, p in problem.model.state_dict().items())
    assert all(p.grad is None for p in problem.model.parameters())


def test_a_few_clients_a_round_do_not_go_vectorised() -> None:
    problem = task()
    assert [wins_vectorised(problem, PLAIN, cohort) for cohort in (1, 7.9, 8, 100)] == [False, False, True, True]


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [(ff.Uniform(5), 5), (ff.Uniform(50), 20), (ff.Bernoulli(0.3), 6), (ff.Replay([[1], [2, 3]]), 2)],
)
def test_samplers_tell_how_many_take_part(sampler: Any, expected: float) -> None:
    assert sampler.expected(20) == expected
