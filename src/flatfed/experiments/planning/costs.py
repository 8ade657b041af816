"""What a method costs, counted on a tiny run rather than declared, so that it cannot be out of date."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from flatfed.core.configuration.config import parameters
from flatfed.core.configuration.settings import Settings
from flatfed.core.method.algorithm import Algorithm, ClientOptimiser, client_slots
from flatfed.core.method.engine import Jobs, Reply
from flatfed.core.method.messages import Message
from flatfed.core.method.state import Slots
from flatfed.core.round.exchange import ENVELOPE_DOWN, ENVELOPE_UP
from flatfed.core.round.sampling import Uniform
from flatfed.core.task.task import Task
from flatfed.engines.in_process import InProcessEngine
from flatfed.experiments.planning.plan import Plan

# A vector so long that a few scalars can be told from one by their bytes.
INPUTS, OUTPUTS, EXAMPLES = 64, 4, 4
VECTOR = 8 * (INPUTS + 1) * OUTPUTS
SCALARS = VECTOR // 4
"""Fewer bytes than this, per client and exchange, are scalars."""


@dataclass(frozen=True)
class Costs:
    """A method's costs from its second round on: vectors are model-sized, per client and round."""

    down: int
    up: int
    exchanges: int
    client_state: tuple[str, ...]
    server_state: tuple[str, ...]
    records: tuple[str, ...]
    backprops: int
    """Per local step, over all exchanges."""
    passes: int
    """Full passes over the client's examples besides the local steps, per round."""
    forwards: int
    """Forward passes without a backward one, per local step."""
    takes_optimiser: bool
    uniform: bool

    @property
    def compute(self) -> str:
        """Backprops and what comes on top, in words."""
        forward = ["forward pass"] if self.forwards else []
        full = ["full batch per round"] if self.passes else []
        return " + ".join([str(self.backprops), *forward, *full])


def costs(algorithm: Algorithm) -> Costs:
    """Count what a method exchanges, keeps and computes, on a run of two rounds with one and with two local steps."""
    one, two = _Probe(algorithm, 1), _Probe(algorithm, 2)
    # What a second step adds is the cost of a step; the rest comes once per round.
    per_step = two.backprops - one.backprops
    return Costs(
        down=_vectors(one.bytes_down - ENVELOPE_DOWN * one.exchanges),
        up=_vectors(one.bytes_up - ENVELOPE_UP * one.exchanges),
        exchanges=one.exchanges,
        client_state=_names(client_slots(algorithm)),
        server_state=_names(algorithm.server_state()),
        records=_names(algorithm.records()),
        backprops=per_step,
        passes=one.backprops - per_step,
        forwards=(two.forwards - two.backprops) - (one.forwards - one.backprops),
        takes_optimiser="client_opt" in parameters(type(algorithm)),
        uniform=algorithm.uniform,
    )


def optimiser_backprops(optimiser: ClientOptimiser) -> int:
    """Return the backprops per local step of a client optimiser."""
    return costs(Algorithm.registry.make("fedavg", client_opt=optimiser)).backprops


def _vectors(count: int) -> int:
    vectors, rest = divmod(count, VECTOR)
    if rest > SCALARS:
        raise AssertionError(f"{rest} bytes are neither vectors nor a few scalars")
    return vectors


def _names(slots: Slots) -> tuple[str, ...]:
    """Return the model-sized entries."""
    return tuple(name for name, slot in slots.items() if slot.kind == "vector" or slot.of == "vector")


class _Counting(nn.Linear):
    """A linear model that counts its forward passes."""

    passes = 0

    def forward(self, inputs: Tensor) -> Tensor:
        """Count and compute."""
        # On the class: the engine trains a copy of the model.
        _Counting.passes += 1
        return super().forward(inputs)


class _CountingEngine(InProcessEngine):
    """An engine that counts its exchanges."""

    exchanges = 0

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        """Count and run."""
        self.exchanges += 1
        return super().exchange(message, jobs)


class _Probe:
    """What the second round of a tiny run with one client exchanges and runs."""

    def __init__(self, algorithm: Algorithm, steps: int) -> None:
        generator = torch.Generator().manual_seed(0)
        data = torch.randn(EXAMPLES, INPUTS, generator=generator), torch.arange(EXAMPLES) % OUTPUTS
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = _Counting(INPUTS, OUTPUTS)
        task = Task(model, [data])
        settings = Settings(rounds=2, lr=0.01, batch_size=None, local_epochs=steps, dtype="float64")
        engine = _CountingEngine(task, algorithm, settings)
        federation = Plan(task, algorithm, settings, Uniform(1), workers=0).federation(engine)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rounds = federation.rounds()
            # The first round may be another one: FedGF, say, has no earlier model to send in it.
            next(rounds)
            before, engine.exchanges = _Counting.passes, 0
            row = next(rounds)
        self.forwards = _Counting.passes - before
        self.backprops, self.bytes_down, self.bytes_up = row["backprops"], row["bytes_down"], row["bytes_up"]
        self.exchanges = engine.exchanges
