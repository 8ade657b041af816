"""What can be measured; every module here registers its own measurements."""

from __future__ import annotations

from flatfed.core.configuration.registry import import_all
from flatfed.flatness.measurement import Measurement, MeasurementResult, Subject

__all__ = ["Measurement", "MeasurementResult", "Subject"]

import_all(__name__, __path__, "measurement")
