"""Speed as ratios within one run: flatfed against a bare training loop that does the same arithmetic.

Workloads are interleaved and medians taken, because a shared machine's seconds mean little by themselves.

    python bench/run.py [--repeats 5]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import flatfed as ff
from flatfed.models import build


@dataclass(frozen=True)
class Workload:
    name: str
    model: Callable[[], nn.Module]
    clients: int
    samples: int
    shape: tuple[int, ...]
    per_round: int
    batch_size: int
    rounds: int

    def data(self) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        inputs = torch.randn(self.clients, self.samples, *self.shape, generator=generator)
        return inputs, torch.randint(0, 10, (self.clients, self.samples), generator=generator)


WORKLOADS = [
    Workload("tiny", lambda: nn.Linear(3072, 10), 500, 50, (3072,), 50, 10, 4),
    Workload("conv", lambda: build("cnn", 10, 3, 32, 0), 10, 128, (3, 32, 32), 4, 64, 1),
]


def bare(work: Workload) -> float:
    """Return seconds a round of plain SGD over the same number of clients and steps, in place, one thread."""
    inputs, targets = work.data()
    model = work.model().to(memory_format=torch.channels_last)
    parameters = list(model.parameters())
    seconds = []
    for round in range(work.rounds + 1):
        started = time.perf_counter()
        start = [p.detach().clone() for p in parameters]
        total = [torch.zeros_like(p) for p in parameters]
        for client in range(work.per_round):
            _bare_client(model, parameters, start, inputs[client], targets[client], work.batch_size)
            for t, p in zip(total, parameters, strict=True):
                t.add_(p.detach(), alpha=1 / work.per_round)
        with torch.no_grad():
            for p, t in zip(parameters, total, strict=True):
                p.copy_(t)
        if round:  # the first round warms up
            seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def _bare_client(
    model: nn.Module,
    parameters: list[nn.Parameter],
    start: list[torch.Tensor],
    inputs: torch.Tensor,
    targets: torch.Tensor,
    size: int,
) -> None:
    with torch.no_grad():
        for p, s in zip(parameters, start, strict=True):
            p.copy_(s)
    for indices in torch.randperm(len(inputs)).split(size):
        x = inputs[indices]
        x = x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x
        for p in parameters:
            p.grad = None
        F.cross_entropy(model(x), targets[indices]).backward()
        with torch.no_grad():
            for p in parameters:
                p.mul_(1 - 0.01 * 4e-4).add_(p.grad, alpha=-0.01)


def flatfed(work: Workload, method: str, workers: int) -> float:
    """Return seconds a round of a method, evaluation off."""
    inputs, targets = work.data()
    task = ff.Task(work.model(), [(inputs[k], targets[k]) for k in range(work.clients)])
    run = ff.train(
        task,
        ff.make(method),
        rounds=work.rounds + 1,
        sampling=work.per_round,
        lr=0.01,
        batch_size=work.batch_size,
        workers=workers,
    )
    return statistics.median(row["seconds"] for row in run.history[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench/results.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for work in WORKLOADS:
        cases: dict[str, Callable[[], float]] = {
            "bare loop": lambda w=work: bare(w),
            "fedavg, in process": lambda w=work: flatfed(w, "fedavg", 0),
            "fedavg, 2 workers": lambda w=work: flatfed(w, "fedavg", 2),
            "fedsam, in process": lambda w=work: flatfed(w, "fedsam", 0),
        }
        seconds: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(arguments.repeats):
            for name, case in cases.items():
                seconds[name].append(case())
        medians = {name: statistics.median(values) for name, values in seconds.items()}
        for name, median in medians.items():
            ratio = median / medians["bare loop"]
            results.append({"workload": work.name, "case": name, "seconds": median, "ratio": ratio})
            print(f"{work.name:5}  {name:20}  {median:8.4f} s a round  {ratio:5.2f} x bare", flush=True)
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
