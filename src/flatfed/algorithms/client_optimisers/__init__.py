"""Client optimisers: where the gradient of a local step is taken.

They replace `g(w)` in a local step and nothing else: the ascent follows the raw data gradient; corrections, clipping
and weight decay act at the unperturbed point. One file each; a new file registers itself.
"""

from flatfed.algorithms.client_optimisers.asam import ASAM, Scaled, asam_gradient
from flatfed.algorithms.client_optimisers.friendly_sam import FriendlySAM
from flatfed.algorithms.client_optimisers.previous_sam import PreviousSAM
from flatfed.algorithms.client_optimisers.sam import SAM, sam_gradient
from flatfed.algorithms.client_optimisers.sgd import SGD
from flatfed.algorithms.client_optimisers.vasso import VaSSO

__all__ = [
    "ASAM",
    "SAM",
    "SGD",
    "FriendlySAM",
    "PreviousSAM",
    "Scaled",
    "VaSSO",
    "asam_gradient",
    "sam_gradient",
]
