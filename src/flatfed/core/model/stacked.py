"""One model for several clients at once: each layer computes all clients' outputs with all clients' weights.

The clients' batches lie one behind the other in one long batch, which is all that activations, pooling and reshaping
see; only layers with parameters must know which rows belong to whom. These are replaced by stacked ones here:

    Linear      y_k = x_k W_k^T + b_k                 one vectorised matrix product
    Conv2d      one convolution with the clients as groups
    GroupNorm, LayerNorm: a norm per example, then each client's own scale and shift

A model with anything else that holds parameters or buffers, or that mixes examples of a batch, cannot be stacked.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flatfed.core.errors import ConfigError
from flatfed.core.model.devices import CPU
from flatfed.core.model.layout import Layout, Segment
from flatfed.core.task.losses import model_loss
from flatfed.core.task.structures import Structure, call, part
from flatfed.core.task.task import Task

Plus = Callable[[Any], Tensor]


class CannotStack(ConfigError):
    """A model that cannot compute for several clients at once; the message says why."""


class StackedModel:
    """The model of a task, computing for `m` clients at a time with parameters from an `m x d` matrix."""

    def __init__(self, task: Task, dtype: torch.dtype, device: torch.device = CPU) -> None:
        self.task, self.layout = task, task.layout()
        self.model = task.fresh_model(dtype).to(device).train()
        self._weights: dict[str, Tensor] = {}
        self._clients = 1
        self._refuse_unsuitable()
        for prefix, module in self.model.named_modules():
            self._replace(f"{prefix}." if prefix else "", module)

    def _refuse_unsuitable(self) -> None:
        if self.task.loss is model_loss:
            raise CannotStack("the model computes its loss itself, over all examples")
        if next(self.model.buffers(), None) is not None:
            raise CannotStack("the model has buffers, such as BatchNorm's statistics")
        names = [name for name, _ in self.model.named_parameters(remove_duplicate=False)]
        trained = [segment.name for segment in self.layout.parameters]
        if sorted(names) != sorted(trained):
            raise CannotStack("the model has frozen or shared parameters")

    def _replace(self, prefix: str, module: nn.Module) -> None:
        """Let a layer with parameters of its own take them from the matrix."""
        if all(parameter is None for parameter in module._parameters.values()):
            return
        # By the exact type: a subclass may compute something else.
        forward = LAYERS.get(type(module))
        if forward is None:
            raise CannotStack(f"the model has a {type(module).__name__} with parameters of its own")
        # Weakly, so that neither model nor task outlives its last user.
        module.forward = functools.partial(forward, weakref.proxy(self), prefix, weakref.proxy(module))

    def gradients(
        self, points: Tensor, inputs: Structure, targets: Structure, plus: Sequence[Plus | None]
    ) -> tuple[list[Tensor], list[float]]:
        """Return each parameter's gradients of all clients, stacked, and the clients' losses.

        Row k of `points` holds client k's parameters; its examples are the k-th part of the equally long parts of the
        batch. `plus[k](outputs)` is added to client k's loss.
        """
        leaves = self._load(points)
        outputs = call(self.model, inputs)
        losses = self._losses(outputs, targets)
        # Clients share no parameter, so the gradient of the sum holds each client's own.
        total = losses.sum()
        for client, extra in enumerate(plus):
            if extra is not None:
                total = total + extra(self._part(outputs, client))
        # A parameter that the loss does not reach has gradient zero, as it has for a client that runs alone.
        slopes = torch.autograd.grad(total, leaves, allow_unused=True)
        filled = [_or_zeros(slope, leaf) for slope, leaf in zip(slopes, leaves, strict=True)]
        return filled, losses.tolist()

    def outputs(self, points: Tensor, inputs: Structure) -> list[Any]:
        """Return each client's outputs on its part of the batch, without gradients."""
        with torch.no_grad():
            self._load(points)
            outputs = call(self.model, inputs)
            return [self._part(outputs, client) for client in range(self._clients)]

    def _load(self, points: Tensor) -> list[Tensor]:
        self._clients = points.shape[0]
        # Views of the matrix: nothing is copied, and each is a leaf to which autograd gives a gradient.
        leaves = [stacked_view(segment, points).detach().requires_grad_() for segment in self.layout.parameters]
        self._weights = {segment.name: leaf for segment, leaf in zip(self.layout.parameters, leaves, strict=True)}
        return leaves

    def _losses(self, outputs: Any, targets: Structure) -> Tensor:
        """Return each client's mean loss."""
        if self._is_plain(outputs, targets):
            return F.cross_entropy(outputs, targets, reduction="none").view(self._clients, -1).mean(dim=1)
        parts = ((self._part(outputs, k), self._part(targets, k)) for k in range(self._clients))
        return torch.stack([self.task.criterion(*own) for own in parts])

    def _is_plain(self, outputs: Any, targets: Structure) -> bool:
        """Say whether the loss is a mean of cross-entropies over all examples: then one call serves all clients."""
        if self.task.loss is not F.cross_entropy or not isinstance(outputs, Tensor) or not isinstance(targets, Tensor):
            return False
        if outputs.ndim != 2 or targets.ndim != 1:
            return False
        return int(targets.min()) >= 0  # a negative target is to be ignored, which changes what a mean is over

    def _part(self, outputs: Any, client: int) -> Any:
        return part(outputs, client, self._clients)

    # The layers: `x` holds the clients' examples one behind the other.

    def weight(self, prefix: str, name: str) -> Tensor | None:
        """Return a layer's parameter of all clients, m x its shape."""
        return self._weights.get(prefix + name)

    def divided(self, x: Tensor) -> Tensor:
        """Return a long batch as clients x examples x rest."""
        return x.reshape(self._clients, -1, *x.shape[1:])


def _or_zeros(slope: Tensor | None, leaf: Tensor) -> Tensor:
    return torch.zeros_like(leaf) if slope is None else slope


def stacked_view(segment: Segment, points: Tensor) -> Tensor:
    """Return a parameter of all clients as a view of the matrix with a client's vector in each row."""
    part = points[:, segment.offset : segment.offset + segment.size]
    if not segment.channels_last:
        return part.view(points.shape[0], *segment.shape)
    out, channels, height, width = segment.shape
    return part.view(len(points), out, height, width, channels).permute(0, 1, 4, 2, 3)


def write_gradients(layout: Layout, matrix: Tensor, gradients: Sequence[Tensor]) -> None:
    """Copy stacked gradients of the parameters into a matrix with a client's vector in each row."""
    for segment, gradient in zip(layout.parameters, gradients, strict=True):
        stacked_view(segment, matrix).copy_(gradient)


def _linear(stack: StackedModel, prefix: str, layer: nn.Linear, x: Tensor) -> Tensor:
    weight, bias = stack.weight(prefix, "weight"), stack.weight(prefix, "bias")
    assert weight is not None
    columns = x.reshape(len(weight), -1, layer.in_features).transpose(1, 2)
    # Weights first: their gradient then comes out in their own order, which is several times as fast.
    y = torch.bmm(weight, columns) if bias is None else torch.baddbmm(bias.unsqueeze(2), weight, columns)
    return y.transpose(1, 2).reshape(*x.shape[:-1], layer.out_features)


def _conv2d(stack: StackedModel, prefix: str, layer: nn.Conv2d, x: Tensor) -> Tensor:
    weight, bias = stack.weight(prefix, "weight"), stack.weight(prefix, "bias")
    assert weight is not None
    if layer.padding_mode != "zeros":
        raise CannotStack("the model has a convolution that pads with other than zeros")
    m = len(weight)
    convolved = functools.partial(
        F.conv2d,
        weight=weight.flatten(0, 1),
        bias=None if bias is None else bias.flatten(),
        stride=layer.stride,
        padding=layer.padding,
        dilation=layer.dilation,
        groups=m * layer.groups,
    )
    if m == 1:
        # As it came: a reshaped single example has strides from which torch takes a wrong gradient.
        return convolved(x)
    # The clients become groups of channels of one convolution: examples x (clients * channels).
    rows = stack.divided(x)
    channels = rows.transpose(0, 1).reshape(rows.shape[1], m * x.shape[1], *x.shape[2:])
    y = convolved(channels)
    return y.view(rows.shape[1], m, -1, *y.shape[2:]).transpose(0, 1).reshape(len(x), -1, *y.shape[2:])


def _group_norm(stack: StackedModel, prefix: str, layer: nn.GroupNorm, x: Tensor) -> Tensor:
    y = stack.divided(F.group_norm(x, layer.num_groups, eps=layer.eps))
    trailing = (1,) * (x.ndim - 2)
    return _scaled(stack, prefix, y, lambda w: w.view(len(w), 1, -1, *trailing)).reshape(x.shape)


def _layer_norm(stack: StackedModel, prefix: str, layer: nn.LayerNorm, x: Tensor) -> Tensor:
    shape = layer.normalized_shape
    y = stack.divided(F.layer_norm(x, shape, eps=layer.eps))
    between = (1,) * (x.ndim - len(shape))
    return _scaled(stack, prefix, y, lambda w: w.view(len(w), *between, *shape)).reshape(x.shape)


def _scaled(stack: StackedModel, prefix: str, y: Tensor, shaped: Callable[[Tensor], Tensor]) -> Tensor:
    weight, bias = stack.weight(prefix, "weight"), stack.weight(prefix, "bias")
    if weight is not None:
        y = y * shaped(weight)
    if bias is not None:
        y = y + shaped(bias)
    return y


LAYERS: dict[type[nn.Module], Callable[..., Tensor]] = {
    nn.Linear: _linear,
    nn.Conv2d: _conv2d,
    nn.GroupNorm: _group_norm,
    nn.LayerNorm: _layer_norm,
}
