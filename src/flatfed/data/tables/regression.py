"""The loss and the metrics of a quantity: learnt in standard units, measured in its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from flatfed.core.task.metrics import Declared, MetricValue, Shown, Totals


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of `(output - target)^2`, both N x 1."""
    if outputs.shape != targets.shape:
        raise ValueError(f"outputs of {tuple(outputs.shape)} for targets of {tuple(targets.shape)}")
    return (outputs - targets).square().mean()


@dataclass(frozen=True)
class Regression:
    """MAE, MSE and R² of a quantity that is learnt as `(y - mean) / std`; MAE and MSE in the unit of y."""

    std: float = 1.0
    shown: ClassVar[Declared] = {
        "mae": Shown("MAE", higher_is_better=False),
        "mse": Shown("MSE", higher_is_better=False),
        "r2": Shown("R²", higher_is_better=True),
    }

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, Tensor]:
        """Return sums over one batch, in double precision."""
        errors = outputs.double() - targets.double()
        values = targets.double()
        return {
            "absolute": errors.abs().sum(),
            "squared": errors.square().sum(),
            "values": values.sum(),
            "squared_values": values.square().sum(),
            "measured": targets.new_tensor(float(targets.numel())).double(),
        }

    def summarise(self, totals: Totals) -> dict[str, MetricValue]:
        """Return the metrics; R² is 1 - sum (y - f)² / sum (y - mean y)², None where all targets are equal."""
        count, squared = float(totals["measured"]), float(totals["squared"])
        if not count:
            return {}
        around_mean = float(totals["squared_values"]) - float(totals["values"]) ** 2 / count
        # Of equal targets the difference is what rounding leaves.
        is_constant = around_mean <= 1e-12 * max(float(totals["squared_values"]), 1e-300)
        return {
            "mae": self.std * float(totals["absolute"]) / count,
            "mse": self.std**2 * squared / count,
            "r2": None if is_constant else 1.0 - squared / around_mean,
        }
