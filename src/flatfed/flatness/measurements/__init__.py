"""What can be measured; every module here registers its own measurements."""

from __future__ import annotations

import importlib
import pkgutil

from flatfed.flatness.measurement import Measurement, Reading, Subject

__all__ = ["Measurement", "Reading", "Subject"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
