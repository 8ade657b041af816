"""The radius within which a rise of the loss is measured: one for all methods of a table, or each method's own."""

from __future__ import annotations

from typing import Protocol

from flatfed.algorithms.client_optimisers import ASAM
from flatfed.algorithms.sharpness_aware.fedsam import FedASAM
from flatfed.core.errors import ConfigError
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.round.federation import Federation

RHO = 0.05
"""The radius where nothing else is said."""

RADIUS = "radius"
"""The number under which a result tells its radius: results of different radii do not stand in one row."""


class HasRadius(Protocol):
    """A measurement with a radius."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def rho(self) -> float:
        """The radius for all methods."""
        ...

    @property
    def own_rho(self) -> bool:
        """Whether each method's own radius is taken instead."""
        ...


def radius(measurement: HasRadius, federation: Federation) -> float:
    """Return the radius of a measurement: its own, or the one that the method's clients perturb with."""
    if not measurement.own_rho:
        return measurement.rho
    method = federation.algorithm.at(federation.round)
    for holder in (method, getattr(method, "client_opt", None)):
        rho = getattr(holder, "rho", None)
        # A ball of radius 0 holds nothing to measure.
        if isinstance(rho, float) and rho > 0:
            _refuse_adaptive(measurement, method, holder)
            return rho
    raise ConfigError(f"{measurement.id}: the clients of {method.id} have no radius of their own; give rho")


def _refuse_adaptive(measurement: HasRadius, method: Algorithm, holder: object) -> None:
    """Refuse ASAM's rho: it bounds `||e/T||`, and a ball of that radius is another one."""
    if isinstance(holder, ASAM | FedASAM):
        raise ConfigError(
            f"{measurement.id}: the rho of {method.id} is measured in ASAM's norm, not as a distance; give rho"
        )
