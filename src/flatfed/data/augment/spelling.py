"""Augmentations by name, as a command line spells them: `crop-flip,cutout(8)`."""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from flatfed.core.configuration.grammar import Call, parse_call, split
from flatfed.core.errors import ConfigError, nearest
from flatfed.core.task.task import Augment, BatchTransform
from flatfed.data.augment.chains import BatchTransformChain, Chain
from flatfed.data.augment.crops import BatchCrop, Crop, LineageCrop, RandomResizedCrop
from flatfed.data.augment.flips import BatchFlip, Flip, HorizontalFlipPair
from flatfed.data.augment.mixing import Cutout, Mixup
from flatfed.data.augment.segmentation import ScaleCrop

Facts = Mapping[str, Any]
FACTS = ("classes", "image_size")
"""Parameters that the data fills in."""

NONE = "none"
"""The name of no augmentation."""


@dataclass(frozen=True)
class NamedAugmentation:
    """A named augmentation: whether it is drawn on the prepared batch, how it is made, and what it does."""

    batch_transform: bool
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
    "crop": NamedAugmentation(False, Crop, "zero padding and a random crop per image: crop(padding=4)"),
    "flip": NamedAugmentation(False, Flip, "a horizontal flip per image: flip(p=0.5)"),
    "crop-flip": NamedAugmentation(False, _crop_flip, "crop, then flip, per image: crop-flip(padding=4, p=0.5)"),
    "batch-crop": NamedAugmentation(False, BatchCrop, "one crop for the whole batch (FedGloSS code)"),
    "batch-flip": NamedAugmentation(False, BatchFlip, "one flip for the whole batch (FedGloSS code)"),
    "batch-crop-flip": NamedAugmentation(False, _batch_crop_flip, "batch-crop, then batch-flip (FedGloSS code)"),
    "resized-crop": NamedAugmentation(
        False, _resized_crop, "a box of random area and shape, resized: resized-crop(size)"
    ),
    "lineage-crop": NamedAugmentation(
        True, LineageCrop, "flip, and crop half of the images, after normalisation (FedWMSAM)"
    ),
    "cutout": NamedAugmentation(
        True, _cutout, "a square of zeros per image, by default half as wide as it: cutout(size)"
    ),
    "mixup": NamedAugmentation(True, Mixup, "mix pairs of a batch, inputs and targets: mixup(alpha=1.0)"),
    "scale-crop": NamedAugmentation(
        True, _scale_crop, "scale and crop image and mask together: scale-crop(height, width)"
    ),
    "flip-pair": NamedAugmentation(True, HorizontalFlipPair, "flip image and mask together: flip-pair(p=0.5)"),
}


# A class that a function makes does not stand in its entry, and is named here.
NAMES = {entry.make: name for name, entry in ENTRIES.items() if isinstance(entry.make, type)} | {
    RandomResizedCrop: "resized-crop",
    Cutout: "cutout",
    ScaleCrop: "scale-crop",
}


def augmentations() -> dict[str, str]:
    """Return the name and a one-line description of every augmentation."""
    return {name: entry.about for name, entry in sorted(ENTRIES.items())}


def named(names: str | Iterable[str], facts: Facts) -> tuple[Augment | None, BatchTransform | None]:
    """Return the `augment` and the `batch_transform` of a task for names such as `crop-flip,cutout(8)`.

    `facts` says what is known of the data: `classes`, `image_size`. Augmentations of one stage follow each other as
    named; those of raw images come before those of the prepared batch in any case. `none` stands for nothing.
    """
    text = names if isinstance(names, str) else ",".join(names)
    calls = [call for call in _calls(text) if call.name != NONE]
    augments = [_made(call, facts) for call in calls if not _entry(call.name).batch_transform]
    batch_transforms = [_made(call, facts) for call in calls if _entry(call.name).batch_transform]
    return _chained(augments, Chain), _chained(batch_transforms, BatchTransformChain)


def _entry(name: str) -> NamedAugmentation:
    if name not in ENTRIES:
        raise ConfigError(nearest(name, [*ENTRIES, NONE], "augmentation"))
    return ENTRIES[name]


def spelled(augment: Augment | None, batch_transform: BatchTransform | None) -> list[str]:
    """Return augmentations step by step with all their arguments, `crop(padding=4)`: the inverse of `named`."""
    return list(map(_spelling, _steps(augment) + _steps(batch_transform)))


def _steps(step: Any) -> list[Any]:
    """Return the steps of a chain, those of chains within it in their places; nothing for None."""
    if step is None:
        return []
    if not hasattr(step, "steps"):
        return [step]
    return list(itertools.chain.from_iterable(map(_steps, step.steps)))


def _spelling(step: Any) -> str:
    # A user's own function has a name and no fields.
    if not is_dataclass(step):
        return str(getattr(step, "__name__", type(step).__name__))
    arguments = ", ".join(f"{field.name}={getattr(step, field.name)}" for field in fields(step))
    return f"{NAMES.get(type(step), type(step).__name__)}({arguments})"


def _chained(steps: list[Any], chain: Callable[[tuple[Any, ...]], Any]) -> Any:
    if not steps:
        return None
    if len(steps) == 1:
        return steps[0]
    return chain(tuple(steps))


def _calls(text: str) -> list[Call]:
    """Return the names with their arguments."""
    if not text.strip():
        return []
    calls = [parse_call(part) for part in split(text.strip().removesuffix(","), ",")]
    parsed = [call for call in calls if call is not None]
    if len(parsed) < len(calls):
        raise ConfigError(f"augmentations are written like crop-flip,cutout(8), not {text!r}")
    return parsed


def _number(name: str, text: str) -> int | float:
    try:
        # Literals only: nothing that is written here is run.
        number = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        number = None
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ConfigError(f"augmentation {name}: {text!r} is not a number")
    return number


def _made(call: Call, facts: Facts) -> Any:
    """Make an augmentation: its parameters that are facts of the data are filled in, the others are arguments."""
    make = ENTRIES[call.name].make
    parameters = inspect.signature(make).parameters
    filled_in = {name: _fact(call.name, name, facts) for name in FACTS if name in parameters}
    free = {name: parameter for name, parameter in parameters.items() if name not in FACTS}
    arguments = _arguments(call, list(free))
    for name in free:
        if name not in arguments:
            _check_optional(call.name, free[name])
    return make(**filled_in, **arguments)


def _fact(augmentation: str, name: str, facts: Facts) -> Any:
    if name not in facts:
        raise ConfigError(f"augmentation {augmentation}: the data has no {name}")
    return facts[name]


def _check_optional(augmentation: str, parameter: inspect.Parameter) -> None:
    if parameter.default is inspect.Parameter.empty:
        call = f"{augmentation}({parameter.name}=...)"
        raise ConfigError(f"augmentation {augmentation} needs its {parameter.name}: {call}")


def _arguments(call: Call, free: list[str]) -> dict[str, int | float]:
    """Return the numbers that are given, by name."""
    for argument in call.arguments:
        _check_key(call.name, argument.key, free)
    if len(call.arguments) > len(free):
        raise ConfigError(f"augmentation {call.name} takes {', '.join(free) or 'no arguments'}")
    return {name: _number(call.name, value) for name, value in call.by_name(free).items()}


def _check_key(augmentation: str, key: str | None, free: list[str]) -> None:
    """Refuse an argument by a name that there is not; one without a name goes by its place."""
    if key is not None and key not in free:
        raise ConfigError(f"augmentation {augmentation}: {nearest(key, free, 'argument')}")
