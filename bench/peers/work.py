"""What is trained: the same clients, networks and steps for every peer, its command line and its line of results."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise

import torch
from torch import nn

import models

LR = 0.01
WEIGHT_DECAY = 4e-4


@dataclass(frozen=True)
class Work:
    """Federated averaging of a network over clients of equal size, one local epoch of plain SGD each."""

    model: Callable[[], nn.Module]
    clients: int
    examples: int
    shape: tuple[int, ...]
    per_round: int
    batch_size: int

    def data(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return inputs and classes of all clients, always the same random numbers."""
        generator = torch.Generator().manual_seed(0)
        inputs = torch.randn(self.clients, self.examples, *self.shape, generator=generator)
        return inputs, torch.randint(0, 10, (self.clients, self.examples), generator=generator)


WORKS = {
    "conv": Work(models.cnn, clients=100, examples=500, shape=(3, 32, 32), per_round=5, batch_size=64),
    "tiny": Work(models.linear, clients=1000, examples=50, shape=(3072,), per_round=50, batch_size=10),
}


def parse(description: str | None) -> argparse.Namespace:
    """Read the command line that all peers share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", choices=sorted(WORKS), required=True)
    parser.add_argument("--processes", type=int, choices=(1, 2), required=True, help="each uses one thread")
    parser.add_argument("--rounds", type=int, required=True, help="measured; one more goes before, to warm up")
    return parser.parse_args()


def report(peer: str, package: str, arguments: argparse.Namespace, marks: list[float]) -> None:
    """Print one line of JSON, given the times between rounds from the end of the first one on."""
    seconds = [end - start for start, end in pairwise(marks)]
    if len(seconds) != arguments.rounds:
        raise RuntimeError(f"{peer} measured {len(seconds)} rounds instead of {arguments.rounds}")
    line = {
        "peer": peer,
        "version": version(package),
        "work": arguments.work,
        "processes": arguments.processes,
        "seconds": seconds,
    }
    print(json.dumps(line), flush=True)
