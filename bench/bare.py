"""The limit: a plain loop with the same arithmetic and nothing else."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.nn.functional as F
from problems import LR, WEIGHT_DECAY, Problem
from torch import Tensor, nn


class Bare:
    """The clients of a round one after another in this process: copy the model in, step in place, add up."""

    def __init__(
        self, problem: Problem, name: str = "bare loop", clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.name, self.problem, self._clock = name, problem, clock
        self.inputs, self.targets = problem.data()
        self.model = problem.fresh_model().to(memory_format=torch.channels_last)
        self.parameters = list(self.model.parameters())

    def round(self) -> float:
        started = self._clock()
        start = [p.detach().clone() for p in self.parameters]
        total = [torch.zeros_like(p) for p in self.parameters]
        for client in range(self.problem.per_round):
            with torch.no_grad():
                for p, s in zip(self.parameters, start, strict=True):
                    p.copy_(s)
            self.client(client)
            with torch.no_grad():
                for t, p in zip(total, self.parameters, strict=True):
                    t.add_(p, alpha=1 / self.problem.per_round)
        with torch.no_grad():
            for p, t in zip(self.parameters, total, strict=True):
                p.copy_(t)
        return self._clock() - started

    def client(self, client: int) -> None:
        first = client * self.problem.samples
        for indices in torch.randperm(self.problem.samples).split(self.problem.batch_size):
            self.step(self.inputs.index_select(0, first + indices), self.targets[first + indices])

    def step(self, x: Tensor, y: Tensor) -> None:
        x = x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x
        for p in self.parameters:
            p.grad = None
        self.problem.loss(self.model(x), y).backward()
        with torch.no_grad():
            for p in self.parameters:
                p.mul_(1 - LR * WEIGHT_DECAY).add_(p.grad, alpha=-LR)

    def close(self) -> None:
        pass


class Children:
    """Processes that each do their share of a round when they are told to."""

    def __init__(self, name: str, serve: Callable[..., None], shares: Sequence[tuple[Any, ...]]) -> None:
        self.name, context = name, multiprocessing.get_context("fork")
        self.pipes, self.children, self.said = [], [], list[Any]()
        for share in shares:
            here, there = context.Pipe()
            child = context.Process(target=serve, args=(there, *share), daemon=True)
            child.start()
            self.pipes.append(here)
            self.children.append(child)

    def round(self) -> float:
        started = time.perf_counter()
        for pipe in self.pipes:
            pipe.send(True)
        self.said = [pipe.recv() for pipe in self.pipes]
        return time.perf_counter() - started

    def close(self) -> None:
        for pipe, child in zip(self.pipes, self.children, strict=True):
            pipe.send(False)
            child.join()


class BareProcesses(Children):
    """The steps of a round divided evenly among processes, as no real federation of five clients could be.

    With `keep_memory` the processes keep freed memory, as flatfed's workers do.
    """

    def __init__(self, problem: Problem, processes: int, keep_memory: bool = False) -> None:
        name = f"bare loop, {processes} processes" + (", memory kept" if keep_memory else "")
        steps = problem.per_round * problem.steps
        shares = [steps * (n + 1) // processes - steps * n // processes for n in range(processes)]
        super().__init__(name, serve, [(problem, share, keep_memory) for share in shares])


def serve(pipe: Connection, problem: Problem, steps: int, keep_memory: bool) -> None:
    torch.set_num_threads(1)
    if keep_memory:
        from flatfed.machine import keep_freed_memory

        keep_freed_memory()
    loop = Bare(problem)
    while pipe.recv():
        started = time.process_time()
        order = torch.randperm(problem.samples)
        batches = order.split(problem.batch_size)
        for step in range(steps):
            indices = batches[step % len(batches)]
            loop.step(loop.inputs.index_select(0, indices), loop.targets[indices])
        pipe.send(time.process_time() - started)


def bare_evaluation(model: nn.Module, inputs: Tensor, targets: Tensor, size: int) -> Any:
    """Return loss and accuracy of a model over a test set."""
    loss, right = 0.0, 0
    with torch.no_grad():
        for x, y in zip(inputs.split(size), targets.split(size), strict=True):
            outputs = model(x.contiguous(memory_format=torch.channels_last))
            loss += float(F.cross_entropy(outputs, y, reduction="sum"))
            right += int((outputs.argmax(1) == y).sum())
    return loss / len(inputs), right / len(inputs)
