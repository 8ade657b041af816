"""Client optimisers: SGD, SAM and ASAM, each built on the gradient oracle.

They replace `g(w)` in a local step and nothing else: the ascent follows the raw data gradient; corrections,
clipping and weight decay act at the unperturbed point.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flatfed.core.algorithm import ClientOptimiser
from flatfed.core.client import Client
from flatfed.core.config import NonNegative
from flatfed.core.vectors import GUARD, unit


class SGD(ClientOptimiser, id="sgd"):
    """The plain gradient `g(w)`; one backprop."""

    def gradient(self, client: Client) -> Tensor:
        """Return `g(w)`."""
        return client.gradient()


class SAM(ClientOptimiser, id="sam"):
    """Sharpness-aware minimisation: `g(w + rho * unit(g(w)))`, both on one batch; two backprops.

    Foret et al., "Sharpness-aware minimization for efficiently improving generalization", ICLR 2021.
    """

    rho: NonNegative = 0.05

    def gradient(self, client: Client) -> Tensor:
        """Return the gradient at the ascent point."""
        ascent = unit(client.gradient())
        return client.gradient(at=ascent.mul_(self.rho).add_(client.w))


class ASAM(ClientOptimiser, id="asam"):
    """Adaptive SAM: `eps = rho * T^2 g / (||T g|| + 1e-16)`; two backprops.

    `T = |w| + eta` on tensors whose name contains `weight`, 1 elsewhere. Kwon et al., "ASAM: Adaptive
    sharpness-aware minimization for scale-invariant learning of deep neural networks", ICML 2021.
    """

    rho: NonNegative = 0.5
    eta: NonNegative = 0.2

    def gradient(self, client: Client) -> Tensor:
        """Return the gradient at the adaptive ascent point."""
        T = torch.where(client.is_weight, client.w.abs() + self.eta, 1.0)
        Tg = T * client.gradient()
        eps = self.rho * T * Tg / (torch.linalg.vector_norm(Tg) + GUARD)
        return client.gradient(at=client.w + eps)
