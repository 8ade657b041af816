"""What a test measures: sums that add up over batches, and the figures made from the totals.

Sums (not means) make evaluation exact over any division into batches and workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

Totals = Mapping[str, Tensor]


class Metrics(Protocol):
    """How outputs become figures; segmentation, say, sums a confusion matrix and reports mIoU."""

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, Tensor]:
        """Return sums over one batch."""
        ...

    def summarise(self, totals: Totals) -> dict[str, float]:
        """Return the figures for the history from the sums over all batches."""
        ...


class Classification:
    """Accuracy, where targets are classes; nothing otherwise (a regression has its loss)."""

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, Tensor]:
        """Return the number of correct predictions."""
        if not isinstance(outputs, Tensor) or targets.is_floating_point() or outputs.ndim != targets.ndim + 1:
            return {}
        right = (outputs.argmax(dim=1) == targets).double()
        return {"correct": right.sum(), "decided": torch.tensor(float(right.numel()), dtype=torch.float64)}

    def summarise(self, totals: Totals) -> dict[str, float]:
        """Return `test_accuracy` between 0 and 1."""
        return {"test_accuracy": float(totals["correct"] / totals["decided"])} if "correct" in totals else {}


def add_up(parts: Iterable[Totals]) -> dict[str, Tensor]:
    """Add sums in the order given."""
    total: dict[str, Tensor] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total[name] + value if name in total else value
    return total
