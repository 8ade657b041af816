"""Images with a class per pixel: pictures, masks, and the lists that say which belong together and to whom."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.data.formats.images import fault, pillow
from flatfed.data.formats.texts import whole_number

IGNORE = 255
"""The label of pixels that have no class."""
FORBIDDEN = -1
MASK_MODES = ("L", "P", "1")

Size = tuple[int, int]
"""Height and width."""
SizeText = object
"""A size as an option: HEIGHTxWIDTH, or empty; `parse_size` refuses all else."""


@dataclass(frozen=True)
class Labels:
    """What the values in the masks of a data set mean: `classes[value]` is the class, `IGNORE` for none.

    Any other value has no class either or, where `strict`, is an error.
    """

    classes: Mapping[int, int]
    strict: bool = True

    def read(self, path: Path, size: Size | None = None) -> Tensor:
        """Return a mask as classes (uint8, height x width), resized to the nearest pixel where a size is given."""
        picture = _opened(path)
        if picture.mode not in MASK_MODES:
            raise ConfigError(f"{path} is no mask: it should have a number per pixel, not the mode {picture.mode}")
        values = np.asarray(_resized(picture, size, "NEAREST"), np.uint8)
        table = np.full(256, FORBIDDEN if self.strict else IGNORE, np.int16)
        table[list(self.classes)] = list(self.classes.values())
        found = table[values]
        if int(found.min()) == FORBIDDEN:
            value = int(values[found == FORBIDDEN][0])
            raise ConfigError(f"{path} holds the label {value}, which these data do not have; is it the right mask?")
        return torch.from_numpy(found.astype(np.uint8))


@dataclass(frozen=True)
class Pairs:
    """A reader of pictures and their masks, all of one size; with `resize` they are brought to it."""

    images: Sequence[Path]
    masks: Sequence[Path]
    labels: Labels
    size: Size
    resize: bool = False

    @classmethod
    def found(
        cls,
        images: Sequence[Path],
        masks: Sequence[Path],
        labels: Labels,
        size: Size | None = None,
        named_in: Path | None = None,
    ) -> Pairs:
        """Return the reader of files that must be there; without a size they have that of the first picture.

        `named_in` is the list that names them, or a folder of lists.
        """
        missing = [path for path in (*images, *masks) if not path.is_file()]
        if missing:
            others = f" ({len(missing):,} files are)" if len(missing) > 1 else ""
            why = f"{named_in} names it" if named_in else "the data are not complete"
            raise ConfigError(f"{missing[0]} is missing{others}; {why}")
        return cls(images, masks, labels, size or _size(_opened(images[0])), size is not None)

    def __len__(self) -> int:
        return len(self.images)

    def __call__(self, index: int) -> tuple[Tensor, Tensor]:
        """Return a picture (uint8, 3 x height x width) and its mask (uint8, height x width)."""
        size = self.size if self.resize else None
        image, mask = read_image(self.images[index], size), self.labels.read(self.masks[index], size)
        for path, shape in ((self.images[index], image.shape[1:]), (self.masks[index], mask.shape)):
            if tuple(shape) != self.size:
                sizes = f"{_by(shape)} pixels (height x width), the first picture {_by(self.size)}"
                raise ConfigError(f"{path} has {sizes}; all must be equally large, or give data.size")
        return image, mask


def read_image(path: Path, size: Size | None = None) -> Tensor:
    """Return a picture as uint8, 3 x height x width, resized (bicubic) where a size is given."""
    picture = _resized(_opened(path).convert("RGB"), size, "BICUBIC")
    return torch.from_numpy(np.array(picture, np.uint8).transpose(2, 0, 1).copy())


def parse_size(label: str, text: SizeText) -> Size | None:
    """Return `HEIGHTxWIDTH` as two numbers; None for nothing or an empty text."""
    if text is None or text == "":
        return None
    height, width = (whole_number(side) for side in (str(text).partition("x")[::2]))
    if not height or not width:
        raise ConfigError(f"{label} must be HEIGHTxWIDTH in pixels, such as 512x1024, not {text!r:.40}")
    return height, width


def read_pair_list(path: Path, root: Path) -> tuple[list[Path], list[Path]]:
    """Return the pictures and masks of a list as SegNet has them: two paths a line, whatever they begin with.

    Folder and file, the last two parts of each, are looked for in `root`.
    """
    images, masks, lines = list[Path](), list[Path](), dict[str, int]()
    for number, line in enumerate(_text(path).splitlines(), 1):
        both = line.split()
        if both and len(both) != 2:
            raise ConfigError(f"{path}, line {number}: a picture and a mask are expected, not {len(both)} paths")
        if both and (first := lines.setdefault(both[0], number)) != number:
            raise ConfigError(f"{path}, line {number}: {both[0]} is there already, on line {first}")
        for paths, name in zip((images, masks), both, strict=False):
            parts = [part for part in PurePosixPath(name).parts if part != "/"][-2:]
            if not parts or ".." in parts:
                raise ConfigError(f"{path}, line {number}: {name} is no path of a picture or mask")
            paths.append(root.joinpath(*parts))
    if not images:
        raise ConfigError(f"{path} lists no pictures")
    return images, masks


@dataclass(frozen=True)
class ClientList:
    """The pictures and masks of one client."""

    name: str
    images: list[Path]
    masks: list[Path]


def read_client_lists(folder: Path, images: Path, masks: Path) -> list[ClientList]:
    """Return the clients in FedDrive's JSON files of a folder, by name; paths are relative to `images` and `masks`."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise ConfigError(f"{folder} holds no lists of clients (*.json); put those of FedDrive there")
    clients: dict[str, ClientList] = {}
    for path in files:
        for name, entry in _users(path).items():
            if name in clients:
                raise ConfigError(f"{path}: the client {name!r} is there twice, here or in another list")
            pictures, labels = (_names(path, name, entry, part) for part in ("x", "y"))
            if len(pictures) != len(labels) or not pictures:
                raise ConfigError(f"{path}: {name!r} has {len(pictures)} pictures and {len(labels)} masks")
            clients[name] = ClientList(name, [images / p for p in pictures], [masks / p for p in labels])
    return [clients[name] for name in sorted(clients)]


def _users(path: Path) -> Mapping[str, Any]:
    text = _text(path)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {error}") from None
    users = content.get("user_data") if isinstance(content, dict) else None
    if not isinstance(users, dict) or not users:
        raise ConfigError(f"{path} names no clients (`user_data`, with `x` and `y` of each)")
    return users


def _names(path: Path, name: str, entry: Any, part: str) -> list[str]:
    found = entry.get(part) if isinstance(entry, dict) else None
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ConfigError(f"{path}: {part!r} of {name!r} must be a list of file names")
    for item in found:
        if PurePosixPath(item).is_absolute() or ".." in PurePosixPath(item).parts or not item:
            raise ConfigError(f"{path}: {item!r} of {name!r} leads out of the folder of the pictures")
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{path} is missing") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} cannot be read: byte {error.start + 1} is not UTF-8") from None


def _opened(path: Path) -> Any:
    """Return a picture, decoded."""
    image_class = pillow("images")
    try:
        with image_class.open(path) as picture:
            picture.load()
    except FileNotFoundError:
        raise ConfigError(f"{path} is missing") from None
    except Exception as error:  # Pillow raises many kinds for damaged files
        raise ConfigError(f"{path} cannot be read as an image: {fault(error)}; replace it") from error
    return picture


def _size(picture: Any) -> Size:
    return picture.size[1], picture.size[0]


def _resized(picture: Any, size: Size | None, how: str) -> Any:
    if size is None or _size(picture) == size:
        return picture
    return picture.resize((size[1], size[0]), getattr(pillow("images").Resampling, how))


def _by(shape: Sequence[int]) -> str:
    return "x".join(str(side) for side in shape)
