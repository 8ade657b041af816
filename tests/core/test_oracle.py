"""The gradient is an oracle: right, counted, and without traces."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import flatfed as ff
from core.bench import (
    CLASSES,
    INPUTS,
    conv_net,
    flat,
    gradient,
    images,
    net,
    normed,
    pairs,
    seeded,
    task,
    train,
)
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.model.oracle import Oracle
from flatfed.core.randomness import key


@pytest.mark.parametrize(("model", "examples"), [(net(), pairs()[0]), (conv_net(), images())], ids=["dense", "conv"])
def test_gradient_is_that_of_autograd_here_and_elsewhere(model, examples):
    oracle = Oracle(ff.Task(model, [examples]), torch.float64)
    batch = oracle.batch(*examples)
    other = torch.randn(oracle.layout.size, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    here, loss = oracle.gradient(*batch)
    there, _ = oracle.gradient(*batch, at=oracle.layout.from_public(other))
    torch.testing.assert_close(oracle.layout.to_public(here), gradient(model, flat(model), *examples))
    torch.testing.assert_close(oracle.layout.to_public(there), gradient(model, other, *examples))
    assert loss == pytest.approx(nn.functional.cross_entropy(model(examples[0]), examples[1]).item())
    assert oracle.backprops == 2


@settings(max_examples=15, deadline=None)
@given(scale=st.sampled_from([1e-300, 1e-8, 1.0, 1e8, 1e300]), seed=st.integers(0, 9), fails=st.booleans())
def test_a_pass_at_another_point_puts_the_weights_back_bit_for_bit(scale, seed, fails):
    oracle, batch = Oracle(task(net(seed)), torch.float64), pairs()[0]
    before, point = oracle.w.clone(), flat(net(seed + 1)) * scale

    def plus(outputs: Tensor) -> Tensor:
        if fails:
            raise ZeroDivisionError
        return outputs.sum() * 0

    if fails:
        with pytest.raises(ZeroDivisionError):
            oracle.gradient(*batch, at=point, plus=plus)
    else:
        oracle.gradient(*batch, at=point, plus=plus)
    assert torch.equal(oracle.w, before)
    assert torch.equal(flat(oracle.model), oracle.layout.to_public(before))


def test_two_successive_gradients_are_both_valid():
    oracle, (first, second, _, _) = Oracle(task(), torch.float64), pairs()
    one, _ = oracle.gradient(*first)
    two, _ = oracle.gradient(*second, at=oracle.w * 2)
    torch.testing.assert_close(one, gradient(net(), flat(net()), *first))
    torch.testing.assert_close(two, gradient(net(), 2 * flat(net()), *second))


def test_what_plus_adds_to_the_loss_is_in_the_gradient_but_not_in_the_loss():
    oracle, (x, y) = Oracle(task(), torch.float64), pairs()[0]
    plain, loss = oracle.gradient(x, y)
    plain = plain.clone()
    both, same = oracle.gradient(x, y, plus=lambda outputs: 2 * nn.functional.cross_entropy(outputs, y))
    torch.testing.assert_close(both, 3 * plain)
    assert same == loss


class Counting(ff.Algorithm):
    """Two passes a step, an inference, and a full gradient over batches of 3 at the end."""

    def gradient(self, client: Client) -> Tensor:
        client.outputs(at=client.w * 3)
        client.gradient(at=client.w * 2)
        return client.gradient()

    def finish(self, client: Client) -> Message:
        client.full_gradient()
        return Message(w=client.w)


def test_backprops_are_those_that_ran():
    run = train(task(clients=pairs((5, 7))), Counting(), [[0, 1], [1]], batch_size=3)
    assert [row["backprops"] for row in run.history] == [2 * 2 + 2 + 2 * 3 + 3, 2 * 3 + 3]


def test_the_full_gradient_is_the_mean_over_all_examples_whatever_the_batch_size():
    seen: dict[int | None, Tensor] = {}

    class Full(ff.Algorithm):
        def local(self, client: Client) -> Message:
            seen[client._settings.batch_size] = client.full_gradient(at=client.w * 2)
            return super().local(client)

    for size in (None, 3, 8):
        train(task(), Full(), [[1]], batch_size=size)
    for got in seen.values():
        torch.testing.assert_close(got, gradient(net(), 2 * flat(net()), *pairs()[1]))


def statistics(x: Tensor, steps: int, momentum: float = 0.1) -> tuple[Tensor, Tensor, int]:
    """Return BatchNorm's statistics of a fixed input after n passes."""
    mean, var = torch.zeros(x.shape[1]).double(), torch.ones(x.shape[1]).double()
    for _ in range(steps):
        mean = (1 - momentum) * mean + momentum * x.mean(0)
        var = (1 - momentum) * var + momentum * x.var(0)
    return mean, var, steps


class First(nn.Module):
    """BatchNorm on the inputs themselves, so that its statistics do not depend on the weights; then dropout."""

    drawn: ClassVar[list[Tensor]] = []

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop, self.out = nn.BatchNorm1d(INPUTS), nn.Dropout(0.5), nn.Linear(INPUTS, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        mask = self.drop(torch.ones_like(x))
        self.drawn.append(mask)
        return self.out(x * mask)


class Looking(ff.Algorithm):
    """SAM with inferences and a full gradient besides."""

    def gradient(self, client: Client) -> Tensor:
        client.outputs()
        client.outputs(at=client.w + 1)
        g = client.gradient()
        client.full_gradient()
        return client.gradient(at=client.w + g)


def test_only_the_first_pass_of_a_step_moves_batchnorm_statistics():
    x, _ = pairs()[1]
    mean, var, count = statistics(x, 6)
    methods = (ff.make("fedavg"), ff.make("fedsam", rho=0.4), ff.make("fedasam"), Looking(), ff.make("fedgmt"))
    for method in methods:
        norm = train(task(seeded(First)), method, [[1], [1]], local_epochs=3).model().norm
        torch.testing.assert_close(norm.running_mean, mean)
        torch.testing.assert_close(norm.running_var, var)
        assert int(norm.num_batches_tracked) == count


def test_sam_moves_the_statistics_of_a_deep_batchnorm_as_a_manual_loop_does():
    (x, y), model = pairs()[1], normed()
    for _ in range(3):
        g = torch.autograd.grad(nn.functional.cross_entropy(model(x), y), model.parameters())
        w = flat(model)
        frozen = {name: buffer.clone() for name, buffer in model.named_buffers()}
        ascent = w + 0.4 * nn.utils.parameters_to_vector(g) / torch.linalg.vector_norm(nn.utils.parameters_to_vector(g))
        nn.utils.vector_to_parameters(ascent, model.parameters())
        g = torch.autograd.grad(nn.functional.cross_entropy(model(x), y), model.parameters())
        nn.utils.vector_to_parameters(w - 0.3 * nn.utils.parameters_to_vector(g), model.parameters())
        model.load_state_dict(model.state_dict() | frozen)
    run = train(task(normed()), ff.make("fedsam", rho=0.4), [[1]], local_epochs=3)
    for name, tensor in run.model().state_dict().items():
        torch.testing.assert_close(tensor, model.state_dict()[name])


def dropout_masks(seed: int) -> list[tuple[float, ...]]:
    """Return the mask of each step, made sure that all passes of the step drew it."""
    First.drawn.clear()
    train(task(seeded(First), pairs((6, 6)), test=None), Looking(), [[0, 1], [0, 1]], batch_size=3, seed=seed)
    # Each step draws six times: two inferences, a pass, a full gradient in two batches, the second pass.
    steps = [First.drawn[i : i + 6] for i in range(0, len(First.drawn), 6)]
    for inference, other, first, _, _, second in steps:
        assert torch.equal(inference, first)
        assert torch.equal(other, first)
        assert torch.equal(second, first)
    return [tuple(step[0].flatten().tolist()) for step in steps]


def test_dropout_draws_one_mask_a_step_and_another_each_step_round_client_and_seed():
    masks = dropout_masks(seed=0) + dropout_masks(seed=1)
    assert len(set(masks)) == len(masks) == 2 * 8


class Noisy(torch.utils.data.Dataset):
    """A data set that draws noise for every example it hands out, as random transforms do."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index] + 0.1 * torch.randn(INPUTS), self.y[index]


@pytest.mark.parametrize("noisy", [False, True], ids=["tensors", "random-transforms"])
def test_the_global_generator_decides_nothing_and_is_left_alone_with_the_thread_count(noisy):
    examples = pairs((6, 8, 3))
    clients = [Noisy(*pair) for pair in examples] if noisy else examples
    results, threads = [], torch.get_num_threads()
    with torch.random.fork_rng():
        for seed in (1, 2):
            torch.manual_seed(seed)
            torch.set_num_threads(2)
            before = torch.get_rng_state()
            results.append(train(task(seeded(First), clients), ff.make("fedsam"), batch_size=4).vector)
            assert torch.equal(torch.get_rng_state(), before)
            assert torch.get_num_threads() == 2
            torch.set_num_threads(threads)
    assert torch.equal(*results)


def test_equal_keys_give_equal_draws_and_every_part_matters():
    base = (0, "shuffle", 1, 0, 2)
    others = [(1, "shuffle", 1, 0, 2), (0, "model", 1, 0, 2), (0, "shuffle", 2, 0, 2), (0, "shuffle", 1, 1, 2)]
    others += [(0, "shuffle", 1, 0, 3), (0, "shuffle", 10, 2), (0, "shuffle", 1, 0, 2, 0), (0, "shuffle", 1, 0)]
    assert key(*base) == key(*base)
    assert len({key(*parts) for parts in [base, *others]}) == 1 + len(others)
    assert all(0 <= key(*parts) < 2**63 for parts in others)
