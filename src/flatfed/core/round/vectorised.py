"""Vectorised clients: small models are trained many at a time, each client's own code left as it is.

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
from typing import Any, NamedTuple, TypeVar

import torch
from greenlet import getcurrent, greenlet
from torch import Tensor

from flatfed.core.method.client import Descent
from flatfed.core.model.oracle import Oracle
from flatfed.core.model.stacked import Plus, StackedModel, write_gradients
from flatfed.core.round.row_wise import NotRowWise, NotTogether, usual_modes
from flatfed.core.round.stacked_steps import take_steps_together
from flatfed.core.task.structures import Batch, Structure, form, joined

T = TypeVar("T")
NO_TARGETS = torch.empty(0)

LARGEST_GROUP = 16
ALIGN = 16
"""Entries that a client's row is rounded up to: rows then begin where vector instructions want them."""


def group_sizes(clients: int) -> list[int]:
    """Return how many clients go together: at most 16, and up to four groups, for as many workers to share.

    It depends on nothing but the number of clients, so that results do not depend on the machine.
    """
    groups = max(1, min(4, clients // 4), -(-clients // LARGEST_GROUP))
    ends = [clients * number // groups for number in range(groups + 1)]
    return [end - first for first, end in itertools.pairwise(ends) if end > first]


@dataclass(eq=False, slots=True)
class GradientRequest:
    """What a client waits for: the gradient of its batch, or with `wanted="outputs"` the outputs alone."""

    oracle: SharedOracle
    wanted: str
    inputs: Structure
    targets: Structure
    at: Tensor | None
    plus: Plus | None = None
    moved: Tensor | None = None

    @property
    def kind(self) -> tuple[Any, ...]:
        """Requests of one kind are answered together."""
        return self.wanted, form(self.inputs), form(self.targets)

    @property
    def point(self) -> Tensor:
        """The parameters at which it is asked."""
        return self.oracle.w if self.at is None else self.at


class StepsRequest(NamedTuple):
    """What a client waits for: that its local steps are taken with those of the others."""

    oracle: SharedOracle
    descent: Descent

    @property
    def kind(self) -> tuple[Any, ...]:
        """All are answered together."""
        return ("steps",)


Request = GradientRequest | StepsRequest


class SharedOracle:
    """One client's place in a group: what an `Oracle` is to a client that runs alone."""

    def __init__(self, group: VectorisedClients, row: int, home: greenlet) -> None:
        alone = group.alone
        self.task, self.layout, self.is_weight = alone.task, alone.layout, alone.is_weight
        self.device = alone.device
        self.row = row
        self.w = group.w[row]
        self.gradients = [matrix[row] for matrix in group.gradients]
        self.backprops = 0
        self.turn = 0
        self._home, self._group, self._alone = home, group, alone

    def batch(self, inputs: Structure, targets: Structure) -> Batch:
        """Return raw examples as model and loss take them."""
        return self._alone.batch(inputs, targets)

    def placed(self, inputs: Structure, targets: Structure) -> Batch:
        """Return raw examples on the device."""
        return self._alone.placed(inputs, targets)

    def typed(self, inputs: Structure, targets: Structure) -> Batch:
        """Return prepared examples in the training type."""
        return self._alone.typed(inputs, targets)

    def gradient(
        self,
        inputs: Structure,
        targets: Structure,
        at: Tensor | None = None,
        plus: Callable[[Any], Tensor] | None = None,
        still: bool = False,
        moved: Tensor | None = None,
    ) -> tuple[Tensor, float]:
        """Return the gradient of `loss + plus(outputs)` and the value of `loss`, as `Oracle.gradient` does."""
        # `still` has no meaning here: a model with buffers is never stacked.
        # The turn changes before the request, as the answer is written to the row of this turn.
        self.turn ^= 1
        request = GradientRequest(self, "gradient", inputs, targets, at, plus, moved)
        # Weights that are frozen are in no row, so that such a request is answered at once, by the plain model.
        loss: float = self._ask(request) if moved is None else self._group.answer_alone(request)
        self.backprops += 1
        return self.gradients[self.turn], loss

    def gradient_in_full_space(
        self, inputs: Structure, targets: Structure, at: Tensor | None = None, still: bool = False
    ) -> tuple[Tensor, float]:
        """Return the gradient by all weights that the model computes with, by the plain model."""
        point = self.w if at is None else at
        gradient, loss = self._alone.gradient_in_full_space(inputs, targets, point, still)
        self.backprops += 1
        # A copy: the plain oracle's memory serves all clients in turn.
        return gradient.clone(), loss

    def outputs(self, inputs: Structure, at: Tensor | None = None) -> Any:
        """Return the model's outputs, without a gradient."""
        return self._ask(GradientRequest(self, "outputs", inputs, NO_TARGETS, at))

    def takes_steps(self, descent: Descent) -> bool:
        """Take a client's local steps with those of the others; say whether that could be done."""
        with usual_modes():
            return bool(self._home.switch(StepsRequest(self, descent)))

    def _ask(self, request: GradientRequest) -> Any:
        """Wait for an answer; others go on meanwhile, whatever this client has switched off or drawn for itself.

        Nothing is drawn between the keying of the global generator and a request, so keying it again is enough. A
        request from inside the answer to another (a `plus` that wants outputs) is answered at once.
        """
        if getcurrent() is self._home:
            return self._group.answer_alone(request)
        seed = torch.default_generator.initial_seed()
        # Modes of autograd belong to the thread and not to a coroutine: others must not go on in this client's.
        with usual_modes():
            answer = self._home.switch(request)
        torch.default_generator.manual_seed(seed)
        return answer


class VectorisedClients:
    """Runs groups of clients on one stacked model.

    They take their steps together too, on stacked rows, until the method turns out not to work row by row.
    """

    is_row_wise = True

    def __init__(self, alone: Oracle) -> None:
        self.alone, self._stack = alone, StackedModel(alone.task, alone.dtype, alone.device)
        width = -(-alone.layout.size // ALIGN) * ALIGN
        wide = torch.zeros(3, LARGEST_GROUP, width, dtype=alone.dtype, device=alone.device)
        self.w, *self.gradients = wide[..., : alone.layout.size].unbind()
        self._running = 0

    def run(self, works: Sequence[Callable[[SharedOracle], T]]) -> list[T]:
        """Give each of the works an oracle, answer what they ask for together, and return their results in order."""
        home, self._running = getcurrent(), len(works)
        results: dict[int, T] = {}
        # An error that a client does not catch goes to its parent, which is here.
        running = [greenlet(work, parent=home) for work in works]
        # The first "answer" starts a client: it is handed the oracle that it works with.
        answers: dict[int, Any] = {row: SharedOracle(self, row, home) for row in range(len(works))}
        try:
            while answers:
                requests = _next_requests(running, answers, results)
                early = [request for request in requests if isinstance(request, StepsRequest)]
                if early and len(early) < self._running:
                    # Others do something else: each takes its steps itself, and asks in time for its first gradient.
                    answers = {request.oracle.row: False for request in early}
                    requests = [request for request in requests if isinstance(request, GradientRequest)]
                    requests += _next_requests(running, answers, results)
                # In the order of rows: then requests come so too, and need no copies (`_points`, `_hand_out`).
                requests.sort(key=lambda request: request.oracle.row)
                answers = dict(sorted(self._answer(requests)))
        finally:
            for left in running:  # one has failed: the others end where they wait
                left.throw()
        return [results[row] for row in range(len(works))]

    def _answer(self, requests: list[Request]) -> Iterator[tuple[int, Any]]:
        """Yield each waiting row with its answer."""
        kinds = defaultdict[tuple[Any, ...], list[Any]](list)
        for request in requests:
            kinds[request.kind].append(request)
        for same in kinds.values():
            rows = [request.oracle.row for request in same]
            yield from zip(rows, self._answers_of_kind(same), strict=True)

    def _answers_of_kind(self, requests: list[Any]) -> list[Any]:
        if isinstance(requests[0], StepsRequest):
            return [self._took_steps(requests)] * len(requests)
        try:
            if len(requests) == 1:
                return [self.answer_alone(requests[0])]
            return self._answer_together(requests)
        except Exception:
            # Whose fault it is shows when each is answered alone: the error is raised in that client.
            return [self._answer_or_error(request) for request in requests]

    def _took_steps(self, requests: list[StepsRequest]) -> bool:
        """Take the steps of all clients of the group on stacked rows, where that can be done; say whether."""
        if self.is_row_wise and len(requests) == self._running:
            try:
                take_steps_together(self, requests)
                return True
            except NotRowWise:
                self.is_row_wise = False
            except NotTogether:
                pass
        return False

    def stacked_gradients(
        self, points: Tensor, inputs: Structure, targets: Structure, turn: int
    ) -> tuple[Tensor, list[float]]:
        """Return the gradients of the first rows' losses in one of the two alternating matrices, and the losses."""
        count = len(points)
        gradients, losses = self._stack.gradients(points, inputs, targets, [None] * count)
        matrix = self.gradients[turn][:count]
        write_gradients(self.alone.layout, matrix, gradients)
        return matrix, losses

    def _answer_or_error(self, request: GradientRequest) -> Any:
        try:
            return self.answer_alone(request)
        except Exception as error:
            return error

    def answer_alone(self, request: GradientRequest) -> Any:
        """Return what one client asks for, computed for it alone."""
        if request.wanted == "outputs":
            return self.alone.outputs(request.inputs, request.point)
        gradient, loss = self.alone.gradient(
            request.inputs, request.targets, request.point, request.plus, moved=request.moved
        )
        # The plain oracle's two buffers serve all clients in turn, so that one cannot keep its gradient there.
        request.oracle.gradients[request.oracle.turn].copy_(gradient)
        return loss

    def _answer_together(self, requests: list[GradientRequest]) -> list[Any]:
        inputs, points = joined([request.inputs for request in requests]), self._points(requests)
        if requests[0].wanted == "outputs":
            return self._stack.outputs(points, inputs)
        targets = joined([request.targets for request in requests])
        gradients, losses = self._stack.gradients(points, inputs, targets, [request.plus for request in requests])
        self._hand_out(requests, gradients)
        return losses

    def _hand_out(self, requests: list[GradientRequest], gradients: list[Tensor]) -> None:
        """Copy the gradients to the clients' rows, of whichever of the two alternating matrices each is at."""
        rows = [request.oracle.row for request in requests]
        turns = {request.oracle.turn for request in requests}
        if len(turns) == 1 and rows == list(range(len(rows))):  # as nearly always: one copy for all
            write_gradients(self.alone.layout, self.gradients[turns.pop()][: len(rows)], gradients)
            return
        for place, request in enumerate(requests):
            row = self.gradients[request.oracle.turn][request.oracle.row]
            for segment, gradient in zip(self.alone.layout.parameters, gradients, strict=True):
                segment.view(row).copy_(gradient[place])

    def _points(self, requests: list[GradientRequest]) -> Tensor:
        """Return the parameters at which it is asked, a client a row; without a copy where all ask where they are."""
        for place, request in enumerate(requests):
            if request.oracle.row != place or request.at is not None:
                return torch.stack([asked.point for asked in requests])
        return self.w[: len(requests)]


def _next_requests(running: Sequence[greenlet], answers: dict[int, Any], results: dict[int, Any]) -> list[Request]:
    """Let clients go on with their answers; return what they ask for next, and note the results of those that end."""
    requests: list[Request] = []
    for row, answer in answers.items():
        outcome = _go_on(running[row], answer)
        if running[row].dead:
            results[row] = outcome
        else:
            requests.append(outcome)
    return requests


def _go_on(client: greenlet, answer: Any) -> Any:
    """Let a client go on with an answer, or with the error that there was instead."""
    if isinstance(answer, Exception):
        return client.throw(answer)
    return client.switch(answer)
