"""What a model of `transformers` learns, by its class: the loss and the metrics that go with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from flatfed.core.errors import ConfigError, nearest
from flatfed.core.task.losses import causal_cross_entropy, token_cross_entropy
from flatfed.core.task.metrics import Classification, Metrics
from flatfed.core.task.outputs import Loss, scores
from flatfed.core.task.token_metrics import CausalLanguageModel, Regression, TokenClassification

SEQUENCE, TOKENS, CAUSAL = "sequence-classification", "token-classification", "causal-lm"
SEQ2SEQ, IMAGES, REGRESSION = "seq2seq-lm", "image-classification", "sequence-regression"


class SequenceToSequence(CausalLanguageModel):
    """Perplexity and accuracy of the tokens that a decoder predicts: scores at place t are for the target at t."""

    classes_last: ClassVar[bool] = True

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, Tensor]:
        """Return how many tokens count, and how many are right."""
        counted = targets >= 0
        right = scores(outputs).argmax(dim=-1) == targets
        return {"right": (right & counted).sum().double(), "counted": counted.sum().double()}


@dataclass(frozen=True)
class Kind:
    """A kind of task.

    Args:
        id: its name.
        auto: the class of `transformers` that loads such models.
        loss: of the model's `logits`.
        metrics: what a test measures.
        endings: how the names of such classes end.
    """

    id: str
    auto: str
    loss: Loss
    metrics: type[Metrics]
    endings: tuple[str, ...] = ()


KINDS = {
    kind.id: kind
    for kind in (
        Kind(
            SEQUENCE,
            "AutoModelForSequenceClassification",
            F.cross_entropy,
            Classification,
            ("ForSequenceClassification",),
        ),
        Kind(REGRESSION, "AutoModelForSequenceClassification", F.mse_loss, Regression),
        Kind(
            TOKENS,
            "AutoModelForTokenClassification",
            token_cross_entropy,
            TokenClassification,
            ("ForTokenClassification",),
        ),
        Kind(
            CAUSAL,
            "AutoModelForCausalLM",
            causal_cross_entropy,
            CausalLanguageModel,
            ("ForCausalLM", "LMHeadModel"),
        ),
        Kind(
            SEQ2SEQ,
            "AutoModelForSeq2SeqLM",
            token_cross_entropy,
            SequenceToSequence,
            ("ForConditionalGeneration", "ForSeq2SeqLM"),
        ),
        Kind(IMAGES, "AutoModelForImageClassification", F.cross_entropy, Classification, ("ForImageClassification",)),
    )
}


def named_kind(id: str) -> Kind:
    """Return the kind of this name."""
    if id not in KINDS:
        raise ConfigError(nearest(id, KINDS, "kind of task"))
    return KINDS[id]


def kind_of(model: nn.Module) -> Kind:
    """Return what a model learns, by its class."""
    kind = kind_of_classes([cls.__name__ for cls in type(model).__mro__])
    if kind is None:
        raise ConfigError(f"{type(model).__name__} has no head that is known; say task=, one of {', '.join(KINDS)}")
    config = getattr(model, "config", None)
    return _by_config(kind, config)


def kind_of_classes(names: list[str]) -> Kind | None:
    """Return the kind of the first class whose name tells it; None where none does."""
    for name in names:
        for kind in KINDS.values():
            if name.endswith(kind.endings or ("/",)):
                return kind
    return None


def _by_config(kind: Kind, config: Any) -> Kind:
    """Return the kind as the model's configuration has it: a head of one number is a regression."""
    if kind.id != SEQUENCE:
        return kind
    problem = getattr(config, "problem_type", None)
    if problem == "multi_label_classification":
        raise ConfigError("a model of several labels per text: build an ff.Task with a loss and metrics of your own")
    is_regression = problem == "regression" or (problem is None and getattr(config, "num_labels", 2) == 1)
    return KINDS[REGRESSION] if is_regression else kind
