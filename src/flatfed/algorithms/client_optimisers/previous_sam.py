"""SAM with one backprop: along the previous gradient."""

from __future__ import annotations

from torch import Tensor

from flatfed.core.configuration.checking import NonNegative
from flatfed.core.method.algorithm import ClientOptimiser
from flatfed.core.method.client import Client
from flatfed.core.method.state import Slots, vector
from flatfed.core.method.vectors import unit


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
        # The assignment copies: the gradient itself lies in memory that is used again.
        client.kept.previous_gradient = gradient
        return gradient
