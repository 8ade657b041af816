"""The local steps of a group of clients on stacked rows: one Python step for all instead of one for each.

`ClientsTogether` is to a method what a `Client` is, with a client in each row of `w`, `start`, `kept.x` and gradients.
Only the hooks of a step see it. What comes before and after (`begin`, `finish`) runs client by client. Where anything
speaks against it, nothing has happened, and the clients take their steps one by one.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

import torch
from torch import Tensor

from flatfed.core.configuration.base_optimiser import StepState
from flatfed.core.configuration.config import Config
from flatfed.core.method.algorithm import Direction, Gradient
from flatfed.core.method.client import Client
from flatfed.core.method.state import State
from flatfed.core.randomness import global_state, preserved_torch_generator, put_back_other_generators
from flatfed.core.round.row_wise import NotRowWise, NotTogether, RowWise
from flatfed.core.round.rows import RowState, memos_of, refuse_shared_memory, stacked_memo, stacked_message
from flatfed.core.task.examples import PartExamples, TensorExamples, epoch_order
from flatfed.core.task.structures import Batch, Structure, form, joined, part

if TYPE_CHECKING:
    from flatfed.core.round.vectorised import SharedOracle, StepsRequest, VectorisedClients

SAME = ("round", "exchange", "lr", "momentum", "weight_decay", "epochs", "samples", "steps", "step")
"""What must be equal for clients that step together."""
_shared_facts = operator.attrgetter(*SAME)


def take_steps_together(group: VectorisedClients, requests: Sequence[StepsRequest]) -> None:
    """Take the steps of all rows of a group, or raise `NotTogether` and leave everything as it was."""
    first = requests[0].descent
    for _, descent in requests:
        if not (_same_hook(descent.gradient, first.gradient) and _same_hook(descent.direction, first.direction)):
            raise NotTogether("their steps differ")
    together = ClientsTogether(group, requests)
    try:
        together.take_all_steps(first.gradient, first.direction)
    except BaseException:
        together.undo()
        raise


def _same_hook(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Say whether both are the same hook of the same configuration: a closure may know its client."""
    if not (inspect.ismethod(one) and inspect.ismethod(other)):
        return False
    return one.__func__ is other.__func__ and isinstance(one.__self__, Config) and one.__self__ == other.__self__


def _refuse_changed(client: Client, oracle: SharedOracle) -> None:
    """Refuse a client of which the method has replaced a part before the steps, or noted one."""
    if client.w is not oracle.w or client.is_weight is not oracle.is_weight:
        raise NotTogether("they have other weights than those that are trained")
    if not vars(client).keys().isdisjoint(vars(Client)):
        raise NotTogether("they do something else than other clients")
    received, kept = client.received.vectors.values(), client.kept.tensors().values()
    refuse_shared_memory(client.memo, [client.w, client.start, *received, *kept])


class ClientsTogether(Client):
    """Several clients in one exchange, to the hooks of a step: what is a vector of a client is a row here."""

    def __init__(self, group: VectorisedClients, requests: Sequence[StepsRequest]) -> None:
        object.__setattr__(self, "_mode", RowWise())
        self._group, self._requests = group, requests
        self._clients = [request.descent.client for request in requests]
        first = self._clients[0]
        if any(_shared_facts(client) != _shared_facts(first) for client in self._clients):
            raise NotTogether("their numbers of steps differ, or their rates")
        for client, (oracle, _) in zip(self._clients, requests, strict=True):
            _refuse_changed(client, oracle)
        for name in SAME:
            setattr(self, name, getattr(first, name))
        self.w, self.is_weight = group.w[: len(requests)], first.is_weight
        self._settings, self._oracle, self._pulse = first._settings, requests[0].oracle, self._pulse_all
        self.received, self.memo = stacked_message(self._clients), stacked_memo(self._clients)
        self._state = RowState(self._mode, [client.kept for client in self._clients], group.alone.layout.size)
        self.kept = cast(State, self._state)
        self._backprops, self._turn = 0, requests[0].oracle.turn
        self._losses: list[float] | None = None
        self._starts: Tensor | None = None
        self._rows: list[StepState] | None = None
        self._steps_held = StepState()
        self._sums, self._loss_count = [client._loss_sum for client in self._clients], first._loss_count
        self._before, self._first_step, self._drawn = self.w.clone(), self.step, global_state()

    def __setattr__(self, name: str, value: Any) -> None:
        if self._mode.is_awake:
            self._mode.refuse(f"each client has its own {name}")
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> NoReturn:
        # `id` and `watch`, for instance.
        self._mode.refuse(f"each client has its own {name}")

    def take_all_steps(self, gradient: Gradient, direction: Direction) -> None:
        """Take the local steps of all clients, and give each what is its own."""
        versions = [vector._version for vector in self.received.vectors.values()]
        self.take_steps(
            lambda client: self._mode.call(gradient, client),
            lambda client, g: self._mode.call(direction, client, g),
        )
        if [vector._version for vector in self.received.vectors.values()] != versions:
            raise NotRowWise("what was received has changed")
        if global_state() != self._drawn:
            raise NotRowWise("the method draws from a global generator")
        if self._starts is not None and self._starts._version:
            raise NotRowWise("where they began has changed")
        self._give_back()

    def undo(self) -> None:
        """Put the clients back to where they began; torch's generator is keyed for every step."""
        put_back_other_generators(self._drawn)
        self.w.copy_(self._before)
        for client in self._clients:
            client.step = self._first_step

    def _give_back(self) -> None:
        # A note of `w` or a gradient is fine: it lies in the memory that the clients have themselves.
        others = [*self._state.matrices(), *self.received.vectors.values()]
        refuse_shared_memory(self.memo, others if self._starts is None else [*others, self._starts], besides=self.w)
        memos = memos_of(self.memo, len(self._clients))
        self._state.give_back()
        for client in self._clients:
            client._keep(self._steps_held)
        for number, (client, (oracle, _)) in enumerate(zip(self._clients, self._requests, strict=True)):
            client.memo, client.step = memos[number], self.step
            client._loss_sum, client._loss_count = self._sums[number], self._loss_count
            oracle.backprops, oracle.turn = oracle.backprops + self._backprops, self._turn
            client._batch = self._part(number)
            client._step_loss = None if self._losses is None else self._losses[number]

    def _part(self, number: int) -> Batch:
        """Return a client's part of the current batch: the method may ask for a gradient on it after its steps."""
        inputs, targets = self._current()
        return part(inputs, number, len(self._clients)), part(targets, number, len(self._clients))

    # What a method sees.

    @property
    def start(self) -> Tensor:  # type: ignore[override]  # of a client it is an attribute, stacked here when asked for
        """Where the clients began, a row for each."""
        if self._starts is None:
            with self._mode.asleep():
                self._starts = torch.stack([client.start for client in self._clients])
        return self._starts

    def gradient(
        self,
        at: Tensor | None = None,
        plus: Callable[[Any], Tensor] | None = None,
        moved: Tensor | None = None,
    ) -> Tensor:
        """Return the gradients of the clients' losses on their batches, a row for each."""
        if plus is not None:
            self._mode.refuse("an addition to the loss is made for one client's outputs")
        if moved is not None:
            self._mode.refuse("weights that are frozen are those of one model")
        with self._mode.asleep():
            self._turn ^= 1
            points = self.w if at is None else at.expand_as(self.w).contiguous()
            gradients, losses = self._group.stacked_gradients(points, *self._current(), self._turn)
            self._backprops += 1
            self._losses = self._losses or losses
            return gradients

    def gradient_in_full_space(self) -> Tensor:
        """Refuse: rows are made of what is trained."""
        self._mode.refuse("the full space is that of one model")

    def outputs(self, at: Tensor | None = None) -> Any:
        """Refuse: a method takes means over a client's outputs."""
        self._mode.refuse("outputs are those of one client")

    def full_gradient(self, at: Tensor | None = None) -> Tensor:
        """Refuse: its batches are of one client."""
        self._mode.refuse("a full gradient is that of one client")

    # The steps.

    def _pulse_all(self) -> None:
        for client in self._clients:
            client._pulse()

    def _batches(self, epoch: int) -> Iterator[Tensor]:
        """Yield the clients' index batches of an epoch, a row for each; those of one pool as its indices."""
        size = self._settings.batch_size
        if size is None:
            orders = torch.arange(self.samples).expand(len(self._clients), -1)
        else:
            orders = torch.stack([epoch_order(self.samples, (*client._key, epoch)) for client in self._clients])
        if self._pool is not None:
            orders = self._pool[1].gather(1, orders)
        yield from torch.split(orders, size or self.samples, dim=1)

    @functools.cached_property
    def _pool(self) -> tuple[TensorExamples, Tensor] | None:
        """The pool that holds all clients' examples, and which are whose; None where there is none."""
        parts = [client._examples for client in self._clients]
        first = parts[0]
        if not isinstance(first, PartExamples) or type(first.pool) is not TensorExamples:
            return None
        if first.pool.is_ragged:  # one client's texts would be filled up to the length of another's
            return None
        if not all(isinstance(part, PartExamples) and part.pool is first.pool for part in parts):
            return None
        return first.pool, torch.stack([cast(PartExamples, part).part for part in parts])

    def _take(self, indices: Tensor) -> None:
        """Make the clients' examples the current batch, one client's behind the other's."""
        self._losses = None
        try:
            self._batch = self._gathered(indices)
        except Exception as error:  # whose fault it is shows when they go one by one
            raise NotTogether(str(error)) from error

    def _gathered(self, indices: Tensor) -> Batch:
        task = self._oracle.task
        if self._pool is None:
            return self._one_by_one(Client._take, [(row,) for row in indices])
        inputs, targets = self._pool[0].batch(indices.reshape(-1))
        if task.augment is None and task.prepare is None and task.batch_transform is None:
            return self._oracle.batch(inputs, targets)
        count = len(self._clients)
        parts = [(part(inputs, number, count), part(targets, number, count)) for number in range(count)]
        return self._one_by_one(Client._hold, parts)

    def _one_by_one(self, take: Callable[..., None], arguments: Sequence[tuple[Structure, ...]]) -> Batch:
        """Let each client make its own batch, and return these as one."""
        with preserved_torch_generator():
            for client, given in zip(self._clients, arguments, strict=True):
                client.step = self.step
                take(client, *given)
        batches = [client._current() for client in self._clients]
        if any((form(x), form(y)) != (form(batches[0][0]), form(batches[0][1])) for x, y in batches):
            raise NotTogether("their batches differ in form")
        return joined([x for x, _ in batches]), joined([y for _, y in batches])

    def _move(self, q: Tensor, held: StepState) -> None:
        """Step with all rows; with each alone where it has a factor of clipping, or a base optimiser, for itself."""
        if self._settings.clip is None and self._settings.base_opt.row_wise:
            super()._move(q, held)
            return
        held.steps += 1
        for client, row, own in zip(self._clients, q.expand_as(self.w), self._held_rows(held), strict=True):
            client._move(row, own)

    def _held_rows(self, held: StepState) -> list[StepState]:
        """Return what the base optimiser holds for each client: rows of what it holds for all."""
        if self._rows is None:
            rows = range(len(self._clients))
            self._rows = [StepState({name: m[row] for name, m in held.vectors.items()}, held.steps - 1) for row in rows]
        return self._rows

    def _kept_steps(self) -> int:
        steps = {client._kept_steps() for client in self._clients}
        if len(steps) > 1:
            raise NotTogether("their base optimisers have seen other numbers of steps")
        return steps.pop()

    def _keep(self, held: StepState) -> None:
        self._steps_held = held

    def _note_loss(self, examples: int) -> None:
        losses = self._losses or [0.0] * len(self._clients)
        self._sums = [total + loss * examples for total, loss in zip(self._sums, losses, strict=True)]
        self._loss_count += examples
