"""A second, deliberately naive computation of the methods: NumPy, float64, one client after the other.

It shares no code with flatfed. It is written to be read next to the equations: each function is named
after its method, names the page of the equations it follows and
keeps their letters. Nothing here is fast, and nothing is shared between methods except the local
step, the client optimisers and the client weights.

The methods stand by family in `averaging`, `server_optimisers`, `momentum`, `drift_correction`, `local_sharpness`,
`lesam`, `global_sharpness`, `guided`, `gloss` and `local_adaptive`; whatever those modules hold can be imported from
here, so a new method is one function in one of them.
"""

# ruff: noqa: F401, F403

from __future__ import annotations

from flatfed.testing.naive.client_optimisers import Opt
from flatfed.testing.naive.local import lr_of_round, mean, weights
from flatfed.testing.naive.model import (
    CLASSES,
    DIMENSION,
    INPUTS,
    IS_WEIGHT,
    Vector,
    cross_entropy,
    cross_entropy_gradient,
    kl,
    kl_gradient,
    zero_gradient,
)
from flatfed.testing.naive.outcome import Outcome
from flatfed.testing.naive.swa import swa_weights
from flatfed.testing.naive.training import Setup, Swa, Wima
from flatfed.testing.naive.vectors import norm, unit
from methods.naive.averaging import *
from methods.naive.drift_correction import *
from methods.naive.global_sharpness import *
from methods.naive.gloss import *
from methods.naive.guided import *
from methods.naive.lesam import *
from methods.naive.local_adaptive import *
from methods.naive.local_sharpness import *
from methods.naive.momentum import *
from methods.naive.server_optimisers import *
