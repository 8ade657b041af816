"""Every model trains: gradients reach all of it, and a local step through `ff.train` is the step by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

import flatfed as ff
from flatfed.models import models
from methods.designs import WHOLE
from models.samples import OF_TEXTS, examples, loss, made

OPTIONS = [*((id, {}) for id in models()), ("wrn-28-4", {"norm": "batch", "init": "kaiming"})]


@pytest.mark.parametrize(("id", "options"), OPTIONS)
def test_gradients_reach_every_parameter(id: str, options: dict[str, object]) -> None:
    model = made(id, **options)
    inputs, targets = examples(id, 4)
    loss(model(inputs), targets).backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert idle == []
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize(("id", "options"), OPTIONS if WHOLE else OPTIONS[::2])
def test_a_local_step_is_that_of_sgd(id: str, options: dict[str, object]) -> None:
    model, (inputs, targets) = made(id, **options).double(), examples(id, 4)
    inputs = inputs.double() if inputs.is_floating_point() else inputs
    task = ff.Task(model, [(inputs, targets)], test=(inputs, targets), loss=loss)
    settings = {"rounds": 1, "sampling": 1, "lr": 0.1, "batch_size": None, "weight_decay": 0.0, "workers": 0}
    run = ff.train(task, ff.make("fedavg"), **settings, dtype=torch.float64)
    loss(model(inputs), targets).backward()
    by_hand = torch.cat([(p - 0.1 * p.grad).flatten() for p in model.parameters() if p.grad is not None]).detach()
    torch.testing.assert_close(run.vector, by_hand, rtol=1e-6, atol=1e-8)
    assert run.history[-1]["test_loss"] > 0


@pytest.mark.parametrize("id", models())
def test_normalisation_is_called_so(id: str) -> None:
    kinds = (nn.GroupNorm, _BatchNorm, nn.LayerNorm)
    actual = {name: isinstance(m, kinds) for name, m in made(id).named_modules() if name and not list(m.children())}
    assert all("norm" in name.rpartition(".")[2] for name, is_norm in actual.items() if is_norm)


@pytest.mark.parametrize("id", [id for id in models() if id not in OF_TEXTS])
def test_channels_last_gives_the_same(id: str) -> None:
    model, images = made(id).eval().double(), examples(id, 2)[0].double()
    expected = model(images)
    last = torch.channels_last
    outputs = model.to(memory_format=last)(images.contiguous(memory_format=last))
    torch.testing.assert_close(outputs, expected)
