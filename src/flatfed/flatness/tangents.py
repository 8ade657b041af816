"""A forward pass that carries tangents: what a model returns, and how that changes along a direction of its parameters.

    outputs(w),   changes = d/ds outputs(w + s v) at s = 0

Both can be differentiated again. A tensor has its tangent as an attribute. Every function that is called with such
tensors gives tangents to its results: convolutions, linear layers, max-pool, ReLU and changes of shape by rules that
keep images channels-last and record nothing that a derivative does not need; everything else by PyTorch's dual numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.autograd.forward_ad as dual_numbers
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

Function = Callable[..., Any]

# PyTorch says nothing of their types.
make_dual: Function = dual_numbers.make_dual
unpack_dual: Function = dual_numbers.unpack_dual

TANGENT = "flatfed_tangent"
IN_PLACE = {"__iadd__", "__isub__", "__imul__", "__itruediv__", "__setitem__"}


def tangent_of(value: Any) -> Tensor | None:
    """Return how a tensor changes; None where it does not, and for anything else."""
    tangent: Tensor | None = getattr(value, TANGENT, None)
    return tangent


@contextmanager
def moving(parameters: Sequence[Tensor], directions: Sequence[Tensor | None]) -> Iterator[None]:
    """Let a forward pass carry the tangents that start from parameters moving along directions; None stays."""
    for parameter, direction in zip(parameters, directions, strict=True):
        _attach(parameter, direction)
    try:
        with _Tangents():
            yield
    finally:
        for parameter in parameters:
            _attach(parameter, None)


class _Tangents(TorchFunctionMode):
    """Sees every function that is called, and carries tangents through those with moving arguments."""

    def __torch_function__(self, func: Function, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        leaves = tree_leaves((args, options))
        if all(tangent_of(leaf) is None for leaf in leaves):
            return func(*args, **options)
        _refuse_in_place(func, options)
        rule: Function = RULES.get(func, _by_dual_numbers)
        return rule(func, *args, **options)


def _refuse_in_place(func: Function, options: dict[str, Any]) -> None:
    """Refuse what changes a tensor whose tangent is known: the tangent would stay as it was."""
    name = getattr(func, "__name__", "")
    if name in IN_PLACE or "out" in options or (name.endswith("_") and not name.endswith("__")):
        raise NotImplementedError(f"{name} changes a tensor in place, and its tangent would not follow")


def _attach(value: Tensor, tangent: Tensor | None) -> Tensor:
    if tangent is not None:
        setattr(value, TANGENT, tangent)
    elif hasattr(value, TANGENT):
        delattr(value, TANGENT)
    return value


# --- rules: each takes the function and its arguments ---------------------------------------------------------


def _by_dual_numbers(func: Function, *args: Any, **options: Any) -> Any:
    """Return the results of any function with the tangents that PyTorch's forward mode gives them."""
    with dual_numbers.dual_level(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.jit.script")  # what forward mode itself uses
        inputs, named = tree_map_only(Tensor, _as_dual, (args, options))
        return tree_map_only(Tensor, _from_dual, func(*inputs, **named))


def _as_dual(value: Tensor) -> Tensor:
    tangent = tangent_of(value)
    if tangent is None:
        return value
    dual: Tensor = make_dual(value, tangent)
    return dual


def _from_dual(value: Tensor) -> Tensor:
    parts = unpack_dual(value)
    return _attach(parts.primal, parts.tangent)


def _bilinear(
    func: Function, inputs: Tensor, weight: Tensor, bias: Tensor | None = None, *rest: Any, **options: Any
) -> Tensor:
    """Return a convolution or linear layer; `f(x, w)` changes by `f(x, w') + f(x', w)`."""
    if tangent_of(weight) is None:
        given = (inputs, weight, bias, *rest)
        carried: Tensor = _by_dual_numbers(func, *given, **options)
        return carried
    outputs = func(inputs, weight, bias, *rest, **options)
    change = func(inputs, tangent_of(weight), tangent_of(bias), *rest, **options)
    moved = tangent_of(inputs)
    if moved is not None:
        change.add_(func(moved, weight, None, *rest, **options))
    return _attach(outputs, change)


def _rectified(func: Function, inputs: Tensor, inplace: bool = False) -> Tensor:
    """Return ReLU; where it passes a value on, it passes the tangent on."""
    outputs = inputs.relu()
    # Detached: where it passes does not vary, and a tangent that needs no derivative ends the work of a whole layer.
    change = torch.ops.aten.threshold_backward(tangent_of(inputs), outputs.detach(), 0)
    return _attach(outputs, change)


def _pooled(
    func: Function,
    inputs: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return max-pool; its tangents are those at the places of the maxima."""
    shape = (kernel_size, stride or kernel_size, padding, dilation, ceil_mode)
    if return_indices or inputs.ndim != 4:
        return _by_dual_numbers(func, inputs, *shape, return_indices)
    outputs, places = F.max_pool2d(inputs, *shape, return_indices=True)
    at_places: Function = _AtPlaces.apply
    change = at_places(tangent_of(inputs), inputs.detach(), places, shape)
    return _attach(outputs, change)


class _AtPlaces(torch.autograd.Function):
    """The values of images at the places of maxima: PyTorch's own gather leaves channels-last behind."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, images: Tensor, places: Tensor, shape: Any) -> Tensor:
        ctx.save_for_backward(images, places)
        ctx.shape = shape
        if not values.is_contiguous(memory_format=torch.channels_last):
            return values.flatten(2).gather(2, places.flatten(2)).view_as(places)
        rows, wanted = (x.permute(0, 2, 3, 1).flatten(1, 2) for x in (values, places))
        chosen: Tensor = rows.gather(1, wanted)
        batch, channels, height, width = places.shape
        return chosen.view(batch, height, width, channels).permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        images, places = ctx.saved_tensors
        back = torch.ops.aten.max_pool2d_with_indices_backward
        return back(slopes[0], images, *map(_pair, ctx.shape[:4]), ctx.shape[4], places), None, None, None


def _embedded(
    func: Function, tokens: Tensor, weight: Tensor, padding_idx: int | None = None, *rest: Any, **options: Any
) -> Tensor:
    """Return embeddings; that of padding has no gradient, so it does not move either."""
    outputs = func(tokens, weight, padding_idx, *rest, **options)
    change = F.embedding(tokens, _known(tangent_of(weight)))
    if padding_idx is not None:
        padding = padding_idx % len(weight)  # it may be counted from the end
        change = change * (tokens != padding).unsqueeze(-1)
    return _attach(outputs, change)


def _known(tangent: Tensor | None) -> Tensor:
    assert tangent is not None
    return tangent


def _group_normalised(
    func: Function,
    inputs: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return GroupNorm by its definition: PyTorch's forward mode refuses images that lie channels-last."""
    moved = tangent_of(inputs)
    if moved is None or weight is None or bias is None:
        given = (inputs, num_groups, weight, bias, eps)
        carried: Tensor = _by_dual_numbers(func, *given)
        return carried
    centred = _centred(inputs, num_groups)
    scale = (_group_mean(centred.square()) + eps).rsqrt()
    normal = centred * scale
    change = _centred(moved, num_groups)
    change = (change - normal * _group_mean(normal * change)) * scale
    shape = (-1,) + (1,) * (inputs.ndim - 2)
    weights, shifts = ([_shaped(x, shape) for x in (value, tangent_of(value))] for value in (weight, bias))
    flat, rate = normal.flatten(1, 2), change.flatten(1, 2) * weights[0]
    if weights[1] is not None:
        rate = rate + flat * weights[1]
    if shifts[1] is not None:
        rate = rate + shifts[1]
    return _attach(flat * weights[0] + shifts[0], rate)


def _centred(images: Tensor, groups: int) -> Tensor:
    """Return images less the mean of each group of channels; the groups become an axis."""
    grouped = images.view(len(images), groups, -1, *images.shape[2:])
    return grouped - _group_mean(grouped)


def _group_mean(grouped: Tensor) -> Tensor:
    return grouped.mean(dim=tuple(range(2, grouped.ndim)), keepdim=True)


def _shaped(value: Tensor | None, shape: tuple[int, ...]) -> Any:
    return None if value is None else value.view(shape)


def _pair(size: Any) -> list[int]:
    return [size, size] if isinstance(size, int) else list(size)


def _linear_map(func: Function, inputs: Tensor, *rest: Any, **options: Any) -> Tensor:
    """Return what is linear in its one tensor, such as a change of shape: its tangent is the same of the tangent."""
    if any(isinstance(leaf, Tensor) for leaf in tree_leaves((rest, options))):
        carried: Tensor = _by_dual_numbers(func, inputs, *rest, **options)
        return carried
    return _attach(func(inputs, *rest, **options), func(tangent_of(inputs), *rest, **options))


def _sum(func: Function, first: Any, second: Any, **options: Any) -> Tensor:
    """Return the sum of two tensors of one shape."""
    changes = tangent_of(first), tangent_of(second)
    if options or None in changes or first.shape != second.shape:
        carried: Tensor = _by_dual_numbers(func, first, second, **options)
        return carried
    return _attach(func(first, second), func(*changes))


LINEAR_MAPS = (
    Tensor.flatten,
    torch.flatten,
    Tensor.view,
    Tensor.reshape,
    Tensor.transpose,
    Tensor.permute,
    Tensor.unsqueeze,
    Tensor.squeeze,
    Tensor.mean,
    torch.mean,
    F.avg_pool2d,
    F.adaptive_avg_pool2d,
)

RULES: dict[Function, Function] = {
    torch.conv2d: _bilinear,
    F.linear: _bilinear,
    F.max_pool2d: _pooled,
    F.embedding: _embedded,
    F.group_norm: _group_normalised,
    F.relu: _rectified,
    torch.relu: _rectified,
    Tensor.relu: _rectified,
    torch.add: _sum,
    Tensor.add: _sum,
    Tensor.__add__: _sum,
    **dict.fromkeys(LINEAR_MAPS, _linear_map),
}
