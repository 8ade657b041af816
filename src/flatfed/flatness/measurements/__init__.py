"""What can be measured; every module here registers its own measurements."""

from __future__ import annotations

from flatfed.core.discovery import import_all
from flatfed.flatness.measurement import Measurement, Reading, Subject

__all__ = ["Measurement", "Reading", "Subject"]

import_all(__name__, __path__, "measurement")
