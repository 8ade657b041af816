"""What is checked of the local steps before a run: the base optimiser, and whether the method is made for its steps."""

from __future__ import annotations

import warnings

from flatfed.core.configuration.base_optimiser import SGDStep
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import PARAMETER, ConfigError
from flatfed.core.method.algorithm import Algorithm


def check_steps(algorithm: Algorithm, settings: Settings) -> None:
    """Refuse a base optimiser that does not go with the client momentum; warn where a method assumes other steps."""
    momentum = _largest_momentum(settings)
    fault = settings.base_opt.fault(momentum)
    if fault:
        raise ConfigError(f"{PARAMETER}: {fault}", parameter="base_opt")
    reason = _approximate(algorithm, settings, momentum)
    if reason:
        warnings.warn(f"{algorithm.id} {reason}", stacklevel=4)


def _largest_momentum(settings: Settings) -> float:
    """Return the largest client momentum of all rounds."""
    rounds = range(settings.rounds) if settings.varying else range(1)
    return max(settings.at(round).momentum for round in rounds)


def _approximate(algorithm: Algorithm, settings: Settings, momentum: float) -> str:
    """Return which formulas of a method are approximate with these steps, and that they are used; empty for none."""
    base = settings.base_opt
    if algorithm.assumes_plain_steps and not base.is_plain(momentum):
        if base.id == SGDStep.id:
            return (
                "divides updates by K * lr, which is exact only without client momentum; "
                f"its formulas are used unchanged with momentum={settings.momentum}"
            )
        return (
            "divides updates by K * lr, which is exact only for plain steps of SGD; "
            f"its formulas are used unchanged with base_opt={base}"
        )
    if algorithm.assumes_sgd_steps and base != SGDStep():
        return (
            "counts the gradients in an update, which is exact only for SGD that keeps nothing; "
            f"its formulas are used unchanged with base_opt={base}"
        )
    return ""
