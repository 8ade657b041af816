"""The methods, one file each (or tight family), client optimisers, base optimisers and weight averaging.

Every module of this package, and of those in it, is imported here, so that a new file registers itself.
"""

from __future__ import annotations

from typing import Any

from flatfed.algorithms.spelling import PARTS, parse_algorithm
from flatfed.core.configuration.base_optimiser import BaseOptimiser
from flatfed.core.configuration.config import Config
from flatfed.core.configuration.registry import import_all
from flatfed.core.method.algorithm import Algorithm, Average, ClientOptimiser
from flatfed.named_code import USER
from flatfed.outside.named_parts import with_ids

__all__ = ["Algorithm", "Average", "BaseOptimiser", "ClientOptimiser", "classes", "make"]

import_all(__name__, __path__, "method")


def make(id: str, **parameters: Any) -> Algorithm:
    """Return the method `id` with these parameters; the same as calling its class.

    `id` may name a client optimiser too, as on the command line: `make("feddyn+sam", **{"client_opt.rho": 0.1})`; and
    a class of your own by its import path, `make("my_package.my_file:MyMethod")`.
    """
    return parse_algorithm(with_ids(id, PARTS, USER), parameters)


def classes() -> dict[str, type[Config]]:
    """Return every registered class (methods, client and base optimisers, averages) by class name."""
    families = (Algorithm.registry, ClientOptimiser.registry, BaseOptimiser.registry, Average.registry)
    return {cls.__name__: cls for family in families for cls in family.values()}
