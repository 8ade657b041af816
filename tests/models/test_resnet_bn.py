"""ResNet-18 with BatchNorm in a federation: statistics that are averaged, stay with the clients, or cannot be taken."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import flatfed as ff
from flatfed.models import build
from methods.designs import WHOLE
from models.samples import examples, made

SETTINGS: dict[str, Any] = {"rounds": 1, "sampling": 2, "lr": 0.05, "batch_size": 4, "weight_decay": 0.0, "workers": 0}


def client(seed: int, count: int = 4) -> tuple[Tensor, Tensor]:
    return examples("resnet18-bn", count, seed)


def test_twenty_batchnorms() -> None:
    norms = [module for module in build("resnet18-bn", 10, 3).modules() if isinstance(module, nn.BatchNorm2d)]
    assert len(norms) == 20 and sum(norm.num_features for norm in norms) == 4_800
    assert all(norm.track_running_stats and norm.affine and norm.momentum == 0.1 for norm in norms)


def test_initialisation() -> None:
    for init, spread in (("kaiming", math.sqrt(2 / (256 * 9))), ("default", 1 / math.sqrt(3 * 256 * 9))):
        weight = build("resnet18-bn", 10, 3, options={"init": init}).stages.stage3[1].conv1.weight
        assert float(weight.detach().std()) == pytest.approx(spread, rel=0.01)


def trained_alone(model: nn.Module, inputs: Tensor, targets: Tensor) -> nn.Module:
    """One step of SGD on a copy."""
    model = copy.deepcopy(model).train()
    F.cross_entropy(model(inputs), targets).backward()
    with torch.no_grad():
        for p in model.parameters():
            p.sub_(SETTINGS["lr"] * p.grad)
    return model


def test_the_server_averages_the_statistics() -> None:
    model, clients = made("resnet18-bn"), [client(0), client(1)]
    run = ff.train(ff.Task(model, clients, test=clients[0]), ff.make("fedavg"), **SETTINGS)
    alone = [trained_alone(model, *data).state_dict() for data in clients]
    for name, value in run.model().state_dict().items():
        if name.endswith(("running_mean", "running_var")):
            torch.testing.assert_close(value, (alone[0][name] + alone[1][name]) / 2)
    assert not torch.equal(run.model().norm1.running_mean, model.norm1.running_mean)


@pytest.mark.parametrize(("parts", "kept"), [("bn", 9_600), ("bn-stats", 0)])
def test_local_layers_stay_with_their_client(parts: str, kept: int) -> None:
    clients = [client(0), client(1)]
    task = ff.Task(made("resnet18-bn"), clients, test=clients[0], local=parts)
    run = ff.train(task, ff.make("fedavg"), **SETTINGS)
    shared = ff.train(ff.Task(made("resnet18-bn"), clients), ff.make("fedavg"), **SETTINGS)
    less = shared.history[-1]["bytes_up"] - run.history[-1]["bytes_up"]
    assert less == 2 * (4 * (9_600 + kept) + 8 * 20)
    states = [run.client_state(number)["local_buffers"] for number in (0, 1)]
    assert not torch.equal(*states)


def test_a_batch_of_one_image_trains() -> None:
    model = made("resnet18-bn")  # 16 pixels: a single one is left at the end
    before = copy.deepcopy(model.stages.stage4[1].norm2.state_dict())
    inputs, targets = client(0, 1)
    F.cross_entropy(model(inputs), targets).backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())
    assert all(torch.equal(v, before[n]) for n, v in model.stages.stage4[1].norm2.state_dict().items())


@pytest.mark.skipif(
    not WHOLE, reason="takes long: make battery; smaller models with BatchNorm are resumed in tests/runs"
)
def test_workers_and_resuming_give_the_same_bits(tmp_path: Path) -> None:
    """One round on two workers, and the second in a run that is resumed, against two rounds without either."""
    clients = [client(0, 3), client(1, 4)]
    task = ff.Task(made("resnet18-bn"), clients, test=clients[0])
    settings = SETTINGS | {"batch_size": 2}  # one ends with a small batch
    whole = ff.train(task, ff.make("fedsam"), **settings | {"rounds": 2})
    ff.train(task, ff.make("fedsam"), **settings | {"workers": 2}, out=tmp_path / "run")
    resumed = ff.resume(tmp_path / "run", rounds=2)
    other = resumed.model().state_dict()
    for name, value in whole.model().state_dict().items():
        assert torch.equal(value, other[name]), name
