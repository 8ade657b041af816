"""Measurements as they come, and what a written figure says."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from flatfed.flatness.drawable import Embedding, Grid, Line, Spectrum

NOTE = "digits, 500 test examples, seed 0"
LONG = "fedgloss (rho_server=0.1, client_opt=sam)"
NOTHING = np.empty(0)


def bowl(label: str = "fedavg", curvature: float = 4.0, base: float = 0.4, size: int = 15) -> Grid:
    """Return a loss like a bowl around the model."""
    xs = np.linspace(-1, 1, size)
    losses = base + curvature * (xs**2 + 0.7 * xs[:, None] ** 2)
    names = ("direction 1 (filter-normalised)", "direction 2 (filter-normalised)")
    return Grid(label, xs, xs, losses, 1 - np.exp(-losses), *names, {label: (0.0, 0.0)}, NOTE)


def plane() -> Grid:
    """Return a plane through three minima."""
    models = {"fedavg": (0.0, 0.0), "fedsam": (40.0, 0.0), LONG: (17.0, 31.0)}
    xs, ys = np.linspace(-12, 52, 31), np.linspace(-12, 43, 31)
    far = [((xs - x) ** 2 + (ys[:, None] - y) ** 2) / 200 for x, y in models.values()]
    losses = 0.1 + np.minimum.reduce(far)
    return Grid(
        "plane",
        xs,
        ys,
        losses,
        1 - np.exp(-losses),
        "distance along fedavg → fedsam",
        f"distance across, towards {LONG}",
        models,
        NOTE,
    )


def line(label: str = "fedavg → fedsam", height: float = 1.4) -> Line:
    """Return a line between two models with a barrier, on two data sets."""
    xs = np.linspace(-0.5, 1.5, 41)
    losses = 0.3 + height * np.exp(-(((xs - 0.5) / 0.22) ** 2)) + 2 * np.maximum(np.abs(xs - 0.5) - 0.5, 0) ** 2
    one, other = label.split(" → ")
    sets = {"train": losses, "test": losses + 0.4}
    barriers = {"train": height, "test": height}
    return Line(label, xs, sets, "share of the way", {one: 0.0, other: 1.0}, barriers, NOTE)


def spectrum(label: str = "fedavg", top: float = 100.0, count: int = 10, dense: bool = True) -> Spectrum:
    """Return decaying eigenvalues, and a density with a bulk around zero."""
    values = top * np.exp(-0.2 * np.arange(count))
    points = np.concatenate([np.linspace(-0.02, 0.02, 20) * top, values])
    weights = np.concatenate([np.full(20, 0.05), np.full(count, 1e-5)])
    rule = (points, weights / weights.sum()) if dense else (NOTHING, NOTHING)
    return Spectrum(label, values, 0.02 * values, *rule, NOTE)


def embedding(label: str = "fedavg", classes: int = 10, count: int = 200) -> Embedding:
    """Return classes in clouds on a circle."""
    drawn = np.random.default_rng(0)
    numbers = np.arange(count) % classes
    angles = 2 * np.pi * numbers / classes
    places = 20 * np.stack([np.cos(angles), np.sin(angles)], axis=1) + drawn.normal(size=(count, 2))
    return Embedding(label, places, numbers, NOTE)


def several_models(label: str = "fedavg", models: tuple[str, ...] = ("global model", "client 3")) -> Embedding:
    """Return a map of several models."""
    parts = [embedding(label, count=60).places + 60 * number for number in range(len(models))]
    classes = np.tile(embedding(label, count=60).classes, len(models))
    names = [f"name {number}" for number in range(10)]
    whose = np.repeat(np.arange(len(models)), 60)
    return Embedding(label, np.concatenate(parts), classes, NOTE, models, whose, names)


def words(file: Path) -> str:
    """Return all text of an SVG, which must be well formed; lines of one text are joined."""
    root = ElementTree.fromstring(file.read_text(encoding="utf-8"))
    texts = ["".join(element.itertext()) for element in root.iter() if element.tag.endswith("}text")]
    return " ".join(re.sub(r"\s+", " ", text) for text in texts)


def size(file: Path) -> tuple[int, int]:
    """Return width and height of what must be a PNG."""
    head = file.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
