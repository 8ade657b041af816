"""The data sets by id, and what each one declares about itself.

A new data set is one module in `data/sources` with a function under `@source(id, ...)`.
"""

from flatfed.data.catalogue.expected import Expected, Moments
from flatfed.data.catalogue.official import Download, Official
from flatfed.data.catalogue.registry import (
    Source,
    broken_modules,
    datasets,
    enter_installed,
    find,
    is_import_path,
    load,
    source,
    usual_partition,
)

__all__ = [
    "Download",
    "Expected",
    "Moments",
    "Official",
    "Source",
    "broken_modules",
    "datasets",
    "enter_installed",
    "find",
    "is_import_path",
    "load",
    "source",
    "usual_partition",
]
