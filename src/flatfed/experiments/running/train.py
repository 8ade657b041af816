"""`train`: run a method on a task, in a run directory or in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import torch

from flatfed.algorithms.spelling import parse_method
from flatfed.core.configuration.config import Course, build
from flatfed.core.configuration.settings import Settings, dtype_name
from flatfed.core.errors import ConfigError
from flatfed.core.evaluation.statistics import Statistics
from flatfed.core.method.algorithm import Algorithm, Average
from flatfed.core.round.sampling import Sampler, as_sampler
from flatfed.core.task.task import Task
from flatfed.experiments.running.plan import Plan, kept_rounds
from flatfed.experiments.running.play import play
from flatfed.experiments.running.run import Run
from flatfed.experiments.spelling.measurements import WATCHED, parse_watch
from flatfed.machine.cores import worker_count
from flatfed.runs.history import Row


def train(
    task: Task,
    algorithm: Algorithm | str,
    *,
    rounds: int,
    sampling: int | Sampler,
    lr: float | Course,
    batch_size: int | None = 64,
    local_epochs: int = 1,
    weight_decay: float | Course = 4e-4,
    momentum: float | Course = 0.0,
    lr_decay: float = 1.0,
    clip: float | Course | None = None,
    weighting: Literal["samples", "uniform"] = "samples",
    seed: int = 0,
    dtype: torch.dtype | str = torch.float32,
    workers: int | Literal["auto"] = "auto",
    out: str | Path | None = None,
    average: Average | None = None,
    every: int = 10,
    last: int | None = None,
    min_replies: int = 1,
    retries: int = 2,
    max_update_norm: float | None = None,
    eval_stats: Statistics | None = None,
    batched: bool | None = None,
    device: str = "cpu",
    checkpoint_every: int | None = None,
    keep_checkpoints: Sequence[int] = (),
    watch: str | None = None,
    watch_data: str = "train",
    watch_samples: int | None = WATCHED,
    on_round: Callable[[Row], None] | None = None,
) -> Run:
    """Train `task` with `algorithm` and return the run.

    Args:
        task: what is learnt.
        algorithm: the method, from `ff.make(id, ...)` or its class, or a spelling such as `"fedgloss+sam+swa"`.
        rounds: number of rounds.
        sampling: number of clients a round (uniform without replacement), `ff.Bernoulli` or `ff.Schedule`.
        lr: client learning rate: like weight_decay, momentum and clip a number or a course, `ff.Cosine(0.1, 0.01, 500)`
        batch_size: examples a step; None is the full batch, one step per local epoch, no shuffling.
        local_epochs: passes over a client's data in a round.
        weight_decay: L2 decay at the unperturbed weights.
        momentum: client momentum, reset every round.
        lr_decay: factor on `lr` after every round.
        clip: bound on the norm of the direction.
        weighting: `"samples"` or `"uniform"`.
        seed: key of every draw.
        dtype: `torch.float32` or `torch.float64`.
        workers: worker processes; 0 runs in this one, `"auto"` is the number of usable cores.
        out: run directory to make; None keeps everything in memory.
        average: `ff.SWA(...)` or another average of global models.
        every: evaluate after every so many rounds.
        last: evaluate also after each of the last so many, and average accuracy over them; by default the last 100
            are evaluated and the last tenth of the rounds (at most 100) is averaged.
        min_replies: good replies that a round needs; with fewer it is tried again with another cohort
        retries: so many times.
        max_update_norm: refuse replies further than this from the model sent.
        eval_stats: where BatchNorm's statistics come from in evaluation: `"running"`, `"batch-stats"` (each test
            batch's own) or `"recalibrate"` (estimated anew on training examples); by default running, or batch-stats
            where statistics stay on the clients.
        batched: train clients in lockstep, many at a time; by default where it can and wins, by a rule on the task
            alone. The results agree to rounding.
        device: where clients compute: `"cpu"`, `"cuda"` (several in turn among the workers), `"cuda:1"`, `"mps"`.
        checkpoint_every: save after every so many rounds (default: about every 30 seconds, and at the end).
        keep_checkpoints: rounds after which a checkpoint is written and never removed: `(400, 800)`.
        watch: measurements of the evaluated model while it trains, `"lambda_max:50,lpf:100"` (every 50 and 100 rounds),
            into the rows' `watch`; they change nothing else.
        watch_data: over which examples: all clients' (`"train"`) or a test set's,
        watch_samples: at most so many of them, drawn once; None is all.
        on_round: called with each history row.
    """
    if not isinstance(task, Task):
        raise ConfigError(f"task must be an ff.Task, not {type(task).__name__}")
    algorithm, average = _method(algorithm, average)
    given = {
        "rounds": rounds,
        "lr": lr,
        "batch_size": batch_size,
        "local_epochs": local_epochs,
        "weight_decay": weight_decay,
        "momentum": momentum,
        "lr_decay": lr_decay,
        "clip": clip,
        "weighting": weighting,
        "seed": seed,
        "dtype": dtype_name(dtype),
        "every": every,
        "last": last,
        "min_replies": min_replies,
        "retries": retries,
        "max_update_norm": max_update_norm,
        "eval_stats": eval_stats,
        "batched": batched,
        "device": device,
    }
    settings = build(Settings, given)
    if out is not None and not algorithm.id:
        name = type(algorithm).__name__
        raise ConfigError(f'{name} has no id, so its run could not be resumed; write class {name}(..., id="my-method")')
    worker_count(workers)
    sampler = as_sampler(sampling)
    monitors = parse_watch(watch, watch_data, watch_samples)
    plan = Plan(
        task,
        algorithm,
        settings,
        sampler,
        average,
        workers,
        checkpoint_every,
        watch=monitors,
        keep_checkpoints=kept_rounds(keep_checkpoints),
    )
    plan.check()
    return play(plan, Path(out) if out is not None else None, on_round)


def _method(algorithm: Algorithm | str, average: Average | None) -> tuple[Algorithm, Average | None]:
    """Return the algorithm and the average, which a spelling names both."""
    if average is not None and not isinstance(average, Average):
        raise ConfigError(f"average must be ff.SWA(...) or another average, not {average!r:.60}")
    if isinstance(algorithm, str):
        named = parse_method(algorithm)
        if named.average is not None and average is not None:
            raise ConfigError(
                f"{algorithm!r} names an average, and average={average!r:.60} is set; give one of the two"
            )
        return named.algorithm, named.average or average
    if not isinstance(algorithm, Algorithm):
        raise ConfigError(f"algorithm must come from ff.make(id, ...) or be a spelling, not {algorithm!r:.60}")
    return algorithm, average
