"""Mean and standard deviation of images per channel, exact enough to find one pixel that differs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from flatfed.core.task.examples import Examples, TensorExamples
from flatfed.data.acquiring.findings import OK, WRONG, Finding
from flatfed.data.catalogue.expected import Moments

CHUNK = 1000
WHITE = 255


def moments(images: Tensor) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation per channel, white being 1; from whole numbers, so that nothing is lost."""
    totals = torch.zeros(images.shape[1], dtype=torch.int64)
    squares = torch.zeros_like(totals)
    # In chunks, because int64 takes eight times the room of bytes.
    for chunk in torch.split(images, CHUNK):
        wide = chunk.to(torch.int64)
        totals += wide.sum((0, 2, 3))
        squares += (wide * wide).sum((0, 2, 3))
    count = images.numel() // images.shape[1]
    means = [total / (count * WHITE) for total in totals.tolist()]
    return means, list(map(_deviation, totals.tolist(), squares.tolist(), [count] * len(means)))


def _deviation(total: int, square: int, count: int) -> float:
    # Python's whole numbers do not overflow, and the difference of large numbers is exact.
    return math.sqrt(square * count - total * total) / (count * WHITE)


def compare_moments(part: str, examples: Examples, expected: Moments) -> Iterator[Finding]:
    """Yield how mean and standard deviation of a part fit the expected ones."""
    if not isinstance(examples, TensorExamples) or examples.inputs.dtype != torch.uint8:
        yield Finding(f"{part} mean", "no images of bytes", _shown(expected.mean), WRONG)
        return
    mean, std = moments(examples.inputs)
    yield _compare(f"{part} mean", mean, expected.mean, expected.tolerance)
    yield _compare(f"{part} std", std, expected.std, expected.tolerance)


def _compare(what: str, measured: Sequence[float], expected: Sequence[float], tolerance: float) -> Finding:
    off = max(map(_distance, measured, expected), default=0.0)
    if len(measured) == len(expected) and off <= tolerance:
        return Finding(what, _shown(measured), _shown(expected), OK)
    return Finding(what, f"{_shown(measured)} (off by {off:.1e})", _shown(expected), WRONG)


def _distance(measured: float, expected: float) -> float:
    return abs(measured - expected)


def _shown(values: Sequence[float]) -> str:
    return " ".join(f"{value:.8f}" for value in values)
