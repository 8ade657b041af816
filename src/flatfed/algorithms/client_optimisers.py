"""Client optimisers: SGD, SAM and its relatives, each built on the gradient oracle.

They replace `g(w)` in a local step and nothing else: the ascent follows the raw data gradient; corrections,
clipping and weight decay act at the unperturbed point.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from flatfed.core.algorithm import ClientOptimiser
from flatfed.core.client import Client
from flatfed.core.config import Fraction, NonNegative
from flatfed.core.state import Slots, vector
from flatfed.core.vectors import GUARD, unit

Scaled = Literal["weights", "all"]
"""The tensors that ASAM scales: those whose name contains `weight`, or all."""


def sam_gradient(client: Client, rho: float) -> Tensor:
    """Return `g(w + rho * unit(g(w)))`, both on one batch."""
    ascent = unit(client.gradient())
    return client.gradient(at=ascent.mul_(rho).add_(client.w))


def asam_gradient(client: Client, rho: float, eta: float, tensors: Scaled = "weights") -> Tensor:
    """Return the gradient at `w + rho * T^2 g / (||T g|| + 1e-16)`, `T = |w| + eta` on `tensors` and 1 elsewhere."""
    T = client.w.abs().add_(eta)
    if tensors == "weights":
        T = torch.where(client.is_weight, T, 1.0)
    Tg = T * client.gradient()
    eps = T.mul_(rho).mul_(Tg).div_(torch.linalg.vector_norm(Tg) + GUARD)
    return client.gradient(at=eps.add_(client.w))


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
        return sam_gradient(client, self.rho)


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


class PreviousSAM(ClientOptimiser, id="sam-prev"):
    """SAM along the client's previous sharpness-aware gradient, of another batch; one backprop.

        g <- g(w + rho * unit(g))                               zero at first: the first step is not perturbed

    The gradient of a client's last step lives on to its next round. Caldarola et al., "Beyond local sharpness:
    Communication-efficient global sharpness-aware minimization for federated learning", CVPR 2025.
    """

    rho: NonNegative = 0.05

    def client_state(self) -> Slots:
        """Declare the previous sharpness-aware gradient."""
        return {"previous_gradient": vector()}

    def gradient(self, client: Client) -> Tensor:
        """Return the gradient at the point perturbed along the previous one."""
        ascent = unit(client.kept.previous_gradient)
        gradient = client.gradient(at=ascent.mul_(self.rho).add_(client.w))
        client.kept.previous_gradient = gradient
        return gradient


class VaSSO(ClientOptimiser, id="vasso"):
    """Variance-suppressed SAM: the ascent follows a moving average of gradients; two backprops.

        d <- (1 - theta) d + theta g(w)                         d = g(w) in the first step of a round
        g(w + rho * unit(d))

    Li and Giannakis, "Enhancing sharpness-aware optimization through variance suppression", NeurIPS 2023.
    """

    rho: NonNegative = 0.05
    theta: Fraction = 0.9

    def gradient(self, client: Client) -> Tensor:
        """Return the gradient at the smoothed ascent point."""
        g = client.gradient()
        d = g.clone() if client.step == 0 else client.memo.d.lerp(g, self.theta)
        client.memo.d = d
        return client.gradient(at=client.w + self.rho * unit(d))


class FriendlySAM(ClientOptimiser, id="fsam"):
    """Friendly SAM: the ascent leaves out what the moving average of gradients explains; two backprops.

        g(w + rho * unit(g(w) - sigma m))                       the first step of a round follows g(w)
        m <- lam m + (1 - lam) g(w)                             m = g(w) after the first step

    Li et al., "Friendly sharpness-aware minimization", CVPR 2024.
    """

    rho: NonNegative = 0.2
    sigma: NonNegative = 1.0
    lam: Fraction = 0.6

    def gradient(self, client: Client) -> Tensor:
        """Return the gradient at the friendly ascent point."""
        g = client.gradient()
        first = client.step == 0
        ascent = unit(g if first else g - self.sigma * client.memo.m)
        client.memo.m = g.clone() if first else g.lerp(client.memo.m, self.lam)
        return client.gradient(at=client.w + self.rho * ascent)
