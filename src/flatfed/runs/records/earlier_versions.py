"""What earlier versions wrote, in the words of this one: every file of a run is read through here.

New files are written in the new words only; a file that is there is not changed until it is written anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flatfed.core.configuration.settings import Settings

CONFIG_KEYS = {"local_parts": "local_layers", "joint": "batch_transform"}
"""Keys of a run's `task`."""

ROW_KEYS = {"refused": "rejected"}
RESULT_KEYS = {"verdict": "remark"}
POINT_KEYS = {"figures": "metrics"}

NETWORKS = (
    *("bisenetv2", "cnn", "cnn_small", "cnn_small_bn", "lenet", "logreg", "mlp", "mobilenetv2", "resnet18"),
    *("textcnn", "wrn"),
)
MODULES = {f"flatfed.models.{name}": f"flatfed.models.networks.{name}" for name in NETWORKS} | {
    "flatfed.data.transforms": "flatfed.data.storage.pool",
    "flatfed.data.segmentation": "flatfed.data.storage.segmentation",
    "flatfed.core.metrics": "flatfed.core.task.metrics",
}
"""Modules that a described task may name, and where they are now."""

CLASSES = {"flatfed.data.augment.chains:JointChain": "flatfed.data.augment.chains:BatchTransformChain"}


def config_of_today(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a run or of a comparison under today's names."""
    renewed = dict(config)
    if isinstance(config.get("settings"), Mapping):
        renewed["settings"] = _renamed(config["settings"], Settings.renamed)
    if isinstance(config.get("task"), Mapping):
        renewed["task"] = _renamed(config["task"], CONFIG_KEYS)
    return renewed


def row_of_today(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a history under today's names."""
    return _renamed(row, ROW_KEYS)


def result_of_today(result: dict[str, Any]) -> dict[str, Any]:
    """Return a kept result of a measurement under today's names."""
    return _renamed(result, RESULT_KEYS)


def point_of_today(point: dict[str, Any]) -> dict[str, Any]:
    """Return a kept point of a landscape under today's names."""
    return _renamed(point, POINT_KEYS)


def import_path_of_today(path: str) -> str:
    """Return where a class or function of flatfed, `module:name`, is now."""
    if path in CLASSES:
        return CLASSES[path]
    module, _, name = path.partition(":")
    return f"{MODULES.get(module, module)}:{name}"


def _renamed(entries: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in entries.items()}
