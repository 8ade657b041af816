"""Losses that torch does not have as such: over tokens, over next tokens, and the one that a model computes itself.

Means are over the targets that count. A negative target (-100, say) does not. Where none counts, the loss is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from flatfed.core.errors import ConfigError

IGNORED = -100
"""The target of a token that does not count."""


def token_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy over the labelled tokens; scores are N x tokens x classes, targets N x tokens."""
    flat = targets.flatten()
    # A class of its own for all that is to be ignored, whichever negative number says so.
    flat = flat.masked_fill(flat < 0, IGNORED)
    total = F.cross_entropy(outputs.flatten(0, -2), flat, ignore_index=IGNORED, reduction="sum")
    return total / (flat >= 0).sum().clamp(min=1)


def causal_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy of each next token: the scores at place t are for the target at t + 1."""
    return token_cross_entropy(outputs[..., :-1, :], targets[..., 1:])


def model_loss(outputs: Any, targets: Any) -> Tensor:
    """Return the loss that the model has computed: its output `loss`, or the first one if it returns a tuple."""
    found = outputs.get("loss") if isinstance(outputs, Mapping) else getattr(outputs, "loss", None)
    if found is None and isinstance(outputs, tuple | list) and outputs:
        found = outputs[0]
    if not isinstance(found, Tensor) or found.ndim:
        raise ConfigError(
            "loss=ff.model_loss, but the model returns no scalar called loss; take another loss, or let it return one"
        )
    return found
