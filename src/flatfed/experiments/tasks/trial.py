"""A task of the catalogue tried on two training examples: what cannot be trained is refused before anything starts."""

from __future__ import annotations

import copy
import json
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from flatfed.core.configuration.users_code import explained
from flatfed.core.errors import PARAMETER, ConfigError
from flatfed.core.model.devices import single_thread
from flatfed.core.randomness import preserved_global_state
from flatfed.core.task.task import Augment, BatchTransform
from flatfed.data.storage.pool import Pool

EXAMPLES = 2

# Weakly, so that a data set is not held for the sake of its trials.
_SUITED: weakref.WeakKeyDictionary[Pool, set[str]] = weakref.WeakKeyDictionary()
"""What was tried with success already: a comparison builds one task many times."""


@dataclass(frozen=True)
class Trial:
    """A data set, the augmentation of its training examples, and the names under which the user knows them.

    Args:
        pool: the data set.
        augment: augmentation of the raw batch, or None.
        batch_transform: augmentation of the prepared batch, or None.
        names: the augmentation as it was asked for; a truth value stands for the data set's own, or none.
    """

    pool: Pool
    augment: Augment | None
    batch_transform: BatchTransform | None
    names: bool | str

    def run(self, name: str, options: Mapping[str, Any], model: nn.Module) -> None:
        """Refuse a model or an augmentation that does not suit the data; the model is not changed."""
        suited = _SUITED.setdefault(self.pool, set())
        key = json.dumps([name, dict(options), self.names], sort_keys=True, default=str)
        if key in suited:
            return
        with single_thread(), preserved_global_state(), torch.no_grad():
            raw = self.pool.train.batch(torch.arange(min(EXAMPLES, len(self.pool.train))))
            inputs, targets = self._augmented(*raw)
            self._try_model(name, model, inputs, targets)
        suited.add(key)

    def _augmented(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the examples as a client would train on them."""
        try:
            return self._as_in_training(inputs, targets)
        except Exception as error:
            name = f"{PARAMETER} {self.names}" if isinstance(self.names, str) else "the augmentation of the data"
            kind, suits = _about(inputs, targets)
            raise ConfigError(f"{name} does not suit {self.pool.name}, {kind}; {suits}", parameter="augment") from error

    def _as_in_training(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(0)
        if self.augment is not None:
            if _has_masks(targets) and isinstance(self.names, str):
                raise ConfigError("the images would be moved, but not their masks")
            inputs = self.augment(inputs, generator)
        if self.pool.prepare is not None:
            inputs = self.pool.prepare(inputs)
        if self.batch_transform is None:
            return inputs, targets
        return self.batch_transform(inputs, targets, generator)

    def _try_model(self, name: str, model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
        outputs = self._outputs(name, model, inputs)
        try:
            self.pool.loss(outputs, _single(targets))
        except Exception as error:
            mismatch = f"gives {_kind_of_outputs(outputs)}, while the targets are {_kind_of(targets)}"
            raise ConfigError(
                f"the model {name} does not suit {self.pool.name}: for {self._shape(inputs)} it {mismatch}; "
                f"{self._others(name)}",
                parameter="model",
            ) from error
        self._check_classes(name, outputs, targets)

    def _outputs(self, name: str, model: nn.Module, inputs: Tensor) -> Any:
        try:
            return _training_outputs(model, _single(inputs))
        except Exception as error:
            # Of a model of the user's own, the error may tell where in it to look.
            why = f" ({explained(error)})" if ":" in name else ""
            raise ConfigError(
                f"the model {name} does not take {self.pool.name}, {self._shape(inputs)}{why}; {self._others(name)}",
                parameter="model",
            ) from error

    def _shape(self, inputs: Tensor) -> str:
        shape = f"examples of {_by(inputs.shape[1:])}"
        return f"{shape} (after augment {self.names})" if isinstance(self.names, str) else shape

    def _check_classes(self, name: str, outputs: Any, targets: Tensor) -> None:
        """Refuse scores of fewer classes than there are: some later example would have none."""
        scores = outputs[0] if isinstance(outputs, tuple | list) else outputs
        if not _are_scores(scores, targets) or scores.shape[1] >= self.pool.classes:
            return
        raise ConfigError(
            f"the model {name} does not suit {self.pool.name}: it gives scores of {scores.shape[1]} classes, and "
            f"there are {self.pool.classes}"
        )

    def _others(self, name: str) -> str:
        """Return what to do about a model that does not suit."""
        if name == self.pool.default_model:
            return f"choose another augmentation, or another {PARAMETER}"
        return f"choose another {PARAMETER}, or leave it out for {self.pool.default_model}"


def _training_outputs(model: nn.Module, inputs: Tensor) -> Any:
    """Return what a copy of the model gives in training; BatchNorm alone is as in tests, for two examples are few."""
    tried = copy.deepcopy(model).float().train()
    for module in tried.modules():
        if isinstance(module, _BatchNorm):
            module.eval()
    return tried(inputs)


def _are_scores(scores: Any, targets: Tensor) -> bool:
    """Say whether outputs are scores of classes, for targets that are classes."""
    if not isinstance(scores, Tensor) or targets.is_floating_point():
        return False
    return scores.ndim == targets.ndim + 1


def _single(values: Tensor) -> Tensor:
    return values.float() if values.is_floating_point() else values


def _has_masks(targets: Tensor) -> bool:
    return targets.ndim == 3


def _about(inputs: Tensor, targets: Tensor) -> tuple[str, str]:
    """Return what raw examples are, and which augmentations are for such."""
    shape = _by(inputs.shape[1:])
    if inputs.ndim != 4:
        kind = f"examples of {shape} that are no images, with {_kind_of(targets)}"
        return kind, f"augmentations are for images: {PARAMETER} none"
    if _has_masks(targets):
        return f"images of {shape} with {_kind_of(targets)}", "take scale-crop, flip-pair or cutout"
    return f"images of {shape} with {_kind_of(targets)}", "take crop, flip, cutout or another that is not for masks"


def _kind_of(targets: Tensor) -> str:
    shape = _by(targets.shape[1:])
    return f"a mask of {shape} per example" if _has_masks(targets) else f"{shape} per example"


def _kind_of_outputs(outputs: Any) -> str:
    """Return what a model gives for one example."""
    parts = list(outputs) if isinstance(outputs, tuple | list) and outputs else [outputs]
    first = parts[0]
    kind = _by(first.shape[1:]) if isinstance(first, Tensor) else f"a {type(first).__name__}"
    return kind if len(parts) == 1 else f"{kind} and {len(parts) - 1} more"


def _by(shape: torch.Size) -> str:
    return " x ".join(map(str, shape)) or "one number"
