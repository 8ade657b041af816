"""Loss and metrics of segmentation: a class for every pixel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.core.task.metrics import SEGMENTATION, Declared, MetricValue, Totals


@dataclass(frozen=True)
class SegmentationLoss:
    """Cross-entropy of the hardest pixels: in each image the share `keep` with the highest losses, averaged.

    An `ignore` pixel has the loss 0 and is kept only where an image has too few others; an image without any other
    contributes 0. Where a model in training returns several outputs (main, then auxiliary ones), the loss is that of
    the main one plus `auxiliary` times the sum of the others.
    """

    ignore: int = 255
    keep: float = 0.25
    auxiliary: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.keep <= 1.0:
            raise ConfigError(f"SegmentationLoss: keep must be above 0 and at most 1, not {self.keep}")

    def __call__(self, outputs: Any, targets: Tensor) -> Tensor:
        """Return the mean over the images; scores are N x classes x height x width, targets N x height x width."""
        main, *others = outputs if isinstance(outputs, tuple | list) else (outputs,)
        loss = self.hardest(main, targets)
        for scores in others:
            loss = loss + self.auxiliary * self.hardest(scores, targets)
        return loss

    def hardest(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of one output."""
        losses = F.cross_entropy(scores, targets, ignore_index=self.ignore, reduction="none").flatten(1)
        count = max(1, int(self.keep * losses.shape[1]))
        return losses.topk(count, dim=1, sorted=False).values.mean()


@dataclass(frozen=True)
class Segmentation:
    """Mean intersection over union (mIoU), that of each class, and the share of pixels that are right.

    All come from one confusion matrix over the whole test set; `ignore` pixels do not count. A class's figure is
    TP/(TP+FP+FN); the mean is over the classes that the masks of the test set have. It is given as `accuracy` too, for
    scripts that read one name for every task; tables and curves call it mIoU.
    """

    shown: ClassVar[Declared] = SEGMENTATION

    classes: int
    ignore: int = 255

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, Tensor]:
        """Return the confusion matrix of a batch: how many pixels of class i (row) were taken for class j."""
        scores: Tensor = outputs[0] if isinstance(outputs, tuple | list) else outputs
        known = targets != self.ignore
        true, taken = targets[known], scores.argmax(dim=1)[known]
        if len(true) and not 0 <= int(true.min()) <= int(true.max()) < self.classes:
            raise ConfigError(f"a mask holds labels outside 0..{self.classes - 1}, besides {self.ignore} (no class)")
        cells = torch.bincount(true * self.classes + taken, minlength=self.classes**2)
        # Doubles are exact for whole numbers up to 2^53.
        return {"confusion": cells.double().view(self.classes, self.classes)}

    def summarise(self, totals: Totals) -> dict[str, MetricValue]:
        """Return `miou` (as `accuracy` too), `pixel_accuracy` and `class_iou`, None for a class without pixels."""
        confusion = totals["confusion"]
        right, true, taken = confusion.diag(), confusion.sum(dim=1), confusion.sum(dim=0)
        if not bool(true.any()):
            return {}
        # 0/0 for a class that neither masks nor predictions have; the mean leaves it out.
        shares = right / (true + taken - right)
        mean = float(shares[true > 0].mean())
        return {
            "accuracy": mean,
            "miou": mean,
            "pixel_accuracy": float(right.sum() / true.sum()),
            "class_iou": [float(share) if pixels else None for share, pixels in zip(shares, true, strict=True)],
        }
