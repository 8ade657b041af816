"""The loss of a quantity, which is learnt in standard units."""

from __future__ import annotations

from torch import Tensor


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of `(output - target)^2`, both N x 1."""
    if outputs.shape != targets.shape:
        raise ValueError(f"outputs of {tuple(outputs.shape)} for targets of {tuple(targets.shape)}")
    return (outputs - targets).square().mean()
