"""Training settings: everything about a run that is neither the task nor the method."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch

from flatfed.core.configuration.config import Config, Count, Index, Momentum, NonNegative, Positive, Range
from flatfed.core.errors import ConfigError

LAST = 100
"""The papers evaluate each of their last 100 rounds."""

DTYPES = {"float32": torch.float32, "float64": torch.float64}


class Settings(Config):
    """The settings of `train`, checked and serialisable; `lr`, `weight_decay`, `momentum` and `clip` may be courses.

    Args:
        rounds: number of communication rounds.
        lr: client learning rate of round 0.
        batch_size: examples a step; None is the full batch, one step per local epoch, without a shuffle.
        local_epochs: passes over a client's data in a round.
        weight_decay: L2 decay, added to the direction at the unperturbed weights.
        momentum: client momentum; its buffer starts at zero in every round.
        lr_decay: factor on the learning rate after every round.
        clip: bound on the norm of the direction, before weight decay.
        weighting: `samples` weights clients by their number of examples, `uniform` equally.
        seed: key of every draw.
        dtype: `float32` or `float64`.
        every: evaluate after every so many rounds.
        last: evaluate also after each of the last so many rounds, and average accuracy over them; None evaluates
            the last 100 and averages over the last tenth of the rounds, at most 100.
        min_replies: a round with fewer good replies is retried with a new cohort ...
        retries: ... so many times, then the run stops.
        max_update_norm: a reply that lies further than this from the model sent is refused.
        eval_stats: where BatchNorm's statistics come from in evaluation; None is `running`, or `batch-stats` where
            statistics stay on the clients.
        device: where clients compute: `cpu`, `cuda`, `cuda:1`, `mps`; server and messages stay in main memory.
        batched: train clients in lockstep, many at a time; None does so where it can and wins, by a rule on the task.
    """

    courses: ClassVar[bool | frozenset[str]] = frozenset({"lr", "weight_decay", "momentum", "clip"})

    rounds: Count
    lr: NonNegative
    batch_size: Count | None = 64
    local_epochs: Count = 1
    weight_decay: NonNegative = 4e-4
    momentum: Momentum = 0.0
    lr_decay: Annotated[float, Range(low=0.0, open_low=True, high=1.0)] = 1.0
    clip: Positive | None = None
    weighting: Literal["samples", "uniform"] = "samples"
    seed: int = 0
    dtype: Literal["float32", "float64"] = "float32"
    every: Count = 10
    last: Index | None = None
    min_replies: Count = 1
    retries: Index = 2
    max_update_norm: Positive | None = None
    eval_stats: Literal["running", "batch-stats", "recalibrate"] | None = None
    batched: bool | None = None
    device: str = "cpu"

    @property
    def torch_dtype(self) -> torch.dtype:
        """The training type."""
        return DTYPES[self.dtype]

    def decayed_lr(self, round: int) -> float:
        """Return the learning rate of a round (from 0), before an average changes it."""
        return self.at(round).lr * self.lr_decay**round

    def evaluates(self, round: int) -> bool:
        """Say whether the model is evaluated after this round: every n, each of the last ones, and the final."""
        last = LAST if self.last is None else max(self.last, 1)
        return (round + 1) % self.every == 0 or round >= self.rounds - last


def averaged_rounds(rounds: int, last: int | None) -> int:
    """Return over how many of the last rounds accuracy is averaged: `last`, or a tenth of them, at most 100."""
    return max(1, min(LAST, rounds // 10) if last is None else last)


def dtype_name(dtype: torch.dtype | str) -> Literal["float32", "float64"]:
    """Return the name of a training type, or an error."""
    match dtype:
        case torch.float32 | "float32":
            return "float32"
        case torch.float64 | "float64":
            return "float64"
    raise ConfigError(f"dtype must be torch.float32 or torch.float64, not {dtype}")
