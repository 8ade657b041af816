"""Mixed precision and compiled models: another forward pass of the same oracle.

Weights, gradients and steps stay float32. The forward pass runs under autocast, its outputs come back as float32, and
the loss is taken of those; the backward pass follows in the types of the forward one. With fp16 the loss is scaled, and
gradients are unscaled before anyone sees them: SAM takes norms of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from flatfed.core.configuration.settings import Settings
from flatfed.core.model.devices import CPU, find_device, seed_device
from flatfed.core.model.oracle import Oracle
from flatfed.core.task.structures import Structure, mapped
from flatfed.core.task.task import Task

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
FIRST_SCALE = 2.0**16
"""The scale of the loss with which each client begins in fp16."""

Forward = Callable[..., Any]


def oracle_of(task: Task, settings: Settings) -> Oracle:
    """Return the oracle that clients are trained with."""
    kind = ScaledOracle if settings.precision == "fp16" else Oracle
    oracle = kind(task, settings.torch_dtype, find_device(settings.device))
    forward: Forward = oracle.model
    if settings.compile:
        forward = CompiledForward(oracle.model, settings.batch_size)
    if settings.precision in TYPES:
        forward = AutocastForward(forward, TYPES[settings.precision], oracle.device.type)
    oracle.forward = forward
    return oracle


class AutocastForward:
    """A forward pass in a shorter type, where autocast deems that safe; what comes out is float32."""

    def __init__(self, forward: Forward, dtype: torch.dtype, device: str) -> None:
        self._forward, self._dtype, self._device = forward, dtype, device

    def __call__(self, *inputs: Tensor, **named: Tensor) -> Any:
        """Return the outputs, in float32."""
        with torch.autocast(self._device, dtype=self._dtype):
            outputs = self._forward(*inputs, **named)
        return mapped(_as_float32, outputs)


def _as_float32(output: Any) -> Any:
    is_real = isinstance(output, Tensor) and output.is_floating_point()
    return output.float() if is_real else output


class CompiledForward:
    """A forward pass by `torch.compile`, for batches of the full size; shorter ones, and teachers, go uncompiled.

    What is compiled depends on the shape alone, never on what was seen before: on any number of workers, and after a
    resume, each batch takes the same way.
    """

    def __init__(self, model: nn.Module, size: int | None) -> None:
        self._plain, self._size = model, size
        self._compiled: Forward = torch.compile(model, dynamic=False)

    def __call__(self, inputs: Tensor) -> Any:
        """Return the outputs."""
        if len(inputs) != self._size or not torch.is_grad_enabled():
            return self._plain(inputs)
        return self._compiled(inputs)


class ScaledOracle(Oracle):
    """An oracle that scales the loss before the backward pass, and the gradient back.

    A pass whose gradient is not finite, though its loss is, is repeated with half the scale, until it is or the scale
    is 1; every repetition counts as a backprop. The scale starts anew with each client, so that no client depends on
    another, and each step is taken.
    """

    def __init__(self, task: Task, dtype: torch.dtype, device: torch.device = CPU) -> None:
        super().__init__(task, dtype, device)
        self._begin()

    def _begin(self) -> None:
        self.overflows = 0
        self._scale_by(FIRST_SCALE)

    def _scale_by(self, scale: float) -> None:
        self._scale, self._seed = scale, torch.tensor(scale, device=self.device)

    def reset_buffers(self) -> None:
        """Begin with a client: nothing passes from one to the next, the scale neither."""
        super().reset_buffers()
        self._begin()

    def watched(self) -> dict[str, float]:
        """Return how many passes of this client were repeated."""
        return {"overflows": float(self.overflows)}

    def _backward(
        self, inputs: Structure, targets: Structure, plus: Callable[[Any], Tensor] | None
    ) -> tuple[Tensor, float]:
        seed = torch.default_generator.initial_seed()
        gradient, loss = self._unscaled(inputs, targets, plus)
        while not bool(torch.isfinite(gradient).all()) and math.isfinite(loss) and self._scale > 1:
            self.overflows += 1
            self._scale_by(self._scale / 2)
            self._gradients.turn_back()  # the other one of the two vectors holds the pass before
            # As the first time: the same dropout, and statistics that have moved already.
            torch.default_generator.manual_seed(seed)
            if self.device is not CPU:
                seed_device(self.device, seed)
            gradient, loss = self._elsewhere(None, lambda: self._unscaled(inputs, targets, plus), still=True)
        return gradient, loss

    def _unscaled(
        self, inputs: Structure, targets: Structure, plus: Callable[[Any], Tensor] | None
    ) -> tuple[Tensor, float]:
        gradient, loss = super()._backward(inputs, targets, plus)
        return gradient.mul_(1 / self._scale), loss
