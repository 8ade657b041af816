"""A convolution as a product of frequencies: with 5x5 kernels a fraction of the multiplications of a direct one.

For an input `x` of `n x n` pixels, a kernel `w` and their discrete Fourier transforms `X` and `W` over `n x n`,

    y = F^-1[X conj(W)]

is the circular correlation, and its first `n - k + 1` lines and columns are the convolution without padding that
`torch.nn.Conv2d` computes. At each frequency this is one complex matrix product over the channels. Transforms of so few
pixels are matrix products too, first along the lines and then along the columns. The input is real, so that the half of
the frequencies that mirrors the other half is left out.
"""

from __future__ import annotations

from functools import lru_cache

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
        """Return the convolution of a batch of images."""
        samples, _, height, width = input.shape
        if height != width:
            raise ConfigError(f"FourierConv2d takes square images, not {height}x{width}; use nn.Conv2d for these")
        kernel = self.weight.shape[-1]
        side = height - kernel + 1
        x_real, x_imaginary = transformed(input.permute(2, 3, 0, 1), transform(height, height, -1))
        w_real, w_imaginary = transformed(self.weight.permute(2, 3, 1, 0), transform(kernel, height, 1))
        # (a + bi)(c + di) with three products in the place of four (Gauss).
        common = torch.bmm(x_real + x_imaginary, w_real)
        y_real = torch.baddbmm(common, x_imaginary, w_real + w_imaginary, alpha=-1)
        y_imaginary = torch.baddbmm(common, x_real, w_imaginary - w_real)
        columns, lines = as_tensors(inverse(side, height), like=input)
        frequencies = torch.stack([y_real, y_imaginary]).view(2 * height, -1)
        along_columns = (columns @ frequencies).view(side, -1, samples * self.out_channels)
        pixels = torch.matmul(lines, along_columns).view(side, side, samples, self.out_channels)
        assert self.bias is not None
        return (pixels + self.bias).permute(2, 3, 0, 1).contiguous(memory_format=torch.channels_last)


def transformed(pixels: Tensor, matrices: Matrices) -> tuple[Tensor, Tensor]:
    """Return the real and the imaginary part, each (frequency, a, b), of pixels (line, column, a, b)."""
    lines, columns = as_tensors(matrices, like=pixels)
    count, _, a, b = pixels.shape
    along_lines = torch.matmul(lines, pixels.reshape(count, -1, a * b))
    parts = (columns @ along_lines.view(2 * count, -1)).view(2, -1, a, b)
    real, imaginary = parts.unbind()
    return real, imaginary


def as_tensors(matrices: Matrices, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the matrices in the type and on the device of a tensor."""
    first, second = matrices
    return torch.from_numpy(first).to(like), torch.from_numpy(second).to(like)


@lru_cache(maxsize=64)
def transform(points: int, n: int, sign: int) -> Matrices:
    """Return what multiplies pixels by `exp(sign 2 pi i f p / n)`: for lines of real, for columns of complex ones."""
    along_lines = angles(n // 2 + 1, points, n)
    lines = np.concatenate([np.cos(along_lines), sign * np.sin(along_lines)])
    along_columns = angles(n, points, n)
    cos, sin = np.cos(along_columns), sign * np.sin(along_columns)
    real = np.stack([cos, -sin], axis=-1)
    imaginary = np.stack([sin, cos], axis=-1)
    return lines, np.stack([real, imaginary]).reshape(2 * n, 2 * points)


@lru_cache(maxsize=64)
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
