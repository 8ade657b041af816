"""A convolution as a product of frequencies: with 5x5 kernels a fraction of the multiplications of a direct one.

For an input `x` of `n x n` pixels, a kernel `w` and their discrete Fourier transforms `X` and `W` over `n x n`,

    y = F^-1[X conj(W)]

is the circular correlation, and its first `n - k + 1` lines and columns are the convolution without padding that
`torch.nn.Conv2d` computes. At each frequency this is one complex matrix product over the channels. Transforms of so few
pixels are matrix products too, first along the lines and then along the columns. The input is real, so that the half of
the frequencies that mirrors the other half is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from flatfed.core.errors import ConfigError

Matrices = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Kept between calls, and so no tensors: one made without gradients, or for an export, could not serve again."""


class FourierConv2d(nn.Conv2d):
    """`nn.Conv2d` on square images, without stride and padding, through frequencies; equal to it but for rounding."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int) -> None:
        """Take the channels and the side of the kernel; weights are drawn as `nn.Conv2d` draws them."""
        super().__init__(in_channels, out_channels, kernel_size)

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution of a batch of images (samples, channels, side, side)."""
        samples, _, height, width = input.shape
        kernel = self.weight.shape[-1]
        if height != width:
            raise ConfigError(f"FourierConv2d takes square images, not {height}x{width}; use nn.Conv2d for these")
        side, half = height - kernel + 1, height // 2 + 1
        if side < 1:
            raise ConfigError(f"FourierConv2d: a kernel of {kernel}x{kernel} does not fit images of {height}x{width}")
        x_real, x_imaginary = transformed(input.permute(2, 3, 0, 1), transform(height, height, -1))
        w_real, w_imaginary = transformed(self.weight.permute(2, 3, 1, 0), transform(kernel, height, 1))
        # (a + bi)(c + di) with three products in the place of four (Gauss).
        common = torch.bmm(x_real + x_imaginary, w_real)
        y_real = torch.baddbmm(common, x_imaginary, w_real + w_imaginary, alpha=-1)
        y_imaginary = torch.baddbmm(common, x_real, w_imaginary - w_real)
        columns, lines = as_tensors(inverse(side, height), like=input)
        frequencies = torch.stack([y_real, y_imaginary]).view(2 * height, half * samples * self.out_channels)
        along_columns = (columns @ frequencies).view(side, 2 * half, samples * self.out_channels)
        pixels = torch.matmul(lines, along_columns).view(side, side, samples, self.out_channels)
        assert self.bias is not None
        # Channels-last, as `nn.Conv2d` leaves them for a pool.
        return (pixels + self.bias.to(pixels.dtype)).permute(2, 0, 1, 3).contiguous().permute(0, 3, 1, 2)


def transformed(pixels: Tensor, matrices: Matrices) -> tuple[Tensor, Tensor]:
    """Return the real and the imaginary part, each (frequency, a, b), of pixels (line, column, a, b)."""
    lines, columns = as_tensors(matrices, like=pixels)
    half, n = len(lines) // 2, len(columns) // 2
    count, _, a, b = pixels.shape
    along_lines = torch.matmul(lines, pixels.reshape(count, count, a * b))
    parts = (columns @ along_lines.view(2 * count, half * a * b)).view(2, n * half, a, b)
    real, imaginary = parts.unbind()
    return real, imaginary


def as_tensors(matrices: Matrices, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the matrices in the type and on the device of a tensor."""
    first, second = matrices
    return torch.from_numpy(first).to(like), torch.from_numpy(second).to(like)


def kept_between_calls(make: Callable[..., Matrices]) -> Callable[..., Matrices]:
    """Keep matrices by what they are made from; a compiler, which warns of what is kept, has them made anew."""
    cached = lru_cache(maxsize=64)(make)

    @wraps(make)
    def matrices(*given: int) -> Matrices:
        if torch.compiler.is_compiling():
            return make(*given)
        return cached(*given)

    return matrices


@kept_between_calls
def transform(points: int, n: int, sign: int) -> Matrices:
    """Return what multiplies pixels by `exp(sign 2 pi i f p / n)`: for lines of real, for columns of complex ones."""
    along_lines = angles(n // 2 + 1, points, n)
    lines = np.concatenate([np.cos(along_lines), sign * np.sin(along_lines)])
    along_columns = angles(n, points, n)
    cos, sin = np.cos(along_columns), sign * np.sin(along_columns)
    real = np.stack([cos, -sin], axis=-1)
    imaginary = np.stack([sin, cos], axis=-1)
    return lines, np.stack([real, imaginary]).reshape(2 * n, 2 * points)


@kept_between_calls
def inverse(points: int, n: int) -> Matrices:
    """Return what takes frequencies to the first `points` pixels: along columns to complex, along lines to real."""
    along_columns = angles(points, n, n)
    cos, sin = np.cos(along_columns) / n, np.sin(along_columns) / n
    real = np.stack([cos, -sin], axis=1)
    imaginary = np.stack([sin, cos], axis=1)
    columns = np.stack([real, imaginary], axis=1).reshape(2 * points, 2 * n)
    along_lines = angles(points, n // 2 + 1, n)
    weight = mirrored(n) / n
    lines = np.concatenate([np.cos(along_lines) * weight, -np.sin(along_lines) * weight], axis=1)
    return columns, lines


def angles(rows: int, columns: int, n: int) -> NDArray[np.float64]:
    """Return `2 pi r c / n`."""
    row, column = np.arange(rows, dtype=np.float64), np.arange(columns, dtype=np.float64)
    return np.outer(row, column) * np.float64(2 * np.pi / n)


def mirrored(n: int) -> NDArray[np.float64]:
    """Return how often each of the frequencies `0 .. n // 2` stands for itself and its mirror image: once or twice."""
    often = np.full(n // 2 + 1, 2.0)
    often[0] = 1
    if n % 2 == 0:
        often[-1] = 1
    return often
