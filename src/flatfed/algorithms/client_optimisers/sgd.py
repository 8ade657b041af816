"""Plain SGD: the gradient where the client stands."""

from __future__ import annotations

from torch import Tensor

from flatfed.core.method.algorithm import ClientOptimiser
from flatfed.core.method.client import Client


class SGD(ClientOptimiser, id="sgd"):
    """The plain gradient `g(w)`; one backprop."""

    def gradient(self, client: Client) -> Tensor:
        """Return `g(w)`."""
        return client.gradient()
