"""One file per method (or tight family), client optimisers and averages.

Every module of this package is imported here, so that a new file registers itself.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from flatfed.algorithms.spelling import parse_algorithm
from flatfed.core.algorithm import Algorithm, Average, ClientOptimiser
from flatfed.core.config import Config

__all__ = ["Algorithm", "Average", "ClientOptimiser", "classes", "make"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def make(id: str, **parameters: Any) -> Algorithm:
    """Return the method `id` with these parameters; the same as calling its class.

    `id` may name a client optimiser too, as on the command line: `make("feddyn+sam", **{"client_opt.rho": 0.1})`.
    """
    return parse_algorithm(id, parameters)


def classes() -> dict[str, type[Config]]:
    """Return every registered class (methods, client optimisers, averages) by class name."""
    families = (Algorithm.registry, ClientOptimiser.registry, Average.registry)
    return {cls.__name__: cls for family in families for cls in family.values()}
