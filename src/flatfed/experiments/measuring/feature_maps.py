"""Maps of the features that the models of runs have of test examples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flatfed.core.round.probe import last_round
from flatfed.experiments.measuring.laboratory import Laboratory, Weights, laboratory
from flatfed.experiments.measuring.saved_runs import SavedRun, labels, open_all
from flatfed.flatness.drawable import Embedding
from flatfed.flatness.features import embedding, joint_embedding
from flatfed.flatness.surface import Surface

MAPPED = 3_000
"""Points on a map of features."""


def map_features(
    runs: Sequence[Path | SavedRun],
    seed: int = 0,
    data_dir: str | None = None,
    test: str = "test",
    weights: Weights = "evaluated",
    called: Sequence[str] | None = None,
) -> list[Embedding]:
    """Return a t-SNE map of each run's penultimate features of test examples; `called` names the runs."""
    saved, maps = open_all(runs), []
    for run, label in zip(saved, called or labels(saved), strict=True):
        with laboratory(run, data=test, samples=MAPPED, weights=weights, data_dir=data_dir, workers=0) as lab:
            maps.append(embedding(lab.surface, label, seed))
    return maps


def map_clients(
    runs: Sequence[Path | SavedRun],
    count: int,
    seed: int = 0,
    data_dir: str | None = None,
    test: str = "test",
    called: Sequence[str] | None = None,
) -> list[Embedding]:
    """Return a t-SNE map of each run: the same test examples under the global model and under clients' models.

    These are the models of the first `count` clients of the last round, before they were averaged. There are as many
    examples as make `MAPPED` points at most.
    """
    examples = MAPPED // (1 + count)
    saved, maps = open_all(runs), []
    for run, label in zip(saved, called or labels(saved), strict=True):
        with laboratory(run, data=test, samples=examples, weights="global", data_dir=data_dir, workers=0) as lab:
            maps.append(joint_embedding(_surfaces(lab, count), label, seed, lab.surface.task.class_names))
    return maps


def _surfaces(lab: Laboratory, count: int) -> dict[str, Surface]:
    """Return the global model and the first clients' models of the last round, over the same examples."""
    models = sorted(last_round(lab.run).models, key=lambda model: model.client)
    surfaces = {"global model": lab.surface}
    for model in models[:count]:
        surfaces[f"client {model.client}"] = lab.surface.at(model.w, model.buffers)
    return surfaces
