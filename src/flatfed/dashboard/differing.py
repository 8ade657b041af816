"""Two runs side by side: the settings in which they differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flatfed.core.configuration.checking import escaped

PARTS = ("method", "algorithm", "average", "sampler", "settings", "task", "watch")
NO_SETTINGS = ("task.data_dir", "task.seed", "task.partition_sha256", "task.data_sha256", "task.tensors_sha256")
"""What follows from something else, or says where files lie."""
NOTHING = "–"
LONGEST = 300


def differing_settings(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in which two configurations differ, and how many they have in common."""
    one, other = _options(first), _options(second)
    names = list(dict.fromkeys([*one, *other]))
    different = [name for name in names if one.get(name) != other.get(name)]
    rows = [[escaped(name), one.get(name, NOTHING), other.get(name, NOTHING)] for name in different]
    return {"rows": rows, "common": len(names) - len(different)}


def _options(config: Mapping[str, Any]) -> dict[str, str]:
    parts = {name: config.get(name) for name in PARTS}
    flat = _flat(parts)
    return {name: _text(value) for name, value in flat.items() if name not in NO_SETTINGS and value is not None}


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, entry in value.items():
        if isinstance(entry, Mapping) and entry:
            found |= _flat(entry, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = entry
    return found


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return escaped(text)[:LONGEST]
