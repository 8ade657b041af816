"""The local step: direction, clip, weight decay, momentum, step; on keyed batches."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import flatfed as ff
from core.bench import INPUTS, flat, net, pairs, task, train
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.randomness import numpy_generator, torch_generator
from flatfed.core.task.examples import epoch_batches

ONE = pairs((11,))


def batches(n: int, size: int | None, round: int, epoch: int, client: int = 0, seed: int = 0) -> Iterator[Tensor]:
    """Yield the batches of one epoch of a round's first exchange."""
    return epoch_batches(n, size, (seed, "shuffle", round, 0, client, epoch))


def torch_sgd(size: int | None, rounds: int, epochs: int, lr_decay: float, clip: float | None, **options: float):
    """Return where torch.optim.SGD leads on client 0's batches, a fresh optimiser each round."""
    model, (x, y) = net(), ONE[0]
    for t in range(rounds):
        optimiser = torch.optim.SGD(model.parameters(), lr=0.3 * lr_decay**t, **options)
        for epoch in range(epochs):
            for indices in batches(len(x), size, t, epoch):
                optimiser.zero_grad()
                nn.functional.cross_entropy(model(x[indices]), y[indices]).backward()
                if clip is not None:
                    norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
                    for p in model.parameters():
                        p.grad.mul_(min(1.0, clip / float(norm)))
                optimiser.step()
    return flat(model)


@settings(max_examples=30, deadline=None)
@given(
    size=st.sampled_from([None, 1, 4, 11, 100]),
    epochs=st.integers(1, 3),
    weight_decay=st.sampled_from([0.0, 0.1]),
    momentum=st.sampled_from([0.0, 0.7]),
    lr_decay=st.sampled_from([1.0, 0.5]),
    clip=st.sampled_from([None, 0.05, 0.4, 1e6]),
)
def test_one_client_is_torch_sgd_on_the_same_batches(size, epochs, weight_decay, momentum, lr_decay, clip):
    options = {"weight_decay": weight_decay, "momentum": momentum}
    run = train(
        task(clients=ONE),
        cohorts=[[0]] * 3,
        batch_size=size,
        local_epochs=epochs,
        lr_decay=lr_decay,
        clip=clip,
        **options,
    )
    expected = torch_sgd(size, 3, epochs, lr_decay, clip, **options)
    torch.testing.assert_close(run.vector, expected, rtol=1e-11, atol=1e-13)
    assert [row["lr"] for row in run.history] == [0.3 * lr_decay**t for t in range(3)]


class Pull(ff.Algorithm):
    """A method whose direction is given: all entries equal, of norm `length`."""

    length: float = 1.0

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        return torch.full_like(client.w, self.length / math.sqrt(len(client.w)))


@pytest.mark.parametrize("length", [0.5, 2.0, 4.0, 1e5])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_clip_is_exact_and_comes_before_weight_decay(length, momentum):
    w = flat(net())
    run = train(task(clients=ONE), Pull(length), [[0]], lr=1.0, clip=2.0, weight_decay=0.25, momentum=momentum)
    clipped = min(1.0, 2.0 / length) * length / math.sqrt(len(w))
    torch.testing.assert_close(run.vector, w - clipped - 0.25 * w, rtol=1e-14, atol=1e-15)


def test_momentum_starts_at_zero_in_every_round():
    w = flat(net())
    run = train(task(clients=ONE), Pull(math.sqrt(len(w))), [[0]] * 2, lr=1.0, momentum=0.5, local_epochs=2)
    torch.testing.assert_close(run.vector, w - 2 * (1.0 + 1.5))


@settings(deadline=None)
@given(count=st.integers(1, 40), size=st.integers(1, 50), epoch=st.integers(0, 3))
def test_an_epoch_sees_every_example_once_and_keeps_the_last_partial_batch(count, size, epoch):
    seen = list(batches(count, size, 0, epoch))
    assert sorted(torch.cat(seen).tolist()) == list(range(count))
    assert [len(part) for part in seen[:-1]] == [size] * (math.ceil(count / size) - 1)
    assert len(seen[-1]) == count - size * (len(seen) - 1)


def test_the_full_batch_is_not_shuffled():
    (whole,) = batches(9, None, 0, 0)
    assert whole.tolist() == list(range(9))


def test_the_number_of_steps_counts_the_partial_batch():
    counted: dict[int, tuple[int, int]] = {}

    class Count(ff.Algorithm):
        def finish(self, client: Client) -> Message:
            counted[client.id] = client.steps, client.step
            return super().finish(client)

    train(task(), Count(), [[0, 1, 2, 3]], batch_size=3, local_epochs=2)
    assert counted == {0: (4, 4), 1: (6, 6), 2: (2, 2), 3: (4, 4)}


def test_shuffles_depend_on_seed_round_client_and_epoch_and_on_nothing_else():
    def order(**where: int) -> list[int]:
        return torch.cat(list(batches(50, 8, **{"round": 0, "epoch": 0, **where}))).tolist()

    with torch.random.fork_rng():
        torch.manual_seed(99)
        again = order()
    assert again == order()
    variants = [order(), order(round=1), order(epoch=1), order(client=1), order(seed=1)]
    assert len({tuple(o) for o in variants}) == len(variants)


@settings(deadline=None)
@given(seed=st.integers(0, 2**31), parts=st.lists(st.integers(0, 10**6), max_size=3))
def test_generators_of_one_key_agree_and_those_of_two_purposes_do_not(seed, parts):
    draw = torch.rand(4, generator=torch_generator(seed, "a", *parts))
    assert torch.equal(draw, torch.rand(4, generator=torch_generator(seed, "a", *parts)))
    assert not torch.equal(draw, torch.rand(4, generator=torch_generator(seed, "b", *parts)))
    assert not torch.equal(draw, torch.rand(4, generator=torch_generator(seed + 1, "a", *parts)))
    numbers = [numpy_generator(seed, p, *parts).random(4) for p in "aab"]
    assert np.array_equal(numbers[0], numbers[1])
    assert not np.array_equal(numbers[0], numbers[2])


def test_augmentation_is_drawn_once_a_step_from_the_keyed_generator():
    drawn: list[tuple[float, ...]] = []
    seen: list[Tensor] = []

    def augment(inputs: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.rand(inputs.shape, generator=generator, dtype=torch.float64)
        drawn.append(tuple(noise[0].tolist()))
        return inputs + noise

    class Watch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = net()

        def forward(self, x: Tensor) -> Tensor:
            seen.append(x)
            return self.layer(x)

    watched = task(Watch(), pairs((6, 6)), augment=augment, test=None)
    train(watched, ff.make("fedsam"), [[0, 1], [0]], batch_size=3, local_epochs=2)
    assert len(drawn) == len(set(drawn)) == 12
    assert len(seen) == 24
    assert all(torch.equal(first, second) for first, second in zip(seen[::2], seen[1::2], strict=True))
    once = list(drawn)
    drawn.clear()
    train(watched, ff.make("fedsam"), [[0, 1], [0]], batch_size=3, local_epochs=2)
    assert drawn == once


def test_neither_evaluation_nor_full_gradients_augment():
    shapes: list[int] = []

    class Full(ff.Algorithm):
        def finish(self, client: Client) -> Message:
            client.full_gradient()
            return Message(w=client.w)

    def augment(inputs: Tensor, generator: torch.Generator) -> Tensor:
        shapes.append(len(inputs))
        return inputs

    assert train(task(augment=augment), Full(), [[0, 1]], batch_size=3).status == "finished"
    assert shapes == [3, 3, 2, 3, 2]  # client 1 has more examples and comes first


def test_the_training_loss_is_that_of_the_first_passes_weighted_by_examples():
    (x, y), (u, v) = pairs((6, 3))
    run = train(task(clients=[(x, y), (u, v)]), ff.make("fedsam", rho=0.5), [[0, 1]], batch_size=4, lr=0.0)
    losses = [nn.functional.cross_entropy(net()(a), b).item() for a, b in ((x, y), (u, v))]
    assert run.history[0]["train_loss"] == pytest.approx((6 * losses[0] + 3 * losses[1]) / 9)


def test_prepare_turns_bytes_into_inputs_in_training_and_evaluation():
    x = torch.arange(6 * INPUTS, dtype=torch.uint8).view(6, INPUTS)
    y = torch.arange(6) % 3
    raw = task(clients=[(x, y)], test=(x, y), prepare=lambda batch: batch.double() / 24)
    ready = task(clients=[(x.double() / 24, y)], test=(x.double() / 24, y))
    one, two = train(raw, batch_size=4), train(ready, batch_size=4)
    assert torch.equal(one.vector, two.vector)
    assert one.history[-1]["test_loss"] == two.history[-1]["test_loss"]
