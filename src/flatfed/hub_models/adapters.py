"""LoRA adapters as the part that is trained, and a model with all of its parameters.

Frozen parameters are not in the vector, so adapters alone travel and are counted. The loss as a function of the
adapters (the trained space) has another Hessian than as a function of the merged weights (the full space).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from flatfed.core.errors import ConfigError
from flatfed.core.model.full_space import refuse_without_full_space
from flatfed.core.model.layout import Local
from flatfed.core.task.task import Task
from flatfed.hub_models.hub_libraries import peft, without_deprecations

HEADS = ("classifier", "score", "head")
"""What layers that score classes are called: new ones are trained beside the adapters."""


def with_lora(model: nn.Module, lora: Any) -> nn.Module:
    """Return the model with adapters.

    Args:
        model: a model of `transformers`; it is changed.
        lora: the rank, arguments of `peft.LoraConfig` by name, or a configuration of `peft`.
    """
    if not lora:
        return model
    if hasattr(model, "peft_config"):
        raise ConfigError("the model has adapters already; leave lora out")
    try:
        with without_deprecations():
            made: nn.Module = peft().get_peft_model(model, _configuration(model, lora))
    except ConfigError:
        raise
    except Exception as error:  # peft names the layers that it cannot find
        reason = " ".join(str(error).split())[:300]
        raise ConfigError(f"lora: {reason}; name the layers: lora={{'r': 8, 'target_modules': [...]}}") from error
    return made


def _configuration(model: nn.Module, lora: Any) -> Any:
    if isinstance(lora, bool) or not isinstance(lora, int | Mapping):
        if hasattr(lora, "peft_type"):
            return lora
        raise ConfigError(f"lora must be a rank, arguments of peft.LoraConfig or a configuration, not {lora!r:.60}")
    given = {"r": lora} if isinstance(lora, int) else dict(lora)
    rank = given.get("r", 8)
    heads = [name for name, _ in model.named_children() if name in HEADS]
    defaults = {"r": rank, "lora_alpha": 2 * rank, "modules_to_save": heads or None}
    try:
        return peft().LoraConfig(**(defaults | given))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"lora: {error}") from error


def with_all_parameters(model: nn.Module) -> nn.Module:
    """Return a copy in which adapters are merged into the weights and every parameter is trained: the full space."""
    refuse_without_full_space(model)
    whole = _merged(copy.deepcopy(model))
    for parameter in whole.parameters():
        if parameter.is_floating_point():
            parameter.requires_grad_(True)
    return whole


def _merged(model: nn.Module) -> nn.Module:
    """Return the model with adapters merged into the weights, also where it is a part of another; it is changed."""
    merge = getattr(model, "merge_and_unload", None)
    if callable(merge):
        with without_deprecations():
            merged: nn.Module = merge()
        return merged
    for name, part in model.named_children():
        setattr(model, name, _merged(part))
    return model


def in_full_space(task: Task) -> Task:
    """Return the task of the model with all of its parameters, no part of which stays with anyone."""
    return replace(task, model=with_all_parameters(task.model), local=Local())
