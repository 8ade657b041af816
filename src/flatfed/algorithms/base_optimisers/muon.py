"""Muon: momentum of a matrix, with all its singular values brought near one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar, Literal

import torch
from torch import Tensor

from flatfed.algorithms.base_optimisers.adam import adam_step, scaled
from flatfed.algorithms.base_optimisers.adamw import decay
from flatfed.core.configuration.base_optimiser import BaseOptimiser, StepState
from flatfed.core.configuration.checking import Count, Momentum, NonNegative, Positive
from flatfed.core.method.client import Client
from flatfed.core.model.layout import Segment

A, B, C = 3.4445, -4.7750, 2.0315
"""The polynomial of an iteration: it takes singular values in (0, 1] to about (0.7, 1.2) within five."""
TINY = 1e-7


def orthogonalised(matrix: Tensor, iterations: int) -> Tensor:
    """Return about `U V^T` of a matrix `U S V^T`, by Newton-Schulz iterations, in the type that it has.

    `X <- A X + (B G + C G G) X` with `G = X X^T`, from `X = matrix/||matrix||`; the shorter side is the left one.
    """
    upright = matrix.shape[0] > matrix.shape[1]
    x: Tensor = matrix.T if upright else matrix
    x = x / torch.linalg.vector_norm(x).clamp(min=TINY)
    for _ in range(iterations):
        g = x @ x.T
        x = A * x + (B * g + C * g @ g) @ x
    return x.T if upright else x


class Muon(BaseOptimiser, id="muon"):
    """Orthogonalised momentum for matrices (kernels of convolutions as matrices), a fallback for all else.

        b <- momentum b + (1 - momentum) q,   u = (1 - momentum) q + momentum b   (nesterov; else u = b)
        W <- (1 - lr wd) W - lr max(1, rows/columns)^(1/2) NewtonSchulz(u)

    The fallback is AdamW, or SGD with the same momentum, with `fallback_lr` times the learning rate, and the same
    decoupled weight decay. It also takes matrices whose names hold a word of `fallback_for`.

    Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.
    """

    momentum: Momentum = 0.95
    nesterov: bool = True
    iterations: Count = 5
    fallback: Literal["adamw", "sgd"] = "adamw"
    fallback_lr: Positive = 1.0
    fallback_for: str = ""
    beta1: Momentum = 0.9
    beta2: Momentum = 0.999
    eps: NonNegative = 1e-8

    row_wise: ClassVar[bool] = False

    def vectors(self) -> tuple[str, ...]:
        """Name the momentum, and the second moment of the fallback."""
        return ("m", "v") if self.fallback == "adamw" else ("m",)

    def step(self, client: Client, q: Tensor, scale: float, held: StepState) -> None:
        """Decay, then step with each parameter by its shape."""
        decay(client)
        q, w, m = scaled(q, scale), client.w, held.vector("m", client.w)
        for segment in client.layout.parameters:
            if self._is_matrix(segment):
                self._matrix_step(segment, client.lr, w, q, m)
        for start, end in self._others(client.layout.parameters):
            own = StepState({name: held.vector(name, w)[start:end] for name in self.vectors()}, held.steps)
            self._fallback_step(w[start:end], q[start:end], client.lr * self.fallback_lr, own)

    def _is_matrix(self, segment: Segment) -> bool:
        return len(segment.shape) > 1 and not any(word in segment.name for word in self.fallback_for.split())

    def _matrix_step(self, segment: Segment, lr: float, w: Tensor, q: Tensor, m: Tensor) -> None:
        momentum, fresh, target = segment.view(m), segment.view(q), segment.view(w)
        momentum.lerp_(fresh, 1 - self.momentum)
        update = fresh.lerp(momentum, self.momentum) if self.nesterov else momentum
        matrix = orthogonalised(update.reshape(len(update), -1), self.iterations)
        rows, columns = matrix.shape
        target.add_(matrix.view(segment.shape), alpha=-lr * math.sqrt(max(1.0, rows / columns)))

    def _others(self, segments: tuple[Segment, ...]) -> Iterator[tuple[int, int]]:
        """Yield where the parameters lie that are no matrices."""
        for segment in segments:
            if not self._is_matrix(segment):
                yield segment.offset, segment.end

    def _fallback_step(self, w: Tensor, q: Tensor, lr: float, own: StepState) -> None:
        if self.fallback == "adamw":
            adam_step(w, q, lr, own, self.beta1, self.beta2, self.eps)
            return
        m = own.vector("m", w).lerp_(q, 1 - self.momentum)
        w.add_(q.lerp(m, self.momentum) if self.nesterov else m, alpha=-lr)
