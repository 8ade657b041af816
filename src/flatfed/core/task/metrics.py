"""What a test measures: sums that add up over batches, and the metrics made from the totals.

Sums (not means) make evaluation exact over any division into batches and workers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.core.task.outputs import find_scores

Totals = Mapping[str, Tensor]
MetricValue = float | None | list[Any]


@dataclass(frozen=True)
class Shown:
    """How reports show one number of a test.

    Args:
        label: its name for people; by default its name in the history, with spaces.
        unit: `%` for a share between 0 and 1, which is printed times 100; any other is printed beside the label.
        higher_is_better: None where that is not known: there is no best, and no target to reach.
    """

    label: str = ""
    unit: str = ""
    higher_is_better: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.label, str) or not isinstance(self.unit, str):
            raise ConfigError(f"Shown: label and unit are texts, not {self.label!r} and {self.unit!r}")
        if self.higher_is_better not in (True, False, None):
            raise ConfigError(f"Shown: higher_is_better is True, False or None, not {self.higher_is_better!r}")

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return asdict(self)


Declared = Mapping[str, Shown | None]
"""Numbers by name and how they are shown; None keeps a number out of tables."""

ACCURACY = Shown("accuracy", "%", higher_is_better=True)
LOSS = Shown("loss", higher_is_better=False)
SEGMENTATION: Declared = {
    "miou": Shown("mIoU", "%", higher_is_better=True),
    "pixel_accuracy": Shown("pixel accuracy", "%", higher_is_better=True),
    "accuracy": None,  # mIoU under another name
}


class Metrics(Protocol):
    """How outputs become metrics; segmentation, say, sums a confusion matrix and reports mIoU.

    An attribute `shown`, numbers by name to `Shown`, says how reports show them. The first that a test gives is the
    task's primary metric; without the attribute it is the first number of `summarise`, or the loss where there is none.
    """

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, Tensor]:
        """Return sums over one batch; `counted`, if given, is how many targets the mean loss was taken over.

        Where it is not, that is the number of examples, or what a loss over tokens counts.
        """
        ...

    def summarise(self, totals: Totals) -> dict[str, MetricValue]:
        """Return the metrics for the history from the sums over all batches; the test set's name is put before."""
        ...


class Classification:
    """Accuracy, in all and by class, where targets are classes; nothing otherwise (a regression has its loss)."""

    shown: ClassVar[Declared] = {"accuracy": ACCURACY}

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, Tensor]:
        """Return the numbers of correct and of all predictions by class; negative targets are to be ignored."""
        # Of several outputs without names, nobody has said that the first are scores.
        outputs = None if isinstance(outputs, tuple | list) else find_scores(outputs)
        if not isinstance(outputs, Tensor) or not isinstance(targets, Tensor):
            return {}
        if targets.is_floating_point() or outputs.ndim != targets.ndim + 1:
            return {}
        classes = outputs.shape[1]
        # A prediction is never negative, so targets that are to be ignored are never right.
        right = outputs.argmax(dim=1) == targets
        counted = targets >= 0
        return {
            "correct": torch.bincount(targets[right], minlength=classes).double(),
            "decided": torch.bincount(targets[counted], minlength=classes).double(),
            "counted": counted.sum().double(),
        }

    def summarise(self, totals: Totals) -> dict[str, MetricValue]:
        """Return `accuracy` between 0 and 1, and `class_accuracy`, None for a class without examples."""
        if "correct" not in totals or not bool(totals["decided"].any()):
            return {}
        correct, decided = totals["correct"], totals["decided"]
        shares = [_share(right, count) for right, count in zip(correct, decided, strict=True)]
        return {"accuracy": float(correct.sum() / decided.sum()), "class_accuracy": shares}


def _share(right: Tensor, count: Tensor) -> float | None:
    return float(right / count) if count else None


def add_up(parts: Iterable[Totals]) -> dict[str, Tensor]:
    """Add sums in the order given."""
    total: dict[str, Tensor] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total[name] + value if name in total else value
    return total


def metric_values(metrics: Metrics, totals: Totals) -> dict[str, MetricValue]:
    """Return the mean loss, unless no target counted, and the other metrics from the sums over all batches."""
    values: dict[str, MetricValue] = {}
    if totals["counted"] > 0:
        values["loss"] = float(totals["loss"] / totals["counted"])
    own: Any = metrics.summarise(totals)
    if not isinstance(own, Mapping):
        raise ConfigError(f"summarise of {type(metrics).__name__} must return numbers by name, not {own!r}")
    return values | {str(name): _plain(value, str(name)) for name, value in own.items()}


def _plain(value: Any, name: str) -> MetricValue:
    """Return a metric's value as JSON can hold it: tensors and NumPy's numbers become plain ones, arrays lists."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(plain, bool):
        return float(plain)
    if plain is None or isinstance(plain, int | float):
        return plain
    if isinstance(plain, list | tuple):
        return [_entry(entry, name) for entry in plain]
    raise ConfigError(
        f"the metric {name!r} is a {type(value).__name__}; summarise must return numbers, tensors or lists of numbers"
    )


def _entry(value: Any, name: str) -> MetricValue:
    """Return an entry of a list; one that is not finite is None."""
    plain = _plain(value, name)
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


def declared(metrics: Metrics) -> Declared:
    """Return how a task's metrics want to be shown."""
    shown: Any = getattr(metrics, "shown", {})
    if not isinstance(shown, Mapping) or not all(isinstance(entry, Shown | None) for entry in shown.values()):
        name = type(metrics).__name__
        raise ConfigError(f"{name}.shown must be numbers by name to ff.Shown(...), or None to leave one out of tables")
    return shown
