"""What a loss sees of a model's outputs.

torch's losses and flatfed's see the scores: a tensor as it is; of a mapping or record `logits`, or else its only
tensor; of a tuple the first tensor that has examples. `ff.model_loss` and a loss of the user's own see the outputs as
they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from flatfed.core.errors import ConfigError
from flatfed.core.task.losses import causal_cross_entropy, model_loss, token_cross_entropy
from flatfed.core.task.structures import Structure

Loss = Callable[[Any, Any], Tensor]
OF_SCORES: tuple[Loss, ...] = (token_cross_entropy, causal_cross_entropy)


def scores(outputs: Structure) -> Tensor:
    """Return the main output of a model."""
    found = find_scores(outputs)
    if found is None:
        raise ConfigError(
            f"the model returns {_kind(outputs)}, in which no tensor is called logits; give a loss of your own"
        )
    return found


def find_scores(outputs: Structure) -> Tensor | None:
    """Return the main output of a model, None where nothing says which it is."""
    if isinstance(outputs, Tensor):
        return outputs
    named = outputs.get("logits") if isinstance(outputs, Mapping) else getattr(outputs, "logits", None)
    if isinstance(named, Tensor):
        return named
    entries = list(outputs.values()) if isinstance(outputs, Mapping) else outputs
    if not isinstance(entries, tuple | list):
        return None
    # A scalar is a loss, and no score of an example.
    tensors = [entry for entry in entries if isinstance(entry, Tensor) and entry.ndim]
    is_clear = len(tensors) == 1 or (tensors and not isinstance(outputs, Mapping))
    return tensors[0] if is_clear else None


def _kind(outputs: Any) -> str:
    return f"{', '.join(map(str, outputs))}" if isinstance(outputs, Mapping) else f"a {type(outputs).__name__}"


def seen_by(loss: Loss) -> Callable[[Structure], Any]:
    """Return what takes from a model's outputs that of which the loss is taken."""
    if loss is model_loss:
        return _own_loss
    return scores if _is_of_scores(loss) else _as_they_are


def _own_loss(outputs: Structure) -> Any:
    return model_loss(outputs, None)


def _as_they_are(outputs: Structure) -> Any:
    return outputs


def _is_of_scores(loss: Any) -> bool:
    if isinstance(loss, functools.partial):
        return _is_of_scores(loss.func)
    named = type(loss) if isinstance(loss, nn.Module) else loss
    module = getattr(named, "__module__", None) or ""
    return loss in OF_SCORES or module.split(".")[0] == "torch"


class Criterion:
    """A loss of a model's outputs, whatever their structure: `criterion(outputs, targets)`."""

    def __init__(self, loss: Loss) -> None:
        self.loss = loss
        self._seen = seen_by(loss)

    def __call__(self, outputs: Structure, targets: Structure) -> Tensor:
        """Return the mean loss."""
        if isinstance(outputs, Tensor):  # the plain case, before anything is looked up
            return self.loss(outputs, targets)
        return self.of(self._seen(outputs), targets)

    def seen(self, outputs: Structure) -> Any:
        """Return what the loss is taken of."""
        return self._seen(outputs)

    def counted(self, targets: Structure, examples: int) -> float:
        """Return how many targets the mean is over, as far as the loss says it; else the number of examples."""
        if self.loss is token_cross_entropy:
            return float((targets >= 0).sum())
        if self.loss is causal_cross_entropy:
            return float((targets[..., 1:] >= 0).sum())
        return float(examples)

    def of(self, seen: Any, targets: Structure) -> Tensor:
        """Return the loss of what `seen` has returned."""
        if self.loss is model_loss:
            loss: Tensor = seen
            return loss
        return self.loss(seen, targets)
