"""Metrics of regressions, of a class per token, and of language models, and which metrics go with which loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.core.task.losses import causal_cross_entropy, model_loss, token_cross_entropy
from flatfed.core.task.metrics import ACCURACY, Classification, Declared, Metrics, MetricValue, Shown, Totals
from flatfed.core.task.outputs import Loss, scores


@dataclass(frozen=True)
class Regression:
    """Mean absolute and squared error, and the share of the targets' variance that is explained.

        mae = mean |f - y|,   mse = mean (f - y)^2,   r2 = 1 - sum (f - y)^2 / sum (y - mean y)^2

    Means are over all entries of the targets; with several per example, `r2` takes each one's own mean. Where a model
    learns `y / scale`, errors are in the unit of y.
    """

    scale: float = 1.0
    shown: ClassVar[Declared] = {
        "mae": Shown("MAE", higher_is_better=False),
        "mse": Shown("MSE", higher_is_better=False),
        "r2": Shown("R²", higher_is_better=True),
    }

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, Tensor]:
        """Return the sums of errors, and of targets and their squares for each entry of an example."""
        true = targets.double().flatten(1) if targets.ndim > 1 else targets.double().unsqueeze(1)
        errors = scores(outputs).double().reshape(true.shape) - true
        return {
            "squared": errors.square().sum(),
            "absolute": errors.abs().sum(),
            "target": true.sum(dim=0),
            "target_squared": true.square().sum(dim=0),
            "examples": torch.tensor(float(len(true)), dtype=torch.float64),
        }

    def summarise(self, totals: Totals) -> dict[str, MetricValue]:
        """Return `mae`, `mse` and `r2`, which is None where all targets are equal."""
        examples, target, squares = totals["examples"], totals["target"], totals["target_squared"]
        entries = float(examples) * len(target)
        spread = float((squares - target.square() / examples).clamp(min=0).sum())
        squared = float(totals["squared"])
        # Of equal targets the difference is what rounding leaves.
        is_constant = spread <= 1e-12 * max(float(squares.sum()), 1e-300)
        return {
            "mae": self.scale * float(totals["absolute"]) / entries,
            "mse": self.scale**2 * squared / entries,
            "r2": None if is_constant else 1 - squared / spread,
        }


class TokenClassification(Classification):
    """Accuracy over the labelled tokens; scores are N x tokens x classes, negative targets do not count."""

    classes_last: ClassVar[bool] = True

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, Tensor]:
        """Return the numbers of correct and of all labelled tokens by class."""
        of_tokens, flat = scores(outputs), targets.flatten()
        return super().measure(of_tokens.flatten(0, -2), flat)


class CausalLanguageModel:
    """Perplexity, `exp` of the mean loss per token that counts, and the share of next tokens that are right."""

    shown: ClassVar[Declared] = {"perplexity": Shown("perplexity", higher_is_better=False), "accuracy": ACCURACY}
    classes_last: ClassVar[bool] = True

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, Tensor]:
        """Return how many next tokens count, and how many are right."""
        following = targets[..., 1:]
        counted = following >= 0
        right = scores(outputs)[..., :-1, :].argmax(dim=-1) == following
        return {"right": (right & counted).sum().double(), "counted": counted.sum().double()}

    def summarise(self, totals: Totals) -> dict[str, MetricValue]:
        """Return `perplexity`, None where it is beyond all numbers, and `accuracy`."""
        if not totals["counted"] > 0:
            return {}
        perplexity = float(torch.exp(totals["loss"] / totals["counted"]))
        shown = perplexity if perplexity < float("inf") else None
        return {"perplexity": shown, "accuracy": float(totals["right"] / totals["counted"])}


class MetricsOfLoss(Classification):
    """Stands for the metrics that go with the task's loss."""


def metrics_of_loss(loss: Loss) -> Metrics:
    """Return the metrics of a loss where none are named: they count the targets that its mean is over."""
    if loss is token_cross_entropy:
        return TokenClassification()
    if loss is causal_cross_entropy:
        return CausalLanguageModel()
    if loss is model_loss:
        raise ConfigError(
            "loss=ff.model_loss: name the metrics too, for what the model's mean is over: ff.Classification(), "
            "ff.TokenClassification(), ff.CausalLanguageModel() or ff.Regression()"
        )
    return Classification()
