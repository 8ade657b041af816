"""The battery for authors of methods: `check_method(MyMethod, naive)` in a test of their own.

    from flatfed.testing import Outcome, Setup, check_method, train_client, weighted_update

`naive` computes the method a second time, in NumPy, from its equations. Nothing here needs pytest.
"""

from flatfed.testing.method_check import MethodCosts, check_method
from flatfed.testing.naive.local import lr_of_round, mean, train_client, weighted_mean, weighted_update, weights
from flatfed.testing.naive.outcome import Outcome
from flatfed.testing.naive.training import Setup
from flatfed.testing.naive.vectors import norm, unit

__all__ = [
    "MethodCosts",
    "Outcome",
    "Setup",
    "check_method",
    "lr_of_round",
    "mean",
    "norm",
    "train_client",
    "unit",
    "weighted_mean",
    "weighted_update",
    "weights",
]
