"""Small tasks in lockstep and one by one, and what it takes to compare them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

import flatfed as ff
from cli.command import read_json
from engines.bench import assert_same, bits
from flatfed.core.round.federation import TIMES

T = TypeVar("T")
INPUTS, CLASSES = 4, 3
SIZES = (9, 5, 8, 3, 6, 1, 7, 4)
COHORTS = ([0, 1, 2, 3, 4, 5, 6, 7], [1, 4, 6], [5, 7, 0, 3], [2, 3])
EXACT = ("round", "clients", "lr", "bytes_down", "bytes_up", "backprops")
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


def examples(sizes: tuple[int, ...] = SIZES) -> list[tuple[Tensor, Tensor]]:
    """Clients of unequal sizes, each with a shift of its own."""
    generator = torch.Generator().manual_seed(1)
    shifts = enumerate(sizes)
    return [(torch.randn(n, INPUTS, generator=generator) + 0.2 * k, (torch.arange(n) + k) % CLASSES) for k, n in shifts]


def network(seed: int = 2) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(INPUTS, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, CLASSES))


def normed() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return nn.Sequential(nn.Linear(INPUTS, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, CLASSES))


def small(**changes: Any) -> ff.Task:
    data = changes.pop("clients", None) or examples()
    return ff.Task(**{"model": network(), "clients": data, "test": examples((11,))[0], **changes})


def play(task: ff.Task | None = None, method: ff.Algorithm | None = None, **changes: Any) -> ff.Run:
    """Train in this process in lockstep over four cohorts: steps unequal in number, last batches in size."""
    settings: dict[str, Any] = {"rounds": len(COHORTS), "sampling": ff.Replay(list(COHORTS)), "lr": 0.1}
    settings |= {"batch_size": 3, "local_epochs": 2, "lr_decay": 0.9, "seed": 7, "evaluate_every": 1, "workers": 0}
    settings |= {"vectorised": True, **changes}
    return ff.train(task or small(), method or ff.make("scaffold"), **settings)


def same(found: ff.Run, expected: ff.Run) -> None:
    population = len(found._federation.task.clients)
    assert_same(bits(found, population), bits(expected, population))


def numbers(run: ff.Run) -> dict[str, Tensor]:
    """Return all that a run has come to and that rounding may touch, by name."""
    states = {"server": run.server_state}
    states |= {f"client {k}": run.client_state(k) for k in range(run._federation.task.population)}
    found = {f"{who}: {name}": value for who, state in states.items() for name, value in state.items()}
    for row in run.history:
        more = {name: v for name, v in row.items() if isinstance(v, float) and name not in (*EXACT, *TIMES)}
        found |= {f"row {row['round']}: {name}": v for name, v in (more | row["watch"]).items()}
    found |= {"vector": run.vector, "evaluated": run.eval_vector}
    return {name: torch.as_tensor(value).double() for name, value in found.items()}


def agree(together: ff.Run, alone: ff.Run, tolerance: float = 1e-12) -> None:
    """Compare two runs: counts exactly, everything else to rounding."""
    assert together.status == alone.status
    for a, b in zip(together.history, alone.history, strict=True):
        assert a.keys() == b.keys()
        assert {name: a[name] for name in EXACT} == {name: b[name] for name in EXACT}
        assert a.get("rejected") == b.get("rejected")
    found, expected = numbers(together), numbers(alone)
    assert found.keys() == expected.keys()
    assert {"row 0: train_loss", "row 0: divergence", "row 0: update_norm"} <= found.keys()
    for name, value in expected.items():
        scale = max(float(value.norm()), 1e-2)
        assert float((found[name] - value).norm()) <= tolerance * scale, name
    assert not torch.equal(together.vector, together._federation.task.layout().to_public(start(together)))


def start(run: ff.Run) -> Tensor:
    task = run._federation.task
    return task.layout().read(task.fresh_model(run._federation.settings.torch_dtype))


def both(task: ff.Task | None = None, method: ff.Algorithm | None = None, **changes: Any) -> tuple[ff.Run, ff.Run]:
    """Train in lockstep and client by client, in float64 unless told."""
    changes = {"dtype": torch.float64, **changes}
    return play(task, method, **changes), play(task, method, **{**changes, "vectorised": False})


class Noisy(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """A data set whose transforms draw from all global generators."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        shift = 0.1 * torch.randn(INPUTS) + 0.1 * random.random() + 0.1 * float(np.random.rand())  # noqa: NPY002
        return self.inputs[index] + shift, self.targets[index]


def recorded(path: Path) -> Any:
    return read_json(path / "config.json")["settings"]["vectorised"]
