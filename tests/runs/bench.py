"""A tiny stateful run, made of tensors, that a run directory alone can bring back."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import flatfed as ff
import nursery
from engines.bench import bits

POPULATION, ROUNDS = 5, 5

steps_left: int | None = None
"""After this many more forward passes the process kills itself; None: never."""


def dying_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy, perhaps the last one."""
    global steps_left
    if steps_left is not None:
        steps_left -= 1
        if steps_left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return functional.cross_entropy(outputs, targets)


def small_model(seed: int = 2) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3))


def small_task(**changes: Any) -> ff.Task:
    generator = torch.Generator().manual_seed(1)
    data = [(torch.randn(8, 4, generator=generator), (torch.arange(8) + k) % 3) for k in range(POPULATION)]
    test = (torch.randn(9, 4, generator=generator), torch.arange(9) % 3)
    return ff.Task(**{"model": small_model(), "clients": data, "test": test, "loss": dying_loss, **changes})


def small_run(out: Path | None, task: ff.Task | None = None, **changes: Any) -> ff.Run:
    """FedDyn with SAM and SWA: state on the server, on the clients and in the average; a checkpoint every round."""
    values = {"rounds": ROUNDS, "sampling": 2, "lr": 0.1, "batch_size": 4, "lr_decay": 0.9, "workers": 0}
    values |= {"average": ff.SWA(start=0.3, cycle=2, lr_low=0.01), "checkpoint_every": 1, "out": out}
    algorithm = ff.make("feddyn", client_opt=ff.SAM())
    return ff.train(task or small_task(), algorithm, **(values | changes))


def seeded_main_run(out: Path, **parts: Any) -> None:
    """Two rounds of a task with parts that are defined in a script."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        made = {name: part() if name == "model" else part for name, part in parts.items()}
    small_run(out, small_task(**made), rounds=2, average=None)


def digest(run: ff.Run, population: int = POPULATION) -> dict[str, Any]:
    """Return the bits of a run in a form that fits a pipe; the history stays readable."""
    actual = bits(run, population)
    plain = ("history", "status")
    return {name: v if name in plain else hashlib.sha256(repr(v).encode()).hexdigest() for name, v in actual.items()}


def in_new_process(*arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run Python in a process that knows nothing of this one and can import these tests."""
    if arguments[0] in ("-c", "-m"):
        return nursery.start(*arguments).end(timeout)
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=nursery.environment(), timeout=timeout)


def referenced_states(path: Path) -> set[str]:
    """Return the files with client states that a run's checkpoints refer to."""
    manifests = [json.loads(file.read_text())["manifest"] for file in path.glob("checkpoints/round-*/checkpoint.json")]
    return {name for manifest in manifests for name in _state_files(manifest)}


def _state_files(manifest: dict[str, Any]) -> set[str]:
    entries = manifest["states"].values()
    if manifest["format"] == 1:
        return {entry.rsplit(":", 1)[0] for states in entries for entry in states.values()}
    return {name for entry in entries for name in (entry["file"], entry["index"]["file"])}


def litter(path: Path) -> list[str]:
    """Return what lies in a run directory and belongs to nothing: temporary files, states that nobody refers to."""
    wanted = referenced_states(path)
    hidden = [f for f in path.rglob("*") if f.name.startswith(".") and f.name != ".lock"]
    unused = [f for f in path.glob("checkpoints/states/*") if f.name not in wanted]
    return sorted(str(file.relative_to(path)) for file in {*hidden, *unused})


# Models for recipes: importable, and with what real models have.


class Tied(nn.Module):
    """Two layers that share one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 4), nn.Linear(4, 4)
        self.decoder.weight = self.encoder.weight
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.decoder(torch.tanh(self.encoder(x)))))


class Repeated(nn.Module):
    """One BatchNorm that is used twice, under two names."""

    def __init__(self) -> None:
        super().__init__()
        norm = nn.BatchNorm1d(4)
        self.first, self.norm_a, self.second, self.norm_b = nn.Linear(4, 4), norm, nn.Linear(4, 4), norm
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm_b(self.second(torch.tanh(self.norm_a(self.first(x))))))


class Recurrent(nn.Module):
    """An LSTM over the features, one at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(1, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x.unsqueeze(2))[0][:, -1])


class Buffered(nn.Module):
    """A persistent buffer that moves, one that is not saved, and attributes of several plain types."""

    scale: Tensor
    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("scale", torch.tensor([0.5, 1.0, 2.0]))
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("mask", torch.tensor([1.0, 0.0, 1.0, 1.0]), persistent=False)
        self.register_buffer("nothing", None)
        self.register_parameter("no_weight", None)
        self.settings, self.activation, self.factor = (1, [2.5, "a"], None), functional.relu, 0.5

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.seen += len(x)
        return self.linear(x * self.mask) * self.scale * self.factor + self.activation(x[:, :3]) * self.settings[0]


def halved(inputs: Tensor) -> Tensor:
    return inputs / 2


def jittered(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return inputs + 0.1 * torch.rand(inputs.shape, generator=generator)
