"""Validation: examples of the clients that are held out of training, so that nothing is selected on test data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from flatfed.core.errors import PARAMETER, ConfigError
from flatfed.core.randomness import key
from flatfed.core.task.examples import Examples, JoinedExamples, PartExamples, Partition, TensorExamples
from flatfed.core.task.structures import joined, taken
from flatfed.core.task.task import VALIDATION, Task

Split = Literal["client", "global"]
Names = Sequence[tuple[int, ...]]
"""What an example is known by, whatever else there is."""


@dataclass(frozen=True)
class HeldOut:
    """A share of the training examples: of each client's, or of all together."""

    share: float
    split: Split = "client"

    def __post_init__(self) -> None:
        check_share(self.share)
        if self.split not in get_args(Split):
            raise ConfigError(
                f"{PARAMETER} must be one of {', '.join(map(repr, get_args(Split)))}, not {self.split!r}",
                parameter="validation_split",
            )

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return {"share": self.share, "split": self.split}


def check_share(share: Any) -> None:
    """Refuse what is no share."""
    is_number = isinstance(share, int | float) and not isinstance(share, bool)
    if not is_number or not 0 < share < 1:
        raise ConfigError(f"{PARAMETER} must be between 0 and 1, not {share!r:.40}", parameter=VALIDATION)


def with_validation(task: Task, validation: Any, split: Split = "client") -> tuple[Task, HeldOut | None]:
    """Return the task with a validation set: a share that is held out, or examples of one's own; None is neither."""
    if validation is None:
        return task, None
    if VALIDATION in task.tests:
        raise ConfigError(f"the task has a validation set already; leave out {PARAMETER}", parameter=VALIDATION)
    if not isinstance(validation, int | float):
        return replace(task, tests={**task.tests, VALIDATION: validation}), None
    rule = HeldOut(validation, split)
    return hold_out(task, rule), rule


def hold_out(task: Task, rule: HeldOut) -> Task:
    """Return the task whose clients have given up some of their examples for validation."""
    if not task.holds_examples:
        raise ConfigError(
            f"{PARAMETER}: the clients' examples are not here, so none can be held out; give examples that are here, "
            "as a pair of tensors",
            parameter=VALIDATION,
        )
    task = task.apart()
    positions = held_positions([_names(task, client) for client in range(task.population)], rule.share, rule.split)
    if isinstance(task.clients, Partition):
        return _of_partition(task, task.clients, positions)
    pairs = [_parted(task.examples(client), held) for client, held in enumerate(positions)]
    return _with(task, [left for left, _ in pairs], [held for _, held in pairs if len(held)])


def held_positions(names: Sequence[Names], share: float, split: Split) -> list[Tensor]:
    """Return the positions of the examples of each client that are held out; each client keeps one.

    The draws are keyed by the examples' names alone, not by the seed: all runs have the same validation set.
    """
    keys = [[key(0, VALIDATION, *name) for name in client] for client in names]
    chosen = _of_each(keys, share) if split == "client" else _of_all(keys, share)
    if not any(chosen):
        what = "no client's examples" if split == "client" else "all examples"
        raise ConfigError(f"{PARAMETER}: {share:g} of {what} is not one; give more", parameter=VALIDATION)
    return [torch.tensor(sorted(positions), dtype=torch.int64) for positions in chosen]


def _of_each(keys: Sequence[Sequence[int]], share: float) -> list[list[int]]:
    chosen: list[list[int]] = []
    for client in keys:
        count = min(round(share * len(client)), max(len(client) - 1, 0))
        chosen.append(sorted(range(len(client)), key=client.__getitem__)[:count])
    return chosen


def _of_all(keys: Sequence[Sequence[int]], share: float) -> list[list[int]]:
    """Choose among all examples at once: a client may give many or none, but never all."""
    every = [(value, client, place) for client, own in enumerate(keys) for place, value in enumerate(own)]
    wanted = round(share * len(every))
    chosen: list[list[int]] = [[] for _ in keys]
    for _, client, place in sorted(every):
        if wanted and len(chosen[client]) < len(keys[client]) - 1:
            chosen[client].append(place)
            wanted -= 1
    return chosen


def _names(task: Task, client: int) -> Names:
    """Return what a client's examples are known by: their numbers in the pool, or the client's and their places."""
    if isinstance(task.clients, Partition):
        return [(number,) for number in task.clients.parts[client].tolist()]
    return [(client, place) for place in range(task.samples(client))]


def _of_partition(task: Task, clients: Partition, positions: Sequence[Tensor]) -> Task:
    left = [part[_others(len(part), held)] for part, held in zip(clients.parts, positions, strict=True)]
    held = torch.cat([part[held] for part, held in zip(clients.parts, positions, strict=True)])
    is_trained_on = torch.isin(held, torch.cat(left))
    if is_trained_on.any() or len(torch.unique(held)) < len(held):
        # Clients share some: what one of them keeps, all keep.
        held = torch.unique(held[~is_trained_on])
        left = [part[~torch.isin(part, held)] for part in clients.parts]
    examples: Examples = PartExamples(clients.pool, held)
    if isinstance(clients.pool, TensorExamples) and task.origin is None:
        examples = _rows(clients.pool, held)
    return replace(task, clients=Partition.over(clients.pool, left), tests={**task.tests, VALIDATION: examples})


def _parted(examples: Examples, held: Tensor) -> tuple[Examples, Examples]:
    """Return what is left, and what is held out; tensors stay tensors, so that a run directory can hold them."""
    parts = PartExamples(examples, _others(len(examples), held)), PartExamples(examples, held)
    if not isinstance(examples, TensorExamples):
        return parts
    left, out = (_rows(examples, part.part) for part in parts)
    return left, out


def _rows(examples: TensorExamples, chosen: Tensor) -> TensorExamples:
    """Return some examples; rows of different length stay so, to be filled up batch by batch."""
    return TensorExamples(taken(examples.inputs, chosen), taken(examples.targets, chosen))


def _others(count: int, held: Tensor) -> Tensor:
    is_left = torch.ones(count, dtype=torch.bool)
    is_left[held] = False
    return is_left.nonzero().flatten()


def _with(task: Task, clients: Sequence[Examples], held: Sequence[Examples]) -> Task:
    tensors = [examples for examples in held if isinstance(examples, TensorExamples)]
    if len(tensors) < len(held):
        return replace(task, clients=clients, tests={**task.tests, VALIDATION: JoinedExamples(held)})
    inputs, targets = zip(*((own.inputs, own.targets) for own in tensors), strict=True)
    try:
        together = TensorExamples(joined(inputs), joined(targets))
    except (RuntimeError, ValueError) as error:
        raise ConfigError(
            f"{PARAMETER}: the clients' examples differ in form: {error}", parameter=VALIDATION
        ) from error
    return replace(task, clients=clients, tests={**task.tests, VALIDATION: together})
