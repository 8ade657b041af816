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

from flatfed.core.errors import ConfigError
from flatfed.core.randomness import preserved_global_state
from flatfed.core.task.task import Augment, Joint
from flatfed.core.threads import single_thread
from flatfed.data.storage.pool import Pool
from flatfed.models.catalogue import explained

EXAMPLES = 2

_SUITED: weakref.WeakKeyDictionary[Pool, set[str]] = weakref.WeakKeyDictionary()
"""What was tried with success already: a comparison builds one task many times."""


@dataclass(frozen=True)
class Trial:
    """A data set, the augmentation of its training examples, and the names under which the user knows them.

    Args:
        pool: the data set.
        augment: augmentation of the raw batch, or None.
        joint: augmentation of the prepared batch, or None.
        names: the augmentation as it was asked for; a truth value stands for the data set's own, or none.
    """

    pool: Pool
    augment: Augment | None
    joint: Joint | None
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
        generator, raw = torch.Generator().manual_seed(0), (inputs, targets)
        try:
            if self.augment is not None:
                if _has_masks(targets) and isinstance(self.names, str):
                    raise ConfigError("the images would be moved, but not their masks")
                inputs = self.augment(inputs, generator)
            inputs = self.pool.prepare(inputs) if self.pool.prepare is not None else inputs
            return self.joint(inputs, targets, generator) if self.joint is not None else (inputs, targets)
        except Exception as error:
            option = f"--augment {self.names}" if isinstance(self.names, str) else "the augmentation of the data"
            kind, suits = _about(*raw)
            raise ConfigError(f"{option} does not suit {self.pool.name}, {kind}; {suits}") from error

    def _try_model(self, name: str, model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
        shape = f"examples of {_by(inputs.shape[1:])}"
        if isinstance(self.names, str):
            shape += f" (after --augment {self.names})"
        try:
            outputs = _training_outputs(model, _single(inputs))
        except Exception as error:
            why = f" ({explained(error)})" if ":" in name else ""
            raise ConfigError(
                f"the model {name} does not take {self.pool.name}, {shape}{why}; {self._others(name)}"
            ) from error
        try:
            self.pool.loss(outputs, _single(targets))
        except Exception as error:
            given = f"gives {_told(outputs)}, while the targets are {_kind_of(targets)}"
            raise ConfigError(
                f"the model {name} does not suit {self.pool.name}: for {shape} it {given}; {self._others(name)}"
            ) from error
        self._check_classes(name, outputs, targets)

    def _check_classes(self, name: str, outputs: Any, targets: Tensor) -> None:
        """Refuse scores of fewer classes than there are: some later example would have none."""
        scores, classes = outputs[0] if isinstance(outputs, tuple | list) else outputs, self.pool.classes
        is_class = isinstance(scores, Tensor) and not targets.is_floating_point() and scores.ndim == targets.ndim + 1
        if is_class and scores.shape[1] < classes:
            raise ConfigError(
                f"the model {name} does not suit {self.pool.name}: it gives scores of {scores.shape[1]} classes, and "
                f"there are {classes}"
            )

    def _others(self, name: str) -> str:
        """Return what to do about a model that does not suit."""
        if name == self.pool.default_model:
            return "choose another --augment or --model"
        return f"choose another --model, or leave it out for {self.pool.default_model}"


def _training_outputs(model: nn.Module, inputs: Tensor) -> Any:
    """Return what a copy of the model gives in training; BatchNorm alone is as in tests, for two examples are few."""
    tried = copy.deepcopy(model).float().train()
    for module in tried.modules():
        if isinstance(module, _BatchNorm):
            module.eval()
    return tried(inputs)


def _single(values: Tensor) -> Tensor:
    return values.float() if values.is_floating_point() else values


def _has_masks(targets: Tensor) -> bool:
    return targets.ndim == 3


def _about(inputs: Tensor, targets: Tensor) -> tuple[str, str]:
    """Return what raw examples are, and which augmentations are for such."""
    shape = _by(inputs.shape[1:])
    if inputs.ndim != 4:
        kind = f"examples of {shape} that are no images, with {_kind_of(targets)}"
        return kind, "augmentations are for images: --augment none"
    if _has_masks(targets):
        return f"images of {shape} with {_kind_of(targets)}", "take scale-crop, flip-pair or cutout"
    return f"images of {shape} with {_kind_of(targets)}", "take crop, flip, cutout or another that is not for masks"


def _kind_of(targets: Tensor) -> str:
    shape = _by(targets.shape[1:])
    return f"a mask of {shape} per example" if _has_masks(targets) else f"{shape} per example"


def _told(outputs: Any) -> str:
    """Return what a model gives for one example."""
    first, *more = outputs if isinstance(outputs, tuple | list) and outputs else (outputs,)
    shown = _by(first.shape[1:]) if isinstance(first, Tensor) else f"a {type(first).__name__}"
    return shown + (f" and {len(more)} more" if more else "")


def _by(shape: torch.Size) -> str:
    return " x ".join(map(str, shape)) or "one number"
