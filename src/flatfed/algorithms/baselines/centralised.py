"""Centralised training: what federated methods would reach if all data lay in one place."""

from __future__ import annotations

from typing import ClassVar

from flatfed.algorithms.client_optimisers import SGD
from flatfed.core.method.algorithm import Algorithm, ClientOptimiser


class Centralised(Algorithm, id="centralised"):
    """Training without a federation: one client holds everyone's examples.

        w <- w - lr * (g(w) + wd * w)                           on mini-batches of all examples

    A round is `local_epochs` passes over all of them. The baseline of Caldarola et al., "Improving generalization in
    federated learning by seeking flat minima", ECCV 2022, and of its successors.
    """

    client_opt: ClientOptimiser = SGD()

    pooled: ClassVar[bool] = True
