"""Holm's correction: at most 5 % of tables with a false positive anywhere, however many comparisons they hold."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Return corrected p values, in the same order.

    The smallest of m is multiplied by m, the next by m - 1, and so on; each is at least as large as the one before,
    and at most 1. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6,
    1979.
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    for before, place in enumerate(order):
        left = len(p_values) - before
        largest = max(largest, min(left * p_values[place], 1.0))
        corrected[place] = largest
    return corrected
