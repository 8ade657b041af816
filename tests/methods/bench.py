"""The bridge from a row of the table to `ff.train`, and quadratic problems with few numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

import flatfed as ff
from flatfed.algorithms import ClientOptimiser
from flatfed.core.configuration.config import parameters
from flatfed.testing.bench import (  # noqa: F401  # what the package offers to authors of methods, for the tests here
    COHORTS,
    NEVER_SAMPLED,
    SETTINGS,
    array,
    assert_close,
    constant,
    held,
    network,
    network_setup,
    repeated_sample_setup,
    same_state,
    server_average,
    tensors,
    train_network,
)
from methods.naive import Opt, Setup, Vector
from methods.table import Case


class Point(nn.Module):
    """The parameters times the inputs: with the losses below, client k's objective is in its (x, y)."""

    def __init__(self, weight: Vector, bias: Vector | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight))
        self.bias = None if bias is None else nn.Parameter(torch.tensor(bias))

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.weight if self.bias is None else torch.cat([self.weight, self.bias]))


class Shift(nn.Module):
    """As `Point` with one parameter whose name does not contain "weight"."""

    def __init__(self, shift: Vector) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.tensor(shift))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.shift


def quadratic(outputs: Tensor, targets: Tensor) -> Tensor:
    """1/2 |x w - y|^2: gradient x (x w - y)."""
    return 0.5 * ((outputs - targets) ** 2).sum(1).mean()


def linear(outputs: Tensor, targets: Tensor) -> Tensor:
    """Gradient x y, whatever w."""
    return (outputs * targets).sum(1).mean()


def client_opt(opt: Opt) -> Any:
    """The package's optimiser of that id, with these values; an id or a parameter that it does not know is an error."""
    chosen = ClientOptimiser.registry[opt.kind]
    radius = {"rho": opt.rho} if "rho" in parameters(chosen) else {}
    return chosen(**radius, **opt.more)


def algorithm(case: Case) -> Any:
    extra = {"client_opt": client_opt(case.client_opt)} if case.client_opt else {}
    return ff.make(case.row.id, **case.params, **extra)


def train_case(case: Case, setup: Setup, **changes: Any) -> Any:
    """As `train_network`; a method that must warn about momentum is expected to, and no other may."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run = train_network(algorithm(case), setup, **changes)
    said = [str(warning.message) for warning in seen]
    expected = case.row.warns_with_momentum and setup.momentum > 0
    assert any("momentum" in message for message in said) == expected, said
    return run


def train_point(
    method: Any,
    model: nn.Module,
    clients: Sequence[tuple[Any, Any]],
    *,
    rounds: int = 1,
    schedule: Sequence[Sequence[int]] | None = None,
    loss: Callable = quadratic,
    **settings: Any,
) -> Any:
    """Plain settings (no weight decay, full batch, uniform) on a task given by its tensors."""
    cohorts = schedule or [list(range(len(clients)))] * rounds
    pairs = tensors(clients, torch.float64)
    task = ff.Task(model=model, clients=pairs, test=None, loss=loss)
    plain = {"lr": 0.1, "local_epochs": 1, "weight_decay": 0.0, "weighting": "uniform"}
    fixed = {"batch_size": None, "dtype": torch.float64, "workers": 0, "seed": 0}
    sampling = ff.Replay([list(cohort) for cohort in cohorts])
    return ff.train(task, method, rounds=len(cohorts), sampling=sampling, **{**plain, **fixed, **settings})
