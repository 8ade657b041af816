"""A method from outside flatfed, as the server and the sites of these tests have it."""

from __future__ import annotations

from torch import Tensor

from flatfed.core.configuration.checking import NonNegative
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.client import Client


class Steeper(Algorithm, id="flower-steeper"):
    """Gradients that are longer by a share."""

    rho: NonNegative = 0.5

    def gradient(self, client: Client) -> Tensor:
        """Return the longer gradient."""
        return client.gradient() * (1 + self.rho)
