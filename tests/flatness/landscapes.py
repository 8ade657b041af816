"""Runs whose landscapes are looked at, models put together by hand, and a count of what is evaluated."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import flatfed as ff
from flatfed.experiments.measuring.landscapes import Landscape, View, landscape
from flatfed.flatness.drawable import Grid, Line
from flatfed.flatness.surface import Surface
from flatness.federations import (
    CLASSES,
    CLIENTS,
    INPUTS,
    client_data,
    mlp,
    task,
)

Pair = tuple[Tensor, Tensor]
METHODS = ("fedavg", "fedsam", "fedavgm")
TEST = 3


def normed() -> nn.Module:
    """Return a network with BatchNorm, its statistics as after some other training."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(INPUTS, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, CLASSES)).double()
        model[1].running_var.uniform_(0.5, 2.0)
    return model


def problem(kind: str, scale: float = 1.0) -> ff.Task:
    data = [(scale * x, y) for x, y in client_data()]
    own = {"local": "bn"} if kind == "own norms" else {}
    return task(model=mlp() if kind == "plain" else normed(), clients=data, test=data[TEST], **own)


def mixed(paths: Sequence[Path], shares: Sequence[float]) -> nn.Module:
    """Return a model whose every number is an affine combination of the runs' models, no variance below 0."""
    models = [ff.load_run(path).model() for path in paths]
    states = [model.state_dict() for model in models]
    for name, value in models[0].state_dict().items():
        if value.is_floating_point():
            value.copy_(sum(share * state[name] for share, state in zip(shares, states, strict=True)))
            if name.endswith("running_var"):
                value.clamp_(min=0)
    return models[0].eval()


@torch.no_grad()
def losses(model: nn.Module, pair: Pair) -> tuple[float, float]:
    """Return loss and error of a model."""
    outputs = model(pair[0])
    return float(cross_entropy(outputs, pair[1])), float((outputs.argmax(dim=1) != pair[1]).double().mean())


def parts_of(path: Path) -> dict[str, Pair]:
    """Return the training and test examples of a run."""
    problem = ff.load_run(path)._federation.task
    clients = [problem.examples(k).batch(torch.arange(len(problem.examples(k)))) for k in range(CLIENTS)]
    return {"train": (torch.cat([x for x, _ in clients]), torch.cat([y for _, y in clients])), "test": clients[TEST]}


def look(paths: Sequence[Path], kind: str = "surface", **changes: Any) -> Landscape:
    reported = {name: changes.pop(name) for name in ("workers", "on_point") if name in changes}
    return landscape(list(paths), View(**({"kind": kind, "points": 5, "samples": None} | changes)), **reported)


def line(actual: Landscape) -> Line:
    assert not actual.grids
    [only] = actual.lines
    return only


class Counted:
    """Counts the points that are evaluated."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count, plain = 0, Surface.metrics_at

        def counted(surface: Surface, points: Sequence[Any], *rest: Any, **more: Any) -> Any:
            self.count += len(points)
            return plain(surface, points, *rest, **more)

        patch.setattr(Surface, "metrics_at", counted)

    def of(self, look: Callable[[], Landscape]) -> tuple[int, Landscape]:
        before = self.count
        actual = look()
        return self.count - before, actual


def same(a: Landscape, b: Landscape) -> bool:
    return json.dumps(a.to_dict()) == json.dumps(b.to_dict())


def grids_of(grid: Grid) -> dict[str, Any]:
    actual: dict[str, Any] = Landscape([grid], []).to_dict()["grids"][0]
    return actual
