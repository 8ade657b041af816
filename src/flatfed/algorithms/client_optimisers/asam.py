"""Adaptive SAM: the ascent on the scale of the weights."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from flatfed.core.configuration.checking import NonNegative
from flatfed.core.method.algorithm import ClientOptimiser
from flatfed.core.method.client import Client
from flatfed.core.method.vectors import GUARD, length

Scaled = Literal["weights", "all"]
"""The tensors that ASAM scales: those whose name contains `weight`, or all."""


def asam_gradient(client: Client, rho: float, eta: float, tensors: Scaled = "weights") -> Tensor:
    """Return the gradient at `w + rho * T^2 g / (||T g|| + 1e-16)`, `T = |w| + eta` on `tensors` and 1 elsewhere."""
    T = client.w.abs().add_(eta)
    if tensors == "weights":
        T = torch.where(client.is_weight, T, 1.0)
    Tg = T * client.gradient()
    # `T` is not needed any more, so the perturbation is made in its memory.
    eps = T.mul_(rho).mul_(Tg).div_(length(Tg) + GUARD)
    return client.gradient(at=eps.add_(client.w))


class ASAM(ClientOptimiser, id="asam"):
    """Adaptive SAM: `eps = rho * T^2 g / (||T g|| + 1e-16)`; two backprops.

    `T = |w| + eta` on tensors whose name contains `weight`, 1 elsewhere; with `tensors="all"` on every one. Kwon et
    al., "ASAM: Adaptive sharpness-aware minimization for scale-invariant learning of deep neural networks", ICML 2021.
    """

    rho: NonNegative = 0.5
    eta: NonNegative = 0.2
    tensors: Scaled = "weights"

    def gradient(self, client: Client) -> Tensor:
        """Return the gradient at the adaptive ascent point."""
        return asam_gradient(client, self.rho, self.eta, self.tensors)
