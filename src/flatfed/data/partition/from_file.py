"""A partition that someone else has made, from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import PARAMETER, ConfigError
from flatfed.data.directory import DataDirectory
from flatfed.data.partition.base import Groups, Ints, Partitioner, check_partition
from flatfed.data.partition.owner_files import read_parts


class FromFile(Partitioner, id="file"):
    """From a file: JSON lists of indices, CSV with client,index or an owner per line, NPZ or NPY owners.

    `path` is looked for here and then in the data directory; `key` names the array of an NPZ file that has several. An
    owner of -1 is nobody. The number of clients is the file's.
    """

    as_the_data_has: ClassVar[bool] = True

    path: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.path:
            raise ConfigError(
                f"{PARAMETER} must name a file that holds the partition: .json, .csv, .npz or .npy",
                parameter="partition.path",
            )

    def assign(
        self, labels: npt.NDArray[Any], groups: Groups, clients: int | None, generator: np.random.Generator
    ) -> list[Ints]:
        """Return what the file says, checked."""
        path = Path(self.path).expanduser()
        try:
            parts = read_parts(path, self.key, len(labels))
            check_partition(parts, len(labels))
        except ConfigError as error:
            raise error.within(f"partition file {path}") from None
        if clients is not None and clients != len(parts):
            raise ConfigError(
                f"partition file {path}: it has {len(parts)} clients, not {clients}; leave {PARAMETER} out",
                parameter="clients",
            )
        return parts

    def within(self, directory: DataDirectory) -> Self:
        """Return the rule with the file that is here or in the data directory."""
        places = directory.places(self.path)
        for place in places:
            if place.is_file():
                return self.replace(path=str(place))
        tried = " or ".join(str(place.absolute()) for place in places)
        raise ConfigError(f"partition file {self.path}: there is no file {tried}")
