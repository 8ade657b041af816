"""NumPy's own files: an array (.npy) or several by name (.npz); nothing that is pickled in them is ever run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from flatfed.core.errors import ConfigError

ARRAY, ARRAYS = b"\x93NUMPY", b"PK"


@contextmanager
def opened(path: Path, name: str = "", mmap: Literal["r"] | None = None) -> Iterator[Any]:
    """Open an array, or an `NpzFile` whose arrays are read inside the block; what goes wrong there is an error too.

    Errors call the file `name`, by default its path.
    """
    name = name or str(path)
    try:
        with path.open("rb") as file:
            begin = file.read(len(ARRAY))
            if begin and not begin.startswith((ARRAY, ARRAYS)):
                raise ConfigError(f"{name} cannot be read: it is no NumPy file (.npy or .npz)")
            file.seek(0)
            mapped = mmap if begin == ARRAY else None
            yield np.load(path if mapped else file, mmap_mode=mapped, allow_pickle=False)
    except ConfigError:
        raise
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # a damaged header or archive fails in many ways
        objects = "allow_pickle" in str(error) or "Python objects" in str(error)
        why = "it holds Python objects, which are not opened" if objects else f"it is truncated or damaged ({error})"
        raise ConfigError(f"{name} cannot be read: {why}") from None
