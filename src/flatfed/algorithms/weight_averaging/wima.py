"""WIMA: evaluate the mean of the last global models."""

from __future__ import annotations

from torch import Tensor

from flatfed.core.configuration.checking import Count
from flatfed.core.method.algorithm import Average
from flatfed.core.method.state import Slots, State, scalar, window


class WIMA(Average, id="wima"):
    """Window-based model averaging: the mean of the last `window` global models is evaluated.

    Only models after aggregation count, never the initial one; clients still receive the current model. Caldarola
    et al., "Window-based model averaging improves generalization in heterogeneous federated learning", ICCV Workshops
    2023.
    """

    window: Count = 100

    def state(self, rounds: int) -> Slots:
        """Declare the last models and how many have been seen."""
        return {"models": window(min(self.window, rounds), of="vector"), "count": scalar()}

    def capture(self, kept: State, before: Tensor, after: Tensor, round: int, rounds: int) -> None:
        """Put the new model in the place of the oldest."""
        # A ring: nothing is shifted, for the mean does not ask which model is the oldest.
        kept.models[int(kept.count) % len(kept.models)] = after
        kept.count += 1

    def evaluated(self, kept: State, w: Tensor) -> Tensor:
        """Return the mean of the models seen, at most `window`."""
        seen = min(int(kept.count), len(kept.models))
        return kept.models[:seen].mean(dim=0) if seen else w
