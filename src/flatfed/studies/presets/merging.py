"""One study laid over another: what differs at a smaller scale is written once."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

SETTINGS = "settings"


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `below` with `above` laid over it: mappings entry by entry, other values replace, None removes.

    None in `below` stays: a method without a spelling is its own.
    """
    result = {name: copy.deepcopy(value) for name, value in below.items()}
    for name, value in above.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(result.get(name), Mapping):
            result[name] = merged(result[name], value)
        else:
            result[name] = copy.deepcopy(value)
    return result


def merged_in_each_setting(study: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study with options laid over those of every setting; without settings, over those of the study."""
    settings = study.get(SETTINGS)
    if not isinstance(settings, Mapping):
        return merged(study, options)
    changed = {name: merged(setting or {}, options) for name, setting in settings.items()}
    return {**study, SETTINGS: changed}
