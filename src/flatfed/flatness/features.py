"""Penultimate features: what goes into the last layer with weights, and a map of them in two dimensions."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flatfed.core.errors import ConfigError
from flatfed.core.model.devices import CPU
from flatfed.core.round.trainer import Trainer
from flatfed.flatness import pieces
from flatfed.flatness.results import Embedding, Floats
from flatfed.flatness.sample import Sample
from flatfed.flatness.surface import Surface

LEAST = 10
"""t-SNE of fewer examples says nothing."""


def features(trainer: Trainer, given: pieces.Given, sample: Sample, first: int, count: int) -> dict[str, Tensor]:
    """Return the features and classes of a stretch of a sample."""
    policy = pieces.shown(trainer, given["w"], given)
    found, classes = [], []
    for inputs, targets in pieces.batches(trainer, sample, first, count):
        with torch.no_grad(), trainer.inference(policy):
            found.append(_penultimate(trainer.oracle.model, inputs).flatten(1).to(CPU))
        classes.append(targets.to(CPU))
    return {"features": torch.cat(found), "classes": torch.cat(classes)}


def _penultimate(model: nn.Module, inputs: Tensor) -> Tensor:
    """Return what the last module with weights is given."""
    seen: list[Tensor] = []

    def note(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        seen.append(next(iter((*arguments, *named.values()))))

    leaves = [m for m in model.modules() if not list(m.children()) and list(m.parameters(recurse=False))]
    hooks = [leaf.register_forward_pre_hook(note, with_kwargs=True) for leaf in leaves]
    try:
        model(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return seen[-1]


def embedding(surface: Surface, label: str, seed: int = 0) -> Embedding:
    """Return the t-SNE map of the sample's features (scikit-learn, initialised by principal components)."""
    found = surface.stretches(features)
    places = _mapped(found["features"], found["classes"], seed)
    return Embedding(label, places, found["classes"].long().numpy(), surface.note)


def joint_embedding(
    surfaces: Mapping[str, Surface], label: str, seed: int = 0, class_names: Sequence[str] = ()
) -> Embedding:
    """Return one t-SNE map of the features that several models have of the same examples, by the models' names."""
    found = [surface.stretches(features) for surface in surfaces.values()]
    rows, classes = (torch.cat([each[name] for each in found]) for name in ("features", "classes"))
    whose = np.repeat(np.arange(len(found)), [len(each["classes"]) for each in found])
    note = f"{next(iter(surfaces.values())).note}, under {len(found)} models together; seed {seed} of t-SNE"
    places = _mapped(rows, classes, seed)
    return Embedding(label, places, classes.long().numpy(), note, tuple(surfaces), whose, class_names)


def _mapped(rows: Tensor, classes: Tensor, seed: int) -> Floats:
    """Return the places of features in two dimensions."""
    if importlib.util.find_spec("sklearn") is None:
        raise ConfigError("t-SNE needs scikit-learn; pip install 'flatfed[plots]'")
    from sklearn.manifold import TSNE

    if classes.ndim != 1 or classes.is_floating_point():
        raise ConfigError("t-SNE colours each example by its class, and these examples have none")
    if len(rows) < LEAST:
        raise ConfigError(f"t-SNE needs at least {LEAST} examples, not {len(rows)}")
    perplexity = min(30.0, (len(rows) - 1) / 3)
    mapped = TSNE(init="pca", perplexity=perplexity, random_state=seed).fit_transform(rows.double().numpy())
    return np.asarray(mapped, dtype=np.float64)
