"""Every method vectorised comes to what it comes to client by client.

Every run of the tests takes each method with each parameter set and with schedules, the client optimisers by turns;
in `make battery`, every variant.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

import flatfed as ff
from flatfed.core.method.algorithm import Algorithm
from methods.designs import few, marked
from methods.wire import METHODS, SIZES, jittered, numbered_variants, variants

COHORTS = ((0, 1, 2, 3, 4), (1, 3), (4,), (0, 2, 4))
SETTINGS = {
    "lr": 0.1,
    "batch_size": 3,
    "local_epochs": 2,
    "lr_decay": 0.9,
    "seed": 7,
    "evaluate_every": 1,
    "workers": 0,
}
WHOLE, SHORT = numbered_variants(METHODS)
EXACT = ("clients", "lr", "bytes_down", "bytes_up", "backprops")


def task() -> ff.Task:
    """Return a network that draws nothing by itself, over clients of unequal size with augmentation."""
    generator = torch.Generator().manual_seed(3)
    data = [(torch.randn(n, 6, generator=generator), (torch.arange(n) + k) % 3) for k, n in enumerate(SIZES)]
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 3))
    return ff.Task(model, data, test=data[0], augment=jittered)


def trained(method: Algorithm, vectorised: bool, dtype: torch.dtype) -> ff.Run:
    settings = {"rounds": len(COHORTS), "sampling": ff.Replay(COHORTS), "dtype": dtype, **SETTINGS}
    return ff.train(task(), method, vectorised=vectorised, **settings)


def numbers(run: ff.Run) -> dict[str, torch.Tensor]:
    """Return everything a run has come to, as vectors."""
    states = {"server": run.server_state} | {
        f"client {k}": run.client_state(k) for k in range(run._federation.task.population)
    }
    actual = {f"{who} {name}": value for who, state in states.items() for name, value in state.items()}
    reported = ("train_loss", "update_norm", "model_norm", "test_loss")
    actual |= {f"row {row['round']} {name}": row[name] for row in run.history for name in reported}
    actual |= {f"row {row['round']} {name}": v for row in run.history for name, v in row["watch"].items()}
    return {"w": run.vector} | {name: torch.as_tensor(value).double() for name, value in actual.items()}


@marked("method, number", WHOLE, few(SHORT, lambda pair: pair[0]))
@pytest.mark.filterwarnings("ignore:.*momentum")
def test_vectorising_changes_nothing_but_rounding(method: str, number: int) -> None:
    alone, together = (trained(variants(method)[number], vectorised, torch.float64) for vectorised in (False, True))
    for a, b in zip(alone.history, together.history, strict=True):
        assert {name: a[name] for name in EXACT} == {name: b[name] for name in EXACT}
    expected, actual = numbers(alone), numbers(together)
    assert expected.keys() == actual.keys()
    for name in expected:
        scale = max(1e-2, float(expected[name].norm()))
        assert float((actual[name] - expected[name]).norm()) <= 1e-12 * scale, name


@pytest.mark.parametrize("method", ["fedavg", "fedgloss", "fedgmt", "fedwmsam", "mime", "scaffold"])
def test_in_single_precision(method: str) -> None:
    alone, together = (trained(ff.make(method), vectorised, torch.float32) for vectorised in (False, True))
    assert float((alone.vector - together.vector).norm()) <= 1e-5 * float(alone.vector.norm())
