"""Clients in lockstep: small models are trained many at a time, each client's own code left as it is.

Every client runs in a coroutine of its own. Where it asks for a gradient it is set aside; when all of a group wait, one
stacked computation answers them together, and each goes on. What a method does between two gradients is not touched,
so every method can be run this way, and the randomness is the same: only sums inside the layers may be ordered
differently from a client that runs alone.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from greenlet import getcurrent, greenlet
from torch import Tensor

from flatfed.core.model.oracle import Oracle
from flatfed.core.model.stacked import Plus, StackedModel, write_gradients

T = TypeVar("T")

LARGEST_GROUP = 16
ALIGN = 16


def group_sizes(clients: int) -> list[int]:
    """Return how many clients go together: at most 16, and up to four groups, for as many workers to share.

    It depends on nothing but the number of clients, so that results do not depend on the machine.
    """
    groups = max(1, min(4, clients // 4), -(-clients // LARGEST_GROUP))
    ends = [clients * number // groups for number in range(groups + 1)]
    return [end - first for first, end in itertools.pairwise(ends) if end > first]


@dataclass(eq=False, slots=True)
class Request:
    """What a client waits for: the gradient of its batch, or with `wanted="outputs"` the outputs alone."""

    seat: Seat
    wanted: str
    inputs: Tensor
    targets: Tensor
    at: Tensor | None
    plus: Plus | None = None

    @property
    def kind(self) -> tuple[Any, ...]:
        """Requests of one kind are answered together."""
        return self.wanted, self.inputs.shape, self.inputs.dtype, self.targets.shape

    @property
    def point(self) -> Tensor:
        """The parameters at which it is asked."""
        return self.seat.w if self.at is None else self.at


class Seat:
    """One client's place in a group: what an `Oracle` is to a client that runs alone."""

    def __init__(self, group: Lockstep, row: int, home: greenlet) -> None:
        alone = group.alone
        self.task, self.layout, self.is_weight = alone.task, alone.layout, alone.is_weight
        self.device, self.batch, self.placed, self.typed = alone.device, alone.batch, alone.placed, alone.typed
        self.row, self.w, self.gradients = row, group.w[row], [g[row] for g in group.gradients]
        self.backprops, self.turn, self._home, self._group = 0, 0, home, group

    def gradient(
        self,
        inputs: Tensor,
        targets: Tensor,
        at: Tensor | None = None,
        plus: Callable[[Any], Tensor] | None = None,
        still: bool = False,
    ) -> tuple[Tensor, float]:
        """Return the gradient of `loss + plus(outputs)` and the value of `loss`, as `Oracle.gradient` does."""
        self.turn ^= 1
        loss: float = self._ask(Request(self, "gradient", inputs, targets, at, plus))
        self.backprops += 1
        return self.gradients[self.turn], loss

    def outputs(self, inputs: Tensor, at: Tensor | None = None) -> Any:
        """Return the model's outputs, without a gradient."""
        return self._ask(Request(self, "outputs", inputs, inputs.new_empty(0), at))

    def _ask(self, request: Request) -> Any:
        """Wait for an answer; others go on meanwhile, whatever this client has switched off or drawn for itself.

        Nothing is drawn between the keying of the global generator and a request, so keying it again is enough. A
        request from inside the answer to another (a `plus` that wants outputs) is answered at once.
        """
        if getcurrent() is self._home:
            return self._group.answer_alone(request)
        seed = torch.default_generator.initial_seed()
        if torch.is_grad_enabled() and not torch.is_inference_mode_enabled():
            answer = self._home.switch(request)
        else:
            with torch.inference_mode(False), torch.enable_grad():
                answer = self._home.switch(request)
        torch.default_generator.manual_seed(seed)
        return answer


class Lockstep:
    """Runs groups of clients on one stacked model."""

    def __init__(self, alone: Oracle) -> None:
        self.alone, self._stack = alone, StackedModel(alone.task, alone.dtype, alone.device)
        width = -(-alone.layout.size // ALIGN) * ALIGN
        wide = torch.zeros(3, LARGEST_GROUP, width, dtype=alone.dtype, device=alone.device)
        self.w, *self.gradients = wide[..., : alone.layout.size].unbind()

    def run(self, works: Sequence[Callable[[Seat], T]]) -> list[T]:
        """Give each of the works a seat, answer what they ask for together, and return their results in order."""
        home, results = getcurrent(), dict[int, T]()
        running = [greenlet(work, parent=home) for work in works]
        answers: dict[int, Any] = {row: Seat(self, row, home) for row in range(len(works))}
        try:
            while answers:
                requests: list[Request] = []
                for row, answer in answers.items():
                    going_on = running[row].throw if isinstance(answer, Exception) else running[row].switch
                    told = going_on(answer)
                    if running[row].dead:
                        results[row] = told
                    else:
                        requests.append(told)
                answers = dict(sorted(self._answer(requests)))
        finally:
            for left in running:  # one has failed: the others end where they wait
                left.throw()
        return [results[row] for row in range(len(works))]

    def _answer(self, requests: list[Request]) -> Iterator[tuple[int, Any]]:
        """Yield each waiting row with its answer."""
        kinds = defaultdict[tuple[Any, ...], list[Request]](list)
        for request in requests:
            kinds[request.kind].append(request)
        for same in kinds.values():
            try:
                found = self._answer_together(same) if len(same) > 1 else [self.answer_alone(same[0])]
            except Exception:  # whose fault it is shows when each is answered alone, and is told there
                found = [self._answer_or_error(request) for request in same]
            yield from zip((request.seat.row for request in same), found, strict=True)

    def _answer_or_error(self, request: Request) -> Any:
        try:
            return self.answer_alone(request)
        except Exception as error:
            return error

    def answer_alone(self, request: Request) -> Any:
        """Return what one client asks for, computed for it alone."""
        if request.wanted == "outputs":
            return self.alone.outputs(request.inputs, request.point)
        gradient, loss = self.alone.gradient(request.inputs, request.targets, request.point, request.plus)
        request.seat.gradients[request.seat.turn].copy_(gradient)
        return loss

    def _answer_together(self, requests: list[Request]) -> list[Any]:
        inputs, points = torch.cat([request.inputs for request in requests]), self._points(requests)
        if requests[0].wanted == "outputs":
            return self._stack.outputs(points, inputs)
        targets = torch.cat([request.targets for request in requests])
        found, losses = self._stack.gradients(points, inputs, targets, [request.plus for request in requests])
        rows = [request.seat.row for request in requests]
        for turn in (0, 1):
            mine = [place for place, request in enumerate(requests) if request.seat.turn == turn]
            if len(mine) == len(rows) and rows == list(range(len(rows))):
                write_gradients(self.alone.layout, self.gradients[turn][: len(rows)], found)
            elif mine:
                self._scatter(self.gradients[turn], [rows[place] for place in mine], found, mine)
        return losses

    def _points(self, requests: list[Request]) -> Tensor:
        """Return the parameters at which it is asked, a client a row; without a copy where all ask where they are."""
        in_order = all(request.seat.row == place and request.at is None for place, request in enumerate(requests))
        return self.w[: len(requests)] if in_order else torch.stack([request.point for request in requests])

    def _scatter(self, matrix: Tensor, rows: list[int], found: list[Tensor], places: list[int]) -> None:
        for piece, gradient in zip(self.alone.layout.parameters, found, strict=True):
            for row, place in zip(rows, places, strict=True):
                piece.view(matrix[row]).copy_(gradient[place])
