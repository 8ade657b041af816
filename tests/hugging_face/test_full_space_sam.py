"""SAM in the full space: the ascent moves all weights that a model computes with, the step moves the adapters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from torch import Tensor, nn

import flatfed as ff
from core.bench import seeded
from flatfed.core.errors import ConfigError
from flatfed.core.model.full_space import FullSpace
from flatfed.hub_models.hub_libraries import without_deprecations
from hugging_face.test_adapters import task
from hugging_face.test_models import SMALL
from hugging_face.tiny import bert

RHO = 0.3
LR = 0.1
SCALE = 2.0
"""Of the adapters: alpha over rank."""


class Adapted(nn.Module):
    """`x (W0 + s B A)^T`, then a frozen layer, then a trained one: written out, without any library."""

    adapter_layer_names = ("lora_A", "lora_B")

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)

        def drawn(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape, generator=generator, dtype=torch.float64))

        self.base, self.lora_A, self.lora_B = drawn(4, 3), drawn(2, 3), drawn(4, 2)
        self.middle, self.head = drawn(4, 4), drawn(3, 4)
        for frozen in (self.base, self.middle):
            frozen.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return _outputs(self.base + SCALE * self.lora_B @ self.lora_A, self.middle, self.head, x)


def _outputs(weight: Tensor, middle: Tensor, head: Tensor, x: Tensor) -> Tensor:
    return torch.tanh(torch.tanh(x @ weight.T) @ middle.T) @ head.T


def free() -> nn.Module:
    """Return a model of which nothing is frozen."""
    return seeded(lambda: nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))).double()


def examples(seed: int = 0, count: int = 6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 3, generator=generator, dtype=torch.float64), torch.arange(count) % 3


def trained(model: nn.Module, method: Any, **changes: Any) -> ff.Run:
    given: dict[str, Any] = {"rounds": 1, "sampling": 1, "lr": LR, "weight_decay": 0.0, "batch_size": None}
    return ff.train(ff.Task(model, [examples()]), method, **{**given, **changes}, dtype=torch.float64, workers=0)


def by_hand(model: Adapted, rho: float) -> list[Tensor]:
    """Return A, B and the head after one step: the gradient by the merged weights gives the ascent, in plain torch."""
    x, y = examples()
    A, B, head = (part.detach().clone().requires_grad_() for part in (model.lora_A, model.lora_B, model.head))
    weights = [(model.base + SCALE * B @ A).detach(), model.middle.detach(), head.detach()]
    merged = [weight.clone().requires_grad_() for weight in weights]
    loss = nn.functional.cross_entropy(_outputs(merged[0], merged[1], merged[2], x), y)
    gradients = torch.autograd.grad(loss, merged)
    length = torch.sqrt(sum((g.square().sum() for g in gradients), torch.zeros((), dtype=torch.float64)))
    eps = [rho * g / length for g in gradients]
    there = _outputs(model.base + SCALE * B @ A + eps[0], model.middle + eps[1], head + eps[2], x)
    steps = torch.autograd.grad(nn.functional.cross_entropy(there, y), [A, B, head])
    return [(part - LR * step).detach() for part, step in zip((A, B, head), steps, strict=True)]


@pytest.mark.parametrize("method", ["fedsam(rho=0.3,space=full)", "fedavg+sam(rho=0.3,space=full)"])
def test_a_step_is_the_one_by_hand(method: str) -> None:
    run = trained(Adapted(), method)
    moved = run.model().state_dict()
    for name, expected in zip(("lora_A", "lora_B", "head"), by_hand(Adapted(), RHO), strict=True):
        torch.testing.assert_close(moved[name], expected, rtol=1e-13, atol=1e-15)
    assert run.history[-1]["backprops"] == 2


def test_frozen_weights_stay_where_they_are() -> None:
    moved = trained(Adapted(), "fedsam(space=full)", rounds=3).model().state_dict()
    assert torch.equal(moved["base"], Adapted().base) and torch.equal(moved["middle"], Adapted().middle)


def test_the_two_spaces_differ() -> None:
    full = trained(Adapted(), "fedsam(rho=0.3,space=full)").vector
    assert not torch.allclose(full, trained(Adapted(), "fedsam(rho=0.3)").vector, rtol=1e-3)


def test_without_a_radius_it_is_fedavg() -> None:
    assert torch.equal(trained(Adapted(), "fedsam(rho=0,space=full)").vector, trained(Adapted(), "fedavg").vector)


def test_where_nothing_is_frozen_both_are_one() -> None:
    full = trained(free(), "fedsam(rho=0.3,space=full)", rounds=3).vector
    torch.testing.assert_close(full, trained(free(), "fedsam(rho=0.3)", rounds=3).vector, rtol=1e-13, atol=1e-15)


def test_vectorised_clients_come_to_the_same() -> None:
    # A model with frozen layers is never stacked, so that this one has none.
    problem = ff.Task(free(), [examples(seed) for seed in range(4)])
    how: dict[str, Any] = {"rounds": 2, "sampling": 4, "lr": LR, "batch_size": 2, "dtype": torch.float64, "workers": 0}
    alone, together = (
        ff.train(problem, "fedsam(rho=0.3,space=full)", **how, vectorised=vectorised) for vectorised in (False, True)
    )
    torch.testing.assert_close(alone.vector, together.vector, rtol=1e-12, atol=1e-14)
    assert alone.history[-1]["backprops"] == together.history[-1]["backprops"]


def test_bytes_are_those_of_the_adapters_and_workers_change_nothing(tmp_path: Path) -> None:
    problem = task(bert(dropout=0.1))
    full = ff.train(problem, "fedsam(space=full)", **SMALL)
    usual = ff.train(problem, "fedsam", **SMALL)
    for number in ("bytes_down", "bytes_up", "backprops"):
        assert full.history[-1][number] == usual.history[-1][number]
    assert torch.equal(ff.train(problem, "fedsam(space=full)", **{**SMALL, "workers": 2}).vector, full.vector)
    ff.train(problem, "fedsam(space=full)", **{**SMALL, "rounds": 1}, out=tmp_path / "run")
    assert torch.equal(ff.resume(tmp_path / "run", rounds=2, task=problem).vector, full.vector)


def test_the_gradient_in_the_full_space_is_that_of_merged_weights() -> None:
    run = ff.train(task(bert().double()), "fedavg", **SMALL, dtype=torch.float64)
    model, merged = run.model(), run.model()
    with without_deprecations():
        merged = merged.merge_and_unload()  # type: ignore[operator]  # of a model of peft
    for parameter in merged.parameters():
        parameter.requires_grad_(True)
    tokens = {"input_ids": torch.tensor([[5, 6, 7], [8, 9, 4]]), "labels": torch.tensor([0, 2])}
    space = FullSpace(model)
    with space.freed():
        model(**tokens).loss.backward()
    merged(**tokens).loss.backward()
    names = {name: name.replace("base_layer.", "").removeprefix("base_model.model.") for name, _ in _weights(model)}
    expected = dict(merged.named_parameters())
    compared = 0
    for name, parameter in _weights(model):
        if "original_module" in name:  # the head that the trained one took the place of: nothing computes with it
            assert parameter.grad is None
            continue
        mine, theirs = parameter.grad, expected[names[name].replace("modules_to_save.default.", "")].grad
        assert (mine is None) == (theirs is None)
        if mine is not None:
            torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-14)
            compared += 1
    assert compared > 10


def _weights(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, parameter) for name, parameter in model.named_parameters() if "lora_" not in name]


OTHERS: dict[str, Callable[[], Any]] = {
    "DoRA": lambda: peft.LoraConfig(r=2, target_modules=["query"], use_dora=True),
    "IA3": lambda: peft.IA3Config(target_modules=["query"], feedforward_modules=[]),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_adapters_that_do_not_add_are_refused(kind: str) -> None:
    with without_deprecations():
        model = peft.get_peft_model(bert(), OTHERS[kind]())
    with pytest.raises(ConfigError, match="does not only add to a weight; choose the trained space"):
        FullSpace(model)
