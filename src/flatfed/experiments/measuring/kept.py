"""What was measured of a run before, looked up without opening its model or its data."""

from __future__ import annotations

import json
from typing import Any

from flatfed.flatness.measurement import Measurement, MeasurementResult
from flatfed.runs.directory import RunDirectory
from flatfed.runs.results import KeptResults


def kept_result(directory: RunDirectory, measurement: Measurement) -> MeasurementResult | None:
    """Return a measurement of a run's final model over all training examples; None where it was not taken."""
    latest = directory.checkpoints.rounds()[:1]
    wanted = _plain(measurement.to_dict())
    for key, result in KeptResults(directory.path).of_round(latest):
        is_same = key.get("measurement") == wanted and key.get("version", 1) == measurement.version
        if is_same and key.get("run") == directory.config["run"] and _is_of_all(key):
            return MeasurementResult.from_dict(result)
    return None


def _is_of_all(key: dict[str, Any]) -> bool:
    """Say whether the evaluated model was measured, over all training examples."""
    sample = key.get("sample", {})
    return key.get("weights") == "evaluated" and sample.get("of") == "train" and sample.get("most") is None


def _plain(content: dict[str, Any]) -> Any:
    """Return a configuration as a file gives it back."""
    return json.loads(json.dumps(content))
