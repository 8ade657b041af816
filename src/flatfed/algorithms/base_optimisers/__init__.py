"""Base optimisers: how the direction of a local step becomes the step.

Plain SGD is the default of a setting, and stands where settings are declared. One file each; a new file registers
itself.
"""

from flatfed.algorithms.base_optimisers.adam import Adam, adam_step
from flatfed.algorithms.base_optimisers.adamw import AdamW
from flatfed.algorithms.base_optimisers.muon import Muon, orthogonalised
from flatfed.core.configuration.base_optimiser import BaseOptimiser, SGDStep

__all__ = ["Adam", "AdamW", "BaseOptimiser", "Muon", "SGDStep", "adam_step", "orthogonalised"]
