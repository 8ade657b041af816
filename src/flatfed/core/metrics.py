"""What a test measures: sums that add up over batches, and the figures made from the totals.

Sums (not means) make evaluation exact over any division into batches and workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

Totals = Mapping[str, Tensor]
Figure = float | list[float | None]


class Metrics(Protocol):
    """How outputs become figures; segmentation, say, sums a confusion matrix and reports mIoU."""

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, Tensor]:
        """Return sums over one batch; `counted`, if given, is how many targets the mean loss was taken over."""
        ...

    def summarise(self, totals: Totals) -> dict[str, Figure]:
        """Return the figures for the history from the sums over all batches; the test set's name is put before."""
        ...


class Classification:
    """Accuracy, in all and by class, where targets are classes; nothing otherwise (a regression has its loss)."""

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, Tensor]:
        """Return the numbers of correct and of all predictions by class; negative targets are to be ignored."""
        if not isinstance(outputs, Tensor) or targets.is_floating_point() or outputs.ndim != targets.ndim + 1:
            return {}
        right, classes, counted = outputs.argmax(dim=1) == targets, outputs.shape[1], targets >= 0
        return {
            "correct": torch.bincount(targets[right], minlength=classes).double(),
            "decided": torch.bincount(targets[counted], minlength=classes).double(),
            "counted": counted.sum().double(),
        }

    def summarise(self, totals: Totals) -> dict[str, Figure]:
        """Return `accuracy` between 0 and 1, and `class_accuracy`, None for a class without examples."""
        if "correct" not in totals or not bool(totals["decided"].any()):
            return {}
        correct, decided = totals["correct"], totals["decided"]
        shares = [float(c / d) if d else None for c, d in zip(correct, decided, strict=True)]
        return {"accuracy": float(correct.sum() / decided.sum()), "class_accuracy": shares}


def add_up(parts: Iterable[Totals]) -> dict[str, Tensor]:
    """Add sums in the order given."""
    total: dict[str, Tensor] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total[name] + value if name in total else value
    return total


def figures(metrics: Metrics, totals: Totals) -> dict[str, Figure]:
    """Return the mean loss, unless no target counted, and the other figures from the sums over all batches."""
    loss: dict[str, Figure] = {"loss": float(totals["loss"] / totals["counted"])} if totals["counted"] > 0 else {}
    return loss | metrics.summarise(totals)
