"""Images with a class per pixel: pictures, masks, and the lists that say which belong together and to whom."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.data.formats.client_tables import how_many
from flatfed.data.formats.files import read_text
from flatfed.data.formats.images import image_errors, pillow
from flatfed.data.formats.texts import whole_number
from flatfed.machine import require_regular

IGNORE = 255
"""The label of pixels that have no class."""
FORBIDDEN = -1
MASK_MODES = ("L", "P", "1")

Size = tuple[int, int]
"""Height and width."""
SizeText = object
"""A size as an option: HEIGHTxWIDTH, or empty; `parse_size` refuses all else."""


@dataclass(frozen=True)
class MaskLabels:
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
        # The nearest pixel: a mean of two labels would be a third.
        values = np.asarray(_resized(picture, size, "NEAREST"), np.uint8)
        classes = self._table()[values]
        if int(classes.min()) == FORBIDDEN:
            value = int(values[classes == FORBIDDEN][0])
            raise ConfigError(f"{path} holds the label {value}, which the data does not have; is it the right mask?")
        return torch.from_numpy(classes.astype(np.uint8))

    def _table(self) -> npt.NDArray[np.int16]:
        """Return the class of every value that a byte can have."""
        other = FORBIDDEN if self.strict else IGNORE
        table = np.full(256, other, np.int16)
        table[list(self.classes)] = list(self.classes.values())
        return table


@dataclass(frozen=True)
class Pairs:
    """A reader of pictures and their masks, all of one size; with `resize` they are brought to it."""

    images: Sequence[Path]
    masks: Sequence[Path]
    labels: MaskLabels
    size: Size
    resize: bool = False

    @classmethod
    def found(
        cls,
        images: Sequence[Path],
        masks: Sequence[Path],
        labels: MaskLabels,
        size: Size | None = None,
        named_in: Path | None = None,
    ) -> Pairs:
        """Return the reader of files that must be there; without a size they have that of the first picture.

        `named_in` is the list that names them, or a folder of lists.
        """
        _check_there([*images, *masks], named_in)
        if size is None:
            return cls(images, masks, labels, _size(_opened(images[0])))
        return cls(images, masks, labels, size, resize=True)

    def __len__(self) -> int:
        return len(self.images)

    def __call__(self, index: int) -> tuple[Tensor, Tensor]:
        """Return a picture (uint8, 3 x height x width) and its mask (uint8, height x width)."""
        size = self.size if self.resize else None
        image = read_image(self.images[index], size)
        mask = self.labels.read(self.masks[index], size)
        self._check_size(self.images[index], image.shape[1:])
        self._check_size(self.masks[index], mask.shape)
        return image, mask

    def _check_size(self, path: Path, shape: torch.Size) -> None:
        if tuple(shape) != self.size:
            sizes = f"{_by(shape)} pixels (height x width), the first picture {_by(self.size)}"
            raise ConfigError(f"{path} has {sizes}; all must be equally large, or give data.size")


def _check_there(files: Sequence[Path], named_in: Path | None) -> None:
    missing = [path for path in files if not path.is_file()]
    if missing:
        why = "the data are not complete" if named_in is None else f"{named_in} names it"
        raise ConfigError(f"{missing[0]} is missing{how_many(len(missing), 'files ')}; {why}")


def read_image(path: Path, size: Size | None = None) -> Tensor:
    """Return a picture as uint8, 3 x height x width, resized (bicubic) where a size is given."""
    picture = _resized(_opened(path).convert("RGB"), size, "BICUBIC")
    return torch.from_numpy(np.array(picture, np.uint8).transpose(2, 0, 1).copy())


def parse_size(label: str, text: SizeText) -> Size | None:
    """Return `HEIGHTxWIDTH` as two numbers; None for nothing or an empty text."""
    if text in (None, ""):
        return None
    first, _, second = str(text).partition("x")
    height, width = whole_number(first), whole_number(second)
    if not height or not width:
        raise ConfigError(f"{label} must be HEIGHTxWIDTH in pixels, such as 512x1024, not {text!r:.40}")
    return height, width


def read_pair_list(path: Path, root: Path) -> tuple[list[Path], list[Path]]:
    """Return the pictures and masks of a list as SegNet has them: two paths per line, whatever they begin with.

    Folder and file, the last two parts of each, are looked for in `root`.
    """
    pairs = _listed_pairs(path)
    if not pairs:
        raise ConfigError(f"{path} lists no pictures")
    _check_single(pairs)
    return [pair.below(root, pair.image) for pair in pairs], [pair.below(root, pair.mask) for pair in pairs]


@dataclass(frozen=True)
class _ListedPair:
    """One line of a list of pairs."""

    path: Path
    line: int
    image: str
    mask: str

    def wrong(self, what: str) -> ConfigError:
        """Return the error that something is wrong with this line."""
        return ConfigError(f"{self.path}, line {self.line}: {what}")

    def below(self, root: Path, name: str) -> Path:
        """Return the file of a name; the published lists begin with a folder of their authors' machine."""
        parts = PurePosixPath(name.lstrip("/")).parts[-2:]
        if not parts or ".." in parts:
            raise self.wrong(f"{name} is no path of a picture or mask")
        return root.joinpath(*parts)


def _listed_pairs(path: Path) -> list[_ListedPair]:
    lines = enumerate(read_text(path).splitlines(), 1)
    return [_listed_pair(path, number, line.split()) for number, line in lines if line.strip()]


def _listed_pair(path: Path, line: int, names: Sequence[str]) -> _ListedPair:
    if len(names) != 2:
        raise ConfigError(f"{path}, line {line}: a picture and a mask are expected, not {len(names)} paths")
    return _ListedPair(path, line, *names)


def _check_single(pairs: Sequence[_ListedPair]) -> None:
    """Refuse a picture that is there twice."""
    first: dict[str, _ListedPair] = {}
    for pair in pairs:
        if pair.image in first:
            raise pair.wrong(f"{pair.image} is there already, on line {first[pair.image].line}")
        first[pair.image] = pair


@dataclass(frozen=True)
class ClientList:
    """The pictures and masks of one client."""

    name: str
    images: list[Path]
    masks: list[Path]


def read_client_lists(folder: Path, images: Path, masks: Path) -> list[ClientList]:
    """Return the clients in FedDrive's JSON files of a folder, by name; paths are relative to `images` and `masks`."""
    clients: dict[str, ClientList] = {}
    for path in _client_files(folder):
        users = _users(path)
        twice = users.keys() & clients.keys()
        if twice:
            raise ConfigError(f"{path}: the client {min(twice)!r} is there twice, here and in another list")
        clients |= {name: _client(path, name, entry, images, masks) for name, entry in users.items()}
    return [clients[name] for name in sorted(clients)]


def _client_files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.json"))
    if not files:
        raise ConfigError(f"{folder} holds no lists of clients (*.json); put those of FedDrive there")
    return files


def _client(path: Path, name: str, entry: Any, images: Path, masks: Path) -> ClientList:
    pictures = _names(path, name, entry, "x")
    labels = _names(path, name, entry, "y")
    if len(pictures) != len(labels) or not pictures:
        raise ConfigError(f"{path}: {name!r} has {len(pictures)} pictures and {len(labels)} masks")
    return ClientList(name, list(map(images.joinpath, pictures)), list(map(masks.joinpath, labels)))


def _users(path: Path) -> Mapping[str, Any]:
    users = _entry(_json(path), "user_data")
    if not isinstance(users, dict) or not users:
        raise ConfigError(f"{path} names no clients (`user_data`, with `x` and `y` of each)")
    return users


def _json(path: Path) -> Any:
    text = read_text(path)
    try:
        return json.loads(text)
    # Brackets nested too deeply are a RecursionError.
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {error}") from None


def _entry(content: Any, key: str) -> Any:
    """Return what an object of a JSON file holds under a key; None where it is no object."""
    if not isinstance(content, dict):
        return None
    return content.get(key)


def _names(path: Path, client: str, entry: Any, part: str) -> list[str]:
    names = _entry(entry, part)
    if not _is_list_of_texts(names):
        raise ConfigError(f"{path}: {part!r} of {client!r} must be a list of file names")
    outside = list(filter(_leads_out, names))
    if outside:
        raise ConfigError(f"{path}: {outside[0]!r} of {client!r} leads out of the folder of the pictures")
    return list(names)


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _leads_out(name: str) -> bool:
    # Lists come from elsewhere: a name in them must not reach other files of the machine.
    path = PurePosixPath(name)
    return not name or path.is_absolute() or ".." in path.parts


def _opened(path: Path) -> Any:
    """Return a picture, decoded."""
    image_module = pillow("images")
    with image_errors(str(path), str(path)):
        require_regular(path)
        with image_module.open(path) as picture:
            # Decoded now: Pillow reads lazily, and the file is closed at the end of the block.
            picture.load()
            return picture


def _size(picture: Any) -> Size:
    return picture.size[1], picture.size[0]


def _resized(picture: Any, size: Size | None, how: str) -> Any:
    if size is None or _size(picture) == size:
        return picture
    return picture.resize((size[1], size[0]), getattr(pillow("images").Resampling, how))


def _by(shape: Sequence[int]) -> str:
    return "x".join(str(side) for side in shape)
