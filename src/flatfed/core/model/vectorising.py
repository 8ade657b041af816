"""Whether clients are vectorised: a rule on what is trained, never on the machine or the workers.

Training many at once wins where a step is so small that most of its time is spent around the arithmetic.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import ConfigError
from flatfed.core.model.devices import single_thread
from flatfed.core.model.oracle import Oracle
from flatfed.core.model.stacked import CannotStack, StackedModel, write_gradients
from flatfed.core.randomness import global_state, preserved_global_state
from flatfed.core.task.structures import Batch, Structure, joined, mapped
from flatfed.core.task.task import Task

FEWEST_CLIENTS = 8
"""Clients per round below which there would be one group only, and all workers but one would be idle."""
MOST_PARAMETERS = 250_000
MOST_WORK = 40e6
"""Floating-point operations of a step up to which training together wins with matrix products alone ..."""
MOST_WORK_WITH_CONVOLUTIONS = 10e6
"""... and with convolutions."""
CLOSE = 1e-9
LOOKED_AT = 100
"""Clients of which the one with the most examples gives the batch of a trial."""


def wins_vectorised(task: Task, settings: Settings, cohort: float) -> bool:
    """Say whether training about `cohort` clients per round together is possible, and likely to be faster."""
    if cohort < FEWEST_CLIENTS or task.layout().size > MOST_PARAMETERS:
        return False
    # After the cheap conditions, for the trial builds two models.
    if why_not_vectorised(task, settings):
        return False
    return step_work(task, settings) <= _most_work(task)


def _most_work(task: Task) -> float:
    convolves = any(isinstance(module, nn.Conv2d) for module in task.model.modules())
    return MOST_WORK_WITH_CONVOLUTIONS if convolves else MOST_WORK


def check_vectorised(task: Task, settings: Settings) -> None:
    """Refuse to train clients together where the task does not allow it."""
    why = why_not_vectorised(task, settings) if settings.vectorised else ""
    if why:
        raise ConfigError(f"vectorised: clients cannot be trained together, because {why}; leave it out")


def step_work(task: Task, settings: Settings) -> int:
    """Return the floating-point operations of a client's step: a forward and a backward pass of a batch."""
    with single_thread(), preserved_global_state():
        oracle = Oracle(task, torch.float32)
        batch = oracle.batch(*_trial_batch(task, settings))
        with FlopCounterMode(display=False) as counter:
            oracle.gradient(*batch)
    return int(counter.get_total_flops())


def why_not_vectorised(task: Task, settings: Settings) -> str:
    """Return why the clients of a task cannot be trained together; nothing where they can.

    Two clients at once, in float64, must get the losses and gradients that each gets alone.
    """
    if settings.precision != "float32" or settings.compile:
        return f"the model is {'compiled' if settings.compile else f'trained in {settings.precision}'}"
    if not task.holds_examples:
        return "the examples of the clients are not here"
    try:
        with single_thread(), preserved_global_state():
            oracle, stack = Oracle(task, torch.float64), StackedModel(task, torch.float64)
            raw = _trial_batch(task, settings)  # data sets have generators keyed for every batch
            before = global_state()
            inputs, targets = oracle.batch(*raw)
            _augment(task, *raw, oracle)
            oracle.gradient(inputs, targets)
            # One pass for all clients has one generator, so that none could have draws of its own.
            if global_state() != before:
                return "the model, its loss or its augmentation draws from a global random generator"
            same = _agree(oracle, stack, inputs, targets)
    except CannotStack as error:
        return str(error)
    except Exception as error:
        return f"the model fails there ({error})"
    return "" if same else "the model mixes the examples of a batch"


def _augment(task: Task, inputs: Structure, targets: Structure, oracle: Oracle) -> None:
    """Augment a batch as a step would, to see whether that draws from other generators than the one it is given."""
    generator = torch.Generator().manual_seed(0)
    if task.augment is not None:
        inputs = task.augment(inputs, generator)
    if task.batch_transform is not None:
        task.batch_transform(*oracle.batch(inputs, targets), generator)


def _agree(oracle: Oracle, stack: StackedModel, inputs: Structure, targets: Structure) -> bool:
    """Say whether two clients with other parameters and other inputs get the same together as alone."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(2, len(oracle.w), generator=generator, dtype=oracle.w.dtype)
    # Equal clients would agree also where the stacked model mixes them up.
    points = oracle.w + 0.1 * noise
    both = [inputs, mapped(lambda x: 0.5 * x if x.is_floating_point() else x.flip(0), inputs)]
    gradients, losses = stack.gradients(points, joined(both), joined([targets, targets]), [None, None])
    matrix = torch.zeros_like(points)
    write_gradients(stack.layout, matrix, gradients)
    for point, mine, row, loss in zip(points, both, matrix, losses, strict=True):
        gradient, alone = oracle.gradient(mine, targets, at=point)
        largest = float(gradient.abs().max())
        # Relative to the largest entry: small ones may be the differences of large sums.
        if not torch.allclose(gradient, row, rtol=CLOSE, atol=CLOSE * largest):
            return False
        if abs(loss - alone) > CLOSE * max(1.0, abs(alone)):
            return False
    return True


def _trial_batch(task: Task, settings: Settings) -> Batch:
    """Return raw examples of one client: a batch as a step would take it."""
    examples = task.examples(client_with_examples(task))
    count = len(examples)
    size = count if settings.batch_size is None else min(settings.batch_size, count)
    return examples.batch(torch.arange(size))


def client_with_examples(task: Task) -> int:
    """Return the client with the most examples among the first ones, or any that has some."""
    largest = max(range(min(LOOKED_AT, task.population)), key=lambda client: task.samples(client))
    if task.samples(largest):
        return largest
    return next(client for client in range(task.population) if task.samples(client))
