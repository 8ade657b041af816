"""Augmentations by name, as a command line spells them: `crop-flip,cutout(8)`."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from flatfed.core.errors import ConfigError, nearest
from flatfed.core.task.task import Augment, Joint
from flatfed.data.augment.chains import Chain, JointChain
from flatfed.data.augment.crops import BatchCrop, Crop, LineageCrop, RandomResizedCrop
from flatfed.data.augment.flips import BatchFlip, Flip, HorizontalFlipPair
from flatfed.data.augment.mixing import Cutout, Mixup
from flatfed.data.augment.segmentation import ScaleCrop

Facts = Mapping[str, Any]
SPELLING = re.compile(r"\s*([A-Za-z0-9_-]+)\s*(?:\(([^()]*)\))?\s*(?:,|$)")


@dataclass(frozen=True)
class Entry:
    """A named augmentation: whether it is drawn on the prepared batch, how it is made, and what it does."""

    joint: bool
    make: Callable[..., Any]
    about: str


def _crop_flip(padding: int = 4, p: float = 0.5) -> Chain:
    return Chain((Crop(padding), Flip(p)))


def _batch_crop_flip(padding: int = 4, p: float = 0.5) -> Chain:
    return Chain((BatchCrop(padding), BatchFlip(p)))


def _resized_crop(image_size: int, size: int | None = None) -> RandomResizedCrop:
    return RandomResizedCrop(image_size if size is None else size)


def _cutout(image_size: int, size: int | None = None) -> Cutout:
    return Cutout(image_size // 2 if size is None else size)


def _scale_crop(image_size: int, height: int | None = None, width: int | None = None) -> ScaleCrop:
    return ScaleCrop((height or image_size, width or height or image_size))


ENTRIES = {
    "crop": Entry(False, Crop, "zero padding and a random crop per image: crop(padding=4)"),
    "flip": Entry(False, Flip, "a horizontal flip per image: flip(p=0.5)"),
    "crop-flip": Entry(False, _crop_flip, "crop, then flip, per image: crop-flip(padding=4, p=0.5)"),
    "batch-crop": Entry(False, BatchCrop, "one crop for the whole batch (FedGloSS code)"),
    "batch-flip": Entry(False, BatchFlip, "one flip for the whole batch (FedGloSS code)"),
    "batch-crop-flip": Entry(False, _batch_crop_flip, "batch-crop, then batch-flip (FedGloSS code)"),
    "resized-crop": Entry(False, _resized_crop, "a box of random area and shape, resized: resized-crop(size)"),
    "lineage-crop": Entry(True, LineageCrop, "flip, and crop half of the images, after normalisation (FedWMSAM)"),
    "cutout": Entry(True, _cutout, "a square of zeros per image, by default half as wide as it: cutout(size)"),
    "mixup": Entry(True, Mixup, "mix pairs of a batch, inputs and targets: mixup(alpha=1.0)"),
    "scale-crop": Entry(True, _scale_crop, "scale and crop image and mask together: scale-crop(height, width)"),
    "flip-pair": Entry(True, HorizontalFlipPair, "flip image and mask together: flip-pair(p=0.5)"),
}


NAMES = {entry.make: name for name, entry in ENTRIES.items() if isinstance(entry.make, type)} | {
    RandomResizedCrop: "resized-crop",
    Cutout: "cutout",
    ScaleCrop: "scale-crop",
}


def augmentations() -> dict[str, str]:
    """Return the name and a one-line description of every augmentation."""
    return {name: entry.about for name, entry in sorted(ENTRIES.items())}


def named(names: str | Iterable[str], facts: Facts) -> tuple[Augment | None, Joint | None]:
    """Return the `augment` and the `joint` of a task for names such as `crop-flip,cutout(8)`.

    `facts` says what is known of the data: `classes`, `image_size`. Augmentations of one stage follow each other as
    named; those of raw images come before those of the prepared batch in any case. `none` stands for nothing.
    """
    augment: list[Augment] = []
    joint: list[Joint] = []
    for name, arguments in _spelled(names if isinstance(names, str) else ",".join(names)):
        if name == "none":
            continue
        if name not in ENTRIES:
            raise ConfigError(nearest(name, [*ENTRIES, "none"], "augmentation"))
        made = _made(name, arguments, facts)
        (joint if ENTRIES[name].joint else augment).append(made)
    return _chained(augment, Chain), _chained(joint, JointChain)


def spelled(augment: Augment | None, joint: Joint | None) -> list[str]:
    """Return augmentations step by step with all their arguments, `crop(padding=4)`: the inverse of `named`."""
    return [_spelling(step) for chain in (augment, joint) if chain is not None for step in _steps(chain)]


def _steps(chain: Any) -> list[Any]:
    return [inner for step in chain.steps for inner in _steps(step)] if hasattr(chain, "steps") else [chain]


def _spelling(step: Any) -> str:
    if not is_dataclass(step):
        return str(getattr(step, "__name__", type(step).__name__))
    arguments = ", ".join(f"{field.name}={getattr(step, field.name)}" for field in fields(step))
    return f"{NAMES.get(type(step), type(step).__name__)}({arguments})"


def _chained(steps: list[Any], chain: Callable[[tuple[Any, ...]], Any]) -> Any:
    if len(steps) < 2:
        return steps[0] if steps else None
    return chain(tuple(steps))


def _spelled(text: str) -> list[tuple[str, list[tuple[str | None, Any]]]]:
    """Return the names with their arguments."""
    found, position = [], 0
    while position < len(text.rstrip()):
        match = SPELLING.match(text, position)
        if match is None:
            raise ConfigError(f"augmentations are written like crop-flip,cutout(8), not {text!r}")
        found.append((match[1], [_argument(match[1], part) for part in (match[2] or "").split(",") if part.strip()]))
        position = match.end()
    return found


def _argument(name: str, text: str) -> tuple[str | None, Any]:
    key, equals, value = text.rpartition("=")
    try:
        number = ast.literal_eval(value.strip())
    except (ValueError, SyntaxError):
        number = None
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ConfigError(f"augmentation {name}: {value.strip()!r} is not a number")
    return (key.strip() if equals else None), number


def _made(name: str, arguments: list[tuple[str | None, Any]], facts: Facts) -> Any:
    """Make an augmentation: its parameters that are facts of the data are filled in, the others are arguments."""
    entry = ENTRIES[name]
    parameters = inspect.signature(entry.make).parameters
    wanted = [p for p in parameters if p in ("classes", "image_size")]
    missing = [p for p in wanted if p not in facts]
    if missing:
        raise ConfigError(f"augmentation {name}: these data have no {missing[0]}")
    free = [p for p in parameters if p not in wanted]
    given: dict[str, Any] = {}
    for position, (key, value) in enumerate(arguments):
        if key is None and position >= len(free):
            raise ConfigError(f"augmentation {name} takes {', '.join(free) or 'no arguments'}")
        if key is not None and key not in free:
            raise ConfigError(f"augmentation {name}: {nearest(key, free, 'argument')}")
        given[key or free[position]] = value
    lacking = [p for p in free if parameters[p].default is inspect.Parameter.empty and p not in given]
    if lacking:
        raise ConfigError(f"augmentation {name} needs its {lacking[0]}: {name}({lacking[0]}=...)")
    return entry.make(**{p: facts[p] for p in wanted}, **given)
