"""`Task(batch_transform=...)`: inputs and targets changed together, on the prepared training batch, once a step."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot
from torch.utils.data import TensorDataset

import flatfed as ff
from core.bench import (
    CLASSES,
    INPUTS,
    SIZES,
    close,
    conv_net,
    flat,
    gradient,
    images,
    net,
    normed,
    pairs,
    same_run,
    task,
    train,
)
from flatfed.core.round.federation import TIMES
from flatfed.data.augment.mixing import Mixup

ALL = list(range(len(SIZES)))
STEPS = [-(-n // 3) for n in SIZES]  # of an epoch in batches of 3


@dataclass(frozen=True)
class Jitter:
    """Adds noise to the inputs and blurs the targets: what training does with it can be seen in every bit."""

    scale: float = 0.5

    def __call__(self, inputs: Tensor, targets: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        noise = torch.randn(inputs.shape, generator=generator, dtype=inputs.dtype)
        shares = one_hot(targets, CLASSES).to(inputs.dtype)
        return inputs + self.scale * noise, torch.lerp(shares, torch.full_like(shares, 1 / CLASSES), 0.3)


@dataclass
class Witness:
    """Keeps what it is given and its first draw; the inputs that it gives back hold a number of their own."""

    given: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    draws: list[float] = field(default_factory=list)
    made: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def __call__(self, inputs: Tensor, targets: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        self.given.append((inputs.clone(), targets.clone()))
        self.draws.append(float(torch.rand((), generator=generator, dtype=torch.float64)))
        shares = one_hot(targets, CLASSES) * (1 + len(self.made) / 64)
        self.made.append((inputs + 100 + len(self.made), shares.to(inputs.dtype)))
        return self.made[-1]


class Watched(nn.Module):
    """A model that keeps what it is shown."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside, self.seen = inside, SEEN

    def forward(self, x: Tensor) -> Tensor:
        self.seen.inputs.append(x.detach().clone())
        return self.inside(x)


class _Seen:
    """One place for all copies of a model."""

    def __init__(self) -> None:
        self.inputs: list[Tensor] = []

    def __deepcopy__(self, memo: Any) -> _Seen:
        return self


SEEN = _Seen()


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.inputs.clear()


def recording_loss() -> tuple[list[Tensor], Callable[[Tensor, Tensor], Tensor]]:
    seen: list[Tensor] = []

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        seen.append(targets.clone())
        return cross_entropy(outputs, targets)

    return seen, loss


def count(batches: list[Tensor], wanted: Tensor) -> int:
    return sum(batch.shape == wanted.shape and bool(torch.equal(batch, wanted)) for batch in batches)


# --- what it is given -------------------------------------------------------------------------------------


def doubled(inputs: Tensor) -> Tensor:
    return inputs.double() * 2


def shifted(inputs: Tensor, generator: torch.Generator) -> Tensor:
    assert not inputs.is_floating_point()
    return inputs + 1


def test_it_comes_after_augmentation_and_preparation() -> None:
    witness = Witness()
    x, y = torch.arange(20, dtype=torch.uint8).view(5, INPUTS), torch.arange(5) % CLASSES
    train(task(clients=[(x, y)], augment=shifted, prepare=doubled, batch_transform=witness, test=None), cohorts=[[0]])
    [(inputs, targets)] = witness.given
    assert inputs.dtype == torch.float64
    assert torch.equal(inputs, (x.double() + 1) * 2)
    assert torch.equal(targets, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_it_gives_back_is_taken_to_the_training_type(dtype: torch.dtype) -> None:
    def other(inputs: Tensor, targets: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        assert inputs.dtype == dtype
        types = torch.float64 if dtype == torch.float32 else torch.float32
        return (inputs * 2).to(types), one_hot(targets, CLASSES).to(types)

    run = train(task(batch_transform=other), dtype=dtype)
    double = train(task(clients=[(x * 2, y) for x, y in pairs()]), dtype=dtype)
    assert run.vector.dtype == dtype
    torch.testing.assert_close(run.vector, double.vector, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch_transform", [Jitter(), Mixup(CLASSES)], ids=["jitter", "mixup"])
def test_a_step_is_the_gradient_of_the_loss_on_what_it_gives_back(batch_transform: Any) -> None:
    kept: list[tuple[Tensor, Tensor]] = []

    def keeping(inputs: Tensor, targets: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        kept.append(batch_transform(inputs, targets, generator))
        return kept[-1]

    run = train(task(batch_transform=keeping), cohorts=[[1]], lr=0.1)
    [(x, shares)] = kept
    assert not torch.equal(x, pairs()[1][0])
    w = flat(net())
    close(run.vector, w - 0.1 * gradient(net(), w, x, shares))
    expected = -(shares * torch.log_softmax(net()(x), dim=1)).sum(1).mean()
    assert run.history[-1]["train_loss"] == pytest.approx(expected.item(), rel=1e-12)


def test_images_stay_images() -> None:
    def turned(inputs: Tensor, targets: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return inputs.flip(3), (targets + 1) % CLASSES

    x, y = images()
    run = train(ff.Task(conv_net(), [(x, y)], batch_transform=turned), cohorts=[[0]])
    by_hand = train(ff.Task(conv_net(), [(x.flip(3), (y + 1) % CLASSES)]), cohorts=[[0]])
    close(run.vector, by_hand.vector)


# --- once a step ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "passes"), [("fedavg", 1), ("fedsam", 2), ("fedgmt", 2)])
def test_every_pass_of_a_step_sees_the_same(method: str, passes: int) -> None:
    witness, (targets, loss) = Witness(), recording_loss()
    problem = task(Watched(net()), batch_transform=witness, loss=loss, test=None)
    train(problem, ff.make(method), cohorts=[[0, 2], [1]], batch_size=3)
    assert len(witness.made) == STEPS[0] + STEPS[2] + STEPS[1]
    assert len(SEEN.inputs) == passes * len(witness.made)
    backprops = 1 if method == "fedgmt" else passes  # the teacher has no loss
    assert len(targets) == backprops * len(witness.made)
    for x, y in witness.made:
        assert count(SEEN.inputs, x) == passes
        assert count(targets, y) == backprops


# --- keyed ------------------------------------------------------------------------------------------------


def draws(method: str = "fedavg", **changes: Any) -> list[float]:
    witness = Witness()
    settings = {"cohorts": [ALL, ALL], "batch_size": 3, "local_epochs": 2, **changes}
    train(task(batch_transform=witness, test=None), ff.make(method), **settings)
    return witness.draws


def test_steps_clients_and_rounds_each_have_their_own_draw() -> None:
    actual = draws()
    assert len(actual) == 2 * 2 * sum(STEPS)
    assert len(set(actual)) == len(actual)


def test_the_same_key_gives_the_same_draw() -> None:
    first = draws()
    torch.manual_seed(99)
    assert draws() == first
    assert draws("fedsam") == first
    assert draws(lr=0.01) == first
    assert not set(draws(seed=1)) & set(first)
    # Client 2 in round 1 draws what it draws there, whoever else takes part and whatever came before.
    before, own = 2 * sum(STEPS) + 2 * (STEPS[1] + STEPS[3] + STEPS[0]), 2 * STEPS[2]  # it has the fewest examples
    assert draws(cohorts=[[0], [2]])[2 * STEPS[0] :] == first[before : before + own]


class Noisy(TensorDataset):
    """A data set with a transform that draws from the global generator."""

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        x, y = super().__getitem__(index)
        return x + torch.rand(x.shape), y


def test_its_draws_do_not_depend_on_those_of_the_data() -> None:
    witness = Witness()
    problem = task(clients=[Noisy(*pair) for pair in pairs()], batch_transform=witness, test=None)
    train(problem, cohorts=[ALL, ALL], batch_size=3, local_epochs=2)
    assert witness.draws == draws()


def test_its_draws_are_not_those_of_the_augmentation() -> None:
    witness, augmented = Witness(), []

    def augment(inputs: Tensor, generator: torch.Generator) -> Tensor:
        augmented.append(float(torch.rand((), generator=generator, dtype=torch.float64)))
        return inputs

    train(task(batch_transform=witness, augment=augment, test=None), batch_size=3)
    assert len(augmented) == len(witness.draws)
    assert not set(augmented) & set(witness.draws)


def test_the_augmentation_does_not_feel_it() -> None:
    actual: list[list[float]] = []
    for batch_transform in (None, Jitter()):
        actual.append([])

        def augment(inputs: Tensor, generator: torch.Generator) -> Tensor:
            actual[-1].append(float(torch.rand((), generator=generator)))
            return inputs

        train(task(batch_transform=batch_transform, augment=augment, test=None), batch_size=3)
    assert actual[0] == actual[1]


@pytest.mark.parametrize("method", ["fedsam", "scaffold"])
def test_workers_and_runs_give_the_same_bits(method: str) -> None:
    problem = task(normed(), batch_transform=Jitter())
    alone, again, pool = (train(problem, ff.make(method), batch_size=3, workers=n) for n in (0, 0, 2))
    plain = train(task(normed()), ff.make(method), batch_size=3)
    assert same_run(alone, again, len(SIZES))
    assert same_run(alone, pool, len(SIZES))
    for a, b in zip(alone.history, pool.history, strict=True):
        assert {n: v for n, v in a.items() if n not in TIMES} == {n: v for n, v in b.items() if n not in TIMES}
    assert not torch.equal(alone.vector, plain.vector)


def test_a_resumed_run_goes_on_with_the_same_draws(tmp_path: Path) -> None:
    whole = train(task(batch_transform=Jitter()), cohorts=[ALL] * 3, batch_size=3)
    train(task(batch_transform=Jitter()), cohorts=[ALL] * 3, batch_size=3, rounds=2, out=tmp_path / "run")
    elsewhere = shutil.copytree(tmp_path / "run", tmp_path / "elsewhere")  # a place that this process does not know
    assert same_run(ff.resume(elsewhere, 3), whole, len(SIZES))


# --- only in training -------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["running", "batch-stats", "recalibrate"])
def test_evaluation_and_calibration_go_without(policy: str) -> None:
    witness = Witness()
    problem = task(Watched(normed()), batch_transform=witness, tests={"unseen": pairs((7,), 6)[0]})
    run = train(problem, cohorts=[ALL, ALL], batch_size=3, evaluate_every=1, eval_stats=policy)
    steps = 2 * sum(STEPS)
    assert len(witness.made) == steps
    plain = [x for x in SEEN.inputs if float(x.max()) < 50]
    assert len(SEEN.inputs) - len(plain) == steps
    assert sorted(map(len, plain)) == sorted([9, 7] * 2 + ([sum(SIZES)] * 2 if policy == "recalibrate" else []))
    run.client_metrics()
    run.metrics()
    run.model()
    assert len(witness.made) == steps


@pytest.mark.parametrize(("method", "more"), [("scaffold", {"option": "I"}), ("mime", {}), ("mimelite", {})])
def test_full_gradients_go_without(method: str, more: dict[str, Any]) -> None:
    witness, (targets, loss) = Witness(), recording_loss()
    problem = task(batch_transform=witness, loss=loss, test=None)
    train(problem, ff.make(method, **more), cohorts=[[0, 1]], batch_size=3)
    steps = STEPS[0] + STEPS[1]
    assert len(witness.made) == steps
    plain = [y for y in targets if not y.is_floating_point()]
    assert len(plain) == steps  # one pass over all examples, in as many batches as an epoch has
    expected = torch.cat([y for _, y in pairs()[:2]])
    assert torch.equal(torch.cat(plain).sort().values, expected.sort().values)


def test_the_full_gradient_is_that_of_the_examples_as_they_are() -> None:
    run = train(task(batch_transform=Jitter(5.0)), ff.make("scaffold", option="I"), cohorts=[[1]], batch_size=3)
    close(run.client_state(1)["c"], gradient(net(), flat(net()), *pairs()[1]))


# --- soft targets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fedavg", "fedsam", "fedgmt"])
def test_mixup_trains(method: str) -> None:
    generator = torch.Generator().manual_seed(4)
    centres = 3 * torch.eye(CLASSES, INPUTS, dtype=torch.float64)
    data = []
    for _ in range(3):
        y = torch.arange(30) % CLASSES
        data.append((centres[y] + 0.3 * torch.randn(30, INPUTS, generator=generator, dtype=torch.float64), y))
    problem = task(clients=data[:2], test=data[2], batch_transform=Mixup(CLASSES))
    run = train(problem, ff.make(method), cohorts=[[0, 1]] * 10, local_epochs=2, batch_size=10, evaluate_every=1)
    assert run.status == "finished"
    assert run.history[-1]["test_accuracy"] > 0.95
    # Half-way targets cannot be fitted: the loss on mixed batches stays well above the loss on the examples.
    assert run.history[-1]["train_loss"] > 1.5 * run.history[-1]["test_loss"]
