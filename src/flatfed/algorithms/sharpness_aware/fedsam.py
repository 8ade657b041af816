"""FedSAM and FedASAM: FedAvg with a sharpness-aware client optimiser."""

from __future__ import annotations

from torch import Tensor, nn

from flatfed.algorithms.bases.server_rate import ServerRate
from flatfed.algorithms.client_optimisers import Scaled, asam_gradient, sam_gradient
from flatfed.core.configuration.checking import NonNegative
from flatfed.core.method.client import Client
from flatfed.core.model.full_space import FullSpace, Space


class FedSAM(ServerRate, id="fedsam"):
    """FedAvg whose clients run SAM: each step descends along `g(w + rho * unit(g(w)))`.

    Caldarola et al., "Improving generalization in federated learning by seeking flat minima", ECCV 2022; Qu et
    al., "Generalized federated learning via sharpness aware minimization", ICML 2022.
    `space`: where the ascent goes in a model with frozen weights, as of `sam`.
    """

    rho: NonNegative = 0.05
    space: Space = "trained"

    def check_model(self, model: nn.Module) -> None:
        """Refuse a model that has no full space, where the ascent is to go there."""
        if self.space == "full":
            FullSpace(model)

    def gradient(self, client: Client) -> Tensor:
        """Return SAM's gradient."""
        return sam_gradient(client, self.rho, self.space)


class FedASAM(ServerRate, id="fedasam"):
    """FedAvg whose clients run adaptive SAM, whose ascent is scaled by the size of each weight.

    Caldarola et al., "Improving generalization in federated learning by seeking flat minima", ECCV 2022.
    """

    rho: NonNegative = 0.5
    eta: NonNegative = 0.2
    tensors: Scaled = "weights"

    def gradient(self, client: Client) -> Tensor:
        """Return ASAM's gradient."""
        return asam_gradient(client, self.rho, self.eta, self.tensors)
