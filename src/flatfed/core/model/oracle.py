"""The gradient oracle: one forward and backward at any point, counted where it really runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from flatfed.core.model.devices import CPU, place
from flatfed.core.model.full_space import FullSpace
from flatfed.core.model.layout import Layout
from flatfed.core.task.structures import Batch, Structure, call, mapped
from flatfed.core.task.task import Task

T = TypeVar("T")
BufferCopy = tuple[dict[str, Tensor | None], str, Tensor | None]


class ClientOracle(Protocol):
    """What a client sees of an oracle, whether it is trained alone or with others at once."""

    task: Task
    layout: Layout
    device: torch.device
    w: Tensor
    is_weight: Tensor
    backprops: int

    def batch(self, inputs: Structure, targets: Structure) -> Batch:
        """Return raw examples as model and loss take them."""
        ...

    def placed(self, inputs: Structure, targets: Structure) -> Batch:
        """Return raw examples on the device."""
        ...

    def typed(self, inputs: Structure, targets: Structure) -> Batch:
        """Return prepared examples in the training type."""
        ...

    def gradient(
        self,
        inputs: Structure,
        targets: Structure,
        at: Tensor | None = None,
        plus: Callable[[Any], Tensor] | None = None,
        still: bool = False,
        moved: Tensor | None = None,
    ) -> tuple[Tensor, float]:
        """Return the gradient of `loss + plus(outputs)` and the value of `loss`, counted."""
        ...

    def gradient_in_full_space(
        self, inputs: Structure, targets: Structure, at: Tensor | None = None, still: bool = False
    ) -> tuple[Tensor, float]:
        """Return the gradient by all weights that the model computes with, and the value of the loss, counted."""
        ...

    def outputs(self, inputs: Structure, at: Tensor | None = None) -> Any:
        """Return the model's outputs, without a gradient."""
        ...

    def takes_steps(self, descent: Any) -> bool:
        """Take the local steps of the client (a `Descent`) with those of others; say whether that could be done."""
        ...


class GradientMemory:
    """Two vectors that gradients come to lie in, in turns, without a copy.

    Attributes:
        parameters: what the gradients are taken by, in the order of the layout.
    """

    def __init__(self, layout: Layout, model: nn.Module, like: Tensor) -> None:
        named = dict(model.named_parameters())
        self.parameters = [named[segment.name] for segment in layout.parameters]
        self._flat = [torch.zeros(layout.size, dtype=like.dtype, device=like.device) for _ in range(2)]
        self._views = [[segment.view(flat) for segment in layout.parameters] for flat in self._flat]
        self._turn = 0

    def next(self) -> Tensor:
        """Return the vector, all zero, that the next backward pass adds into."""
        self._turn ^= 1
        flat = self._flat[self._turn].zero_()
        # A backward pass adds into gradients that are there, so they come to lie in the flat vector without a copy.
        for parameter, view in zip(self.parameters, self._views[self._turn], strict=True):
            parameter.grad = view
        return flat

    def turn_back(self) -> None:
        """Let the next gradient come to lie where the last one is: the pass is repeated."""
        self._turn ^= 1


class Oracle:
    """One model, its flat parameters `w`, and gradients of the task's loss.

    Gradients live in two alternating buffers: a returned gradient stays valid during the next call and is
    overwritten by the one after it. That is what a two-pass step (SAM) needs, without a copy.
    """

    def __init__(self, task: Task, dtype: torch.dtype, device: torch.device = CPU) -> None:
        self.task, self.dtype, self.device = task, dtype, device
        self.layout = task.layout()
        self.model = task.fresh_model(dtype).to(device)
        # Another way through the same model where it is trained in mixed precision, or compiled.
        self.forward: Callable[..., Any] = self.model
        self._seed: Tensor | None = None
        self.w = self.layout.bind(self.model)
        self.initial_buffers = self.layout.read_buffers(self.model, dtype)
        # All buffers, also those that take no part in the federation: a module may change them as it trains.
        self._initial = self._copied_buffers()
        self.is_weight = self.layout.weight_mask().to(device)
        self.backprops = 0
        self._here = self.w
        self._gradients = GradientMemory(self.layout, self.model, self.w)
        self._parameters = self._gradients.parameters
        self._channels_last = any(segment.channels_last for segment in self.layout.parameters)

    def batch(self, inputs: Structure, targets: Structure) -> Batch:
        """Return raw examples as model and loss take them: prepared, in the training type, images channels-last."""
        inputs, targets = self.placed(inputs, targets)
        return self.typed(self.task.prepare(inputs) if self.task.prepare is not None else inputs, targets)

    def placed(self, inputs: Structure, targets: Structure) -> Batch:
        """Return raw examples on the device: they are smallest before they are prepared."""
        if self.device is CPU:
            return inputs, targets
        return mapped(self._place, inputs), mapped(self._place, targets)

    def _place(self, values: Tensor) -> Tensor:
        return place(values, self.device)

    def prepared(self, inputs: Structure) -> Structure:
        """Return raw inputs as the model takes them."""
        return self.batch(inputs, torch.empty(0))[0]

    def typed(self, inputs: Structure, targets: Structure) -> Batch:
        """Return prepared examples in the training type, images channels-last."""
        return mapped(self._as_input, inputs), mapped(self._real, targets)

    def _as_input(self, values: Tensor) -> Tensor:
        x = self._real(values)
        if self._channels_last and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        return x

    def _real(self, values: Tensor) -> Tensor:
        """Return real numbers in the training type; whole ones, such as classes or words, as they are."""
        return values.to(self.dtype) if values.is_floating_point() else values

    def gradient(
        self,
        inputs: Structure,
        targets: Structure,
        at: Tensor | None = None,
        plus: Callable[[Any], Tensor] | None = None,
        still: bool = False,
        moved: Tensor | None = None,
    ) -> tuple[Tensor, float]:
        """Return the gradient of `loss + plus(outputs)` and the value of `loss`.

        `at` evaluates at another point and puts `w` back exactly, and so does `moved`, by which all weights of the full
        space are moved. When `still`, buffers such as BatchNorm statistics are not moved.
        """
        if at is None and moved is None and not still:
            return self._backward(inputs, targets, plus)
        return self._elsewhere(at, lambda: self._moved_backward(moved, inputs, targets, plus), still)

    def gradient_in_full_space(
        self, inputs: Structure, targets: Structure, at: Tensor | None = None, still: bool = False
    ) -> tuple[Tensor, float]:
        """Return the gradient by all weights that the model computes with, trained or not, and the loss's value.

        It lies in memory of its own, which the call after the next overwrites.
        """
        trained, self._gradients = self._gradients, self._full_gradients
        try:
            with self._full_space.freed():
                return self.gradient(inputs, targets, at, still=still)
        finally:
            self._gradients = trained

    @functools.cached_property
    def _full_space(self) -> FullSpace:
        return FullSpace(self.model)

    @functools.cached_property
    def _full_gradients(self) -> GradientMemory:
        return GradientMemory(self._full_space.layout, self.model, self.w)

    def outputs(self, inputs: Structure, at: Tensor | None = None) -> Any:
        """Return the model's outputs (at another point), without a gradient and without moving buffers."""

        def forward() -> Any:
            with torch.no_grad():
                return call(self.forward, inputs)

        return self._elsewhere(at, forward, still=True)

    def watched(self) -> dict[str, float]:
        """Return numbers about the passes of a client that its history shows."""
        return {}

    def takes_steps(self, descent: Any) -> bool:
        """Leave the steps to the client: it is alone."""
        return False

    def _backward(
        self, inputs: Structure, targets: Structure, plus: Callable[[Any], Tensor] | None
    ) -> tuple[Tensor, float]:
        flat = self._gradients.next()
        outputs = call(self.forward, inputs)
        loss = self.task.criterion(outputs, targets)
        (loss if plus is None else loss + plus(outputs)).backward(self._seed)  # type: ignore[no-untyped-call]
        self.backprops += 1
        return flat, float(loss.detach())

    def _moved_backward(
        self,
        moved: Tensor | None,
        inputs: Structure,
        targets: Structure,
        plus: Callable[[Any], Tensor] | None,
    ) -> tuple[Tensor, float]:
        """Go forward and backward, with all weights of the full space moved where that is asked for."""
        if moved is None:
            return self._backward(inputs, targets, plus)
        with self._full_space.moved(moved):
            return self._backward(inputs, targets, plus)

    def _elsewhere(self, at: Tensor | None, work: Callable[[], T], still: bool) -> T:
        """Do `work` with the model at another point; weights and, when `still`, buffers come back bit for bit."""
        # Back to where it was and not to `w`: a call may come from inside another one (a `plus` that wants outputs).
        buffers, here = self._copied_buffers() if still else [], self._here
        if at is not None:
            self._go(at)
        try:
            return work()
        finally:
            if at is not None:
                self._go(here)
            self._put_buffers(buffers)

    def _go(self, point: Tensor) -> None:
        """Let the model's parameters be views of another vector: nothing is copied."""
        self._here = point.contiguous()
        for parameter, segment in zip(self._parameters, self.layout.parameters, strict=True):
            parameter.data = segment.view(self._here)

    def reset_buffers(self) -> None:
        """Put every buffer back to its first value: nothing may pass from one client to the next through the model."""
        self._put_buffers(self._initial)

    def _copied_buffers(self) -> list[BufferCopy]:
        """Return a copy of every buffer, with the place it belongs to; a module may make some on the way."""
        homes = [module._buffers for module in self.model.modules()]
        return [(home, name, _cloned(buffer)) for home in homes for name, buffer in home.items()]

    def _put_buffers(self, copies: list[BufferCopy]) -> None:
        for home, name, value in copies:
            now = home[name]
            if now is not None and value is not None and now.shape == value.shape:
                now.copy_(value)
            else:  # a module has made it, removed it or given it another shape since
                home[name] = _cloned(value)


def _cloned(buffer: Tensor | None) -> Tensor | None:
    return None if buffer is None else buffer.clone()
