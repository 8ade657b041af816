"""Products of curvature matrices with a vector, on one batch of examples.

    Hessian        H v = d/dw <grad L(w), v> = d/dw (d/ds L(w + s v))
    Gauss-Newton   G v = J^T M J v,   J the derivative of the outputs, M the Hessian of the loss in the outputs

Each can be computed in two ways. *Tangents*: a forward pass carries the derivative along `v`, and one backward pass
through both follows (reverse over forward); no gradient is computed that only its derivative is asked of. *Double
backward*: the gradient with its graph, then the gradient of that; any model that trains allows it. A trial decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from flatfed.core.task.structures import leaves, mapped
from flatfed.flatness.tangents import moving, tangent_of

Slopes = Sequence[Tensor | None]
CLOSE = 1e-9


@dataclass(frozen=True)
class BatchLoss:
    """The loss of a batch as a function of a model's parameters.

    Attributes:
        forward: returns the model's outputs.
        loss: the mean loss of what is seen of the outputs.
        parameters: what is differentiated by.
        seen: takes from the outputs that of which the loss is taken.
    """

    forward: Callable[[], Any]
    loss: Callable[[Any], Tensor]
    parameters: Sequence[Tensor]
    seen: Callable[[Any], Any] = lambda outputs: outputs


Bent = tuple[Any, Slopes]
"""The outputs of a batch and a product, a part for each parameter; None is zero."""


def plain_attention() -> AbstractContextManager[None]:
    """Let attention be computed step by step: the fused kernels have first derivatives only."""
    return sdpa_kernel(SDPBackend.MATH)


ProductRule = Callable[[BatchLoss, Slopes], Bent]


def gradient(batch: BatchLoss) -> Bent:
    """Return outputs and the gradient; some parameters may have no part in the loss."""
    outputs = batch.forward()
    return outputs, torch.autograd.grad(batch.loss(batch.seen(outputs)), batch.parameters, allow_unused=True)


def hessian_by_tangents(batch: BatchLoss, v: Slopes) -> Bent:
    """Return outputs and `H v`: the gradient of the loss's change along `v`."""
    outputs, seen, scores, changes = _with_changes(batch, v)
    # The loss by double backward: it is small beside the model, and some losses have no second derivative elsewhere.
    slopes = torch.autograd.grad(batch.loss(seen), scores, create_graph=True, allow_unused=True)
    pairs = zip(slopes, changes, strict=True)
    rates = [(slope * change).sum() for slope, change in pairs if slope is not None]
    return outputs, _slopes(rates, batch.parameters, [torch.ones_like(rate) for rate in rates])


def hessian_by_double_backward(batch: BatchLoss, v: Slopes) -> Bent:
    """Return outputs and `H v`: the gradient of `<gradient, v>`."""
    outputs = batch.forward()
    mean = batch.loss(batch.seen(outputs))
    slopes = torch.autograd.grad(mean, batch.parameters, create_graph=True, allow_unused=True)
    return outputs, _slopes(slopes, batch.parameters, v)


def gauss_newton_by_tangents(batch: BatchLoss, v: Slopes) -> Bent:
    """Return outputs and `J^T M J v`, `J v` from the forward pass."""
    outputs, seen, scores, changes = _with_changes(batch, v)
    return outputs, _slopes(scores, batch.parameters, _bent_by_loss(batch, seen, scores, changes))


def gauss_newton_by_double_backward(batch: BatchLoss, v: Slopes) -> Bent:
    """Return outputs and `J^T M J v`, `J v` as the derivative of `J^T u` by `u`."""
    outputs = batch.forward()
    seen = batch.seen(outputs)
    scores = [score for score in leaves(seen) if _varies(score)]
    us = [torch.zeros_like(score, requires_grad=True) for score in scores]
    back = torch.autograd.grad(scores, batch.parameters, grad_outputs=us, create_graph=True, allow_unused=True)
    changes = _slopes(back, us, v)
    return outputs, _slopes(scores, batch.parameters, _bent_by_loss(batch, seen, scores, changes))


def _with_changes(batch: BatchLoss, v: Slopes) -> tuple[Any, Any, list[Tensor], list[Tensor]]:
    """Return the outputs, what the loss sees, those tensors of it that change along `v`, and their changes."""
    with moving(batch.parameters, v):
        outputs = batch.forward()
    seen = batch.seen(outputs)
    scores = [score for score in leaves(seen) if tangent_of(score) is not None]
    changes = [change for score in scores if (change := tangent_of(score)) is not None]
    return outputs, seen, scores, changes


def _bent_by_loss(batch: BatchLoss, seen: Any, scores: Sequence[Tensor], changes: Slopes) -> Slopes:
    """Return `M J v`, a part for each of the scores."""
    alone = {id(score): score.detach().requires_grad_() for score in scores}
    mean = batch.loss(mapped(lambda value: alone.get(id(value), value), seen))
    leaves = [alone[id(score)] for score in scores]
    slopes = torch.autograd.grad(mean, leaves, create_graph=True, allow_unused=True)
    return _slopes(slopes, leaves, [None if change is None else change.detach() for change in changes])


def _slopes(values: Slopes, by: Sequence[Tensor], weights: Slopes) -> Slopes:
    """Return the gradient of `<values, weights>`; what does not vary has none."""
    pairs = zip(values, weights, strict=True)
    chosen = [(value, weight) for value, weight in pairs if _varies(value) and weight is not None]
    if not chosen:
        return [None] * len(by)
    varying, along = zip(*chosen, strict=True)
    return torch.autograd.grad(varying, by, grad_outputs=along, allow_unused=True)


def _varies(value: Any) -> bool:
    # What is constant in the parameters has no graph to differentiate.
    return isinstance(value, Tensor) and value.requires_grad


def tangents_agree(batch: BatchLoss) -> bool:
    """Say whether both ways give the same product of a random vector, to 1e-9 of its largest entry.

    Where a model does what tangents cannot follow, they fail or differ.
    """
    generator = torch.Generator().manual_seed(0)
    v = [torch.randn(p.shape, generator=generator, dtype=p.dtype).to(p.device) for p in batch.parameters]
    try:
        expected = _joined(hessian_by_double_backward(batch, v)[1], batch.parameters)
        actual = _joined(hessian_by_tangents(batch, v)[1], batch.parameters)
    except Exception:  # whatever a model's own code and PyTorch's derivatives may raise
        return False
    # Not a number is not close to anything.
    return bool((actual - expected).abs().max() <= CLOSE * expected.abs().max())


def _joined(parts: Slopes, parameters: Sequence[Tensor]) -> Tensor:
    pairs = zip(parts, parameters, strict=True)
    return torch.cat([(torch.zeros_like(p) if part is None else part).flatten() for part, p in pairs])
