"""Random directions on the scale of a model's filters.

Each slice along the first axis of a tensor with two or more axes is rescaled to the norm of the model's own slice;
biases and norm parameters (one axis) stay where they are:

    d_ij <- d_ij * ||w_ij|| / (||d_ij|| + 1e-10),          d = 0 on tensors with one axis

The raw Gaussian directions depend on the seed and the number of the direction alone, so that compared models of one
shape get the same ones; the rescaling is each model's own. Li et al., "Visualizing the loss landscape of neural
nets", NeurIPS 2018.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flatfed.core.model.layout import Layout, Segment
from flatfed.core.randomness import torch_generator

SMALL = 1e-10


def raw_direction(size: int, number: int, seed: int, dtype: torch.dtype) -> Tensor:
    """Return a Gaussian direction, the same for every model of this size."""
    # Drawn in double precision, so that models of either type get the same directions.
    return torch.randn(size, generator=torch_generator(seed, "direction", number), dtype=torch.float64).to(dtype)


def filter_normalised(layout: Layout, w: Tensor, raw: Tensor) -> Tensor:
    """Return a direction with the norms of the model's filters."""
    direction = torch.zeros_like(w)
    for piece in layout.parameters:
        is_shared = piece.offset + piece.size <= len(w)  # the rest stays on the clients
        if is_shared and _has_filters(piece):
            piece.view(direction).copy_(_rescaled(piece.view(raw), piece.view(w)))
    return direction


def _has_filters(piece: Segment) -> bool:
    return len(piece.shape) >= 2


def _rescaled(raw: Tensor, weights: Tensor) -> Tensor:
    """Return a tensor's part of a direction with the norms of the filters, slices along the first axis."""
    rows, filters = raw.flatten(1), weights.flatten(1)
    scale = filters.norm(dim=1, keepdim=True) / (rows.norm(dim=1, keepdim=True) + SMALL)
    rescaled: Tensor = (rows * scale).view(raw.shape)
    return rescaled


def random_directions(layout: Layout, w: Tensor, count: int, seed: int = 0) -> list[Tensor]:
    """Return filter-normalised random directions for a model."""
    return [filter_normalised(layout, w, raw_direction(len(w), n, seed, w.dtype)) for n in range(count)]
