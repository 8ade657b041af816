"""The corruptions by name, with their severities on 32 x 32 images and what each generator can promise."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatfed.core.errors import ConfigError, nearest
from flatfed.data.corruptions.draws import Draws

Pixels = NDArray[np.float64]
Levels = NDArray[np.uint8]
Generator = Callable[[Pixels, Any, Draws], Pixels | Levels]

SEVERITIES = (1, 2, 3, 4, 5)
STANDARD = (
    *("gaussian_noise", "shot_noise", "impulse_noise"),
    *("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    *("snow", "frost", "fog", "brightness"),
    *("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
)
EXTRA = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
ORDER = (*STANDARD, *EXTRA)
"""The fifteen of the benchmark's own mean, then the four that it keeps for validation."""


@dataclass(frozen=True)
class Corruption:
    """One corruption.

    Attributes:
        name: as its file is called.
        family: noise, blur, weather or digital.
        levels: its parameters at severities 1 to 5.
        generate: `generate(pixels, level, draws)`; None where there are only published files.
        faithful: whether the generator does what made the published files, up to the random draws and rounding.
        why: why it does not.
        colour: whether it needs colours.
        smallest: the least side of an image, in pixels, for which the severities make sense.
    """

    name: str
    family: str
    levels: tuple[Any, ...] = ()
    generate: Generator | None = None
    faithful: bool = True
    why: str = ""
    colour: bool = False
    smallest: int = 1

    @property
    def about(self) -> str:
        """The corruption in a line."""
        return (inspect.getdoc(self.generate) or self.why).partition("\n")[0]

    def unfit(self, channels: int, height: int, width: int) -> str | None:
        """Say why images of this shape cannot be corrupted so here, or return None."""
        if self.generate is None:
            return self.why
        if channels not in (1, 3):
            return f"made for grey or RGB images, not for {channels} channels"
        if self.colour and channels == 1:
            return "changes colours, and the images are grey"
        if min(height, width) < self.smallest:
            return f"the severities need images of at least {self.smallest} x {self.smallest} pixels"
        return None


_known: dict[str, Corruption] = {
    "frost": Corruption(
        "frost",
        "weather",
        faithful=False,
        why="made from photographs of frost, which flatfed does not have; only the published frost.npy can be used",
    )
}


def corruption(
    family: str, levels: Sequence[Any], colour: bool = False, smallest: int = 1, unfaithful: str = ""
) -> Callable[[Generator], Generator]:
    """Enter a generator under its function's name."""

    def enter(generate: Generator) -> Generator:
        name = str(generate.__name__)
        _known[name] = Corruption(name, family, tuple(levels), generate, not unfaithful, unfaithful, colour, smallest)
        return generate

    return enter


def corruptions() -> dict[str, Corruption]:
    """Return every corruption by name, in the order of the benchmark."""
    return {name: _known[name] for name in ORDER}


def find(name: str) -> Corruption:
    """Return a corruption; an unknown one is an error that names the nearest."""
    if name not in ORDER:
        raise ConfigError(nearest(name, ORDER, "corruption"))
    return _known[name]


def corrupt(images: Levels, name: str, severity: int, draws: Draws) -> Levels:
    """Return uint8 images (N x height x width x channels) corrupted; `draws` holds a generator for each."""
    chosen = find(name)
    if severity not in SEVERITIES:
        raise ConfigError(f"severity must be 1 to 5, not {severity!r}")
    reason = chosen.unfit(images.shape[3], images.shape[1], images.shape[2])
    if reason is not None or chosen.generate is None:
        raise ConfigError(f"{name}: {reason}")
    corrupted = chosen.generate(images / 255.0, chosen.levels[severity - 1], draws)
    # A generator that returns bytes has rounded them as the published files were.
    if corrupted.dtype == np.uint8:
        return corrupted.astype(np.uint8, copy=False)
    return truncated(corrupted.astype(np.float64, copy=False))


def truncated(pixels: Pixels) -> Levels:
    """Return pixels (0 to 1) as bytes, cut off as in the published sets, not rounded."""
    return (np.clip(pixels, 0.0, 1.0) * 255.0).astype(np.uint8)
