"""SAM: the gradient at the ascent point."""

from __future__ import annotations

from torch import Tensor, nn

from flatfed.core.configuration.checking import NonNegative
from flatfed.core.method.algorithm import ClientOptimiser
from flatfed.core.method.client import Client
from flatfed.core.method.vectors import unit
from flatfed.core.model.full_space import FullSpace, Space


def sam_gradient(client: Client, rho: float, space: Space = "trained") -> Tensor:
    """Return `g(w + rho * unit(g(w)))`, both on one batch; in the full space the ascent moves frozen weights too."""
    if space == "full":
        ascent = unit(client.gradient_in_full_space())
        return client.gradient(moved=ascent.mul_(rho))
    ascent = unit(client.gradient())
    # `unit` has made a new vector, so working in place leaves the gradient as it is.
    return client.gradient(at=ascent.mul_(rho).add_(client.w))


class SAM(ClientOptimiser, id="sam"):
    """Sharpness-aware minimisation: `g(w + rho * unit(g(w)))`, both on one batch; two backprops.

    With `space="full"` the ascent is taken in all weights that the model computes with. Of a model with LoRA adapters
    these are `W = W0 + s B A`: the step is the gradient by A and B at `W + rho * unit(dL/dW)`. By default the ascent
    moves A and B themselves. Where nothing is frozen both are the same.

    Foret et al., "Sharpness-aware minimization for efficiently improving generalization", ICLR 2021.
    """

    rho: NonNegative = 0.05
    space: Space = "trained"

    def check_model(self, model: nn.Module) -> None:
        """Refuse a model that has no full space, where the ascent is to go there."""
        if self.space == "full":
            FullSpace(model)

    def gradient(self, client: Client) -> Tensor:
        """Return the gradient at the ascent point."""
        return sam_gradient(client, self.rho, self.space)
