"""Penultimate features: what goes into the last layer with weights, and a map of them in two dimensions."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flatfed.core.errors import ConfigError
from flatfed.core.evaluation.evaluator import Evaluator
from flatfed.core.model.devices import CPU
from flatfed.core.task.structures import Structure, call, leaves
from flatfed.flatness import sums
from flatfed.flatness.drawable import Embedding, Floats
from flatfed.flatness.sums import Sample
from flatfed.flatness.surface import Surface

LEAST = 10
"""t-SNE of fewer examples says nothing."""


def features(evaluator: Evaluator, model: sums.Tensors, sample: Sample, first: int, count: int) -> dict[str, Tensor]:
    """Return the features and classes of a stretch of a sample."""
    policy = sums.show(evaluator, model["w"], model)
    rows, classes = [], []
    for inputs, targets in sums.batches(evaluator, sample, first, count):
        with torch.no_grad(), evaluator.inference(policy):
            rows.append(_penultimate(evaluator.oracle.model, inputs).flatten(1).to(CPU))
        classes.append(next(leaves(targets)).to(CPU))
    return {"features": torch.cat(rows), "classes": torch.cat(classes)}


def _penultimate(model: nn.Module, inputs: Structure) -> Tensor:
    """Return the input of the last module with weights.

    Which module that is shows only when the model runs: modules need not be used in the order of their definition.
    """
    seen: list[Tensor] = []

    def note(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        seen.append(next(iter((*arguments, *named.values()))))

    leaves = [module for module in model.modules() if _is_leaf_with_weights(module)]
    hooks = [leaf.register_forward_pre_hook(note, with_kwargs=True) for leaf in leaves]
    try:
        call(model, inputs)
    finally:
        # The model is the evaluator's own, and is used for other things afterwards.
        for hook in hooks:
            hook.remove()
    return seen[-1]


def _is_leaf_with_weights(module: nn.Module) -> bool:
    return not list(module.children()) and bool(list(module.parameters(recurse=False)))


def embedding(surface: Surface, label: str, seed: int = 0) -> Embedding:
    """Return the t-SNE map of the sample's features (scikit-learn, initialised by principal components)."""
    tensors = surface.stretches(features)
    places = _mapped(tensors["features"], tensors["classes"], seed)
    return Embedding(label, places, tensors["classes"].long().numpy(), surface.note)


def joint_embedding(
    surfaces: Mapping[str, Surface], label: str, seed: int = 0, class_names: Sequence[str] = ()
) -> Embedding:
    """Return one t-SNE map of the features that several models have of the same examples, by the models' names."""
    models = [surface.stretches(features) for surface in surfaces.values()]
    rows = torch.cat([model["features"] for model in models])
    classes = torch.cat([model["classes"] for model in models])
    whose = np.repeat(np.arange(len(models)), [len(model["classes"]) for model in models])
    first = next(iter(surfaces.values()))
    note = f"{first.note}, under {len(models)} models together; seed {seed} of t-SNE"
    places = _mapped(rows, classes, seed)
    return Embedding(label, places, classes.long().numpy(), note, tuple(surfaces), whose, class_names)


def _mapped(rows: Tensor, classes: Tensor, seed: int) -> Floats:
    """Return the places of features in two dimensions."""
    if importlib.util.find_spec("sklearn") is None:
        raise ConfigError("t-SNE needs scikit-learn; pip install 'flatfed[plots]'")
    # Imported here, because it takes long and only maps need it.
    from sklearn.manifold import TSNE

    if classes.ndim != 1 or classes.is_floating_point():
        raise ConfigError("t-SNE colours each example by its class, and these examples have none")
    if len(rows) < LEAST:
        raise ConfigError(f"t-SNE needs at least {LEAST} examples, not {len(rows)}")
    # The perplexity must be below the number of examples.
    perplexity = min(30.0, (len(rows) - 1) / 3)
    mapped = TSNE(init="pca", perplexity=perplexity, random_state=seed).fit_transform(rows.double().numpy())
    return np.asarray(mapped, dtype=np.float64)
