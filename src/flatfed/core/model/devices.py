"""Where clients compute: a client's model, batches and vectors lie on a device, server and messages in memory.

Several workers may share a device; with several of a kind, workers take them in turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from flatfed.core.errors import ConfigError

CPU = torch.device("cpu")


def find_device(name: str) -> torch.device:
    """Return the device of a name (`cpu`, `cuda`, `cuda:1`, `mps`), or say why there is none."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"device {name!r} is unknown; take cpu, cuda, cuda:N or mps") from None
    _refuse_absent(name, device)
    return CPU if device == CPU else device  # the one object, so that `is CPU` tells it in the hot loop


def _refuse_absent(name: str, device: torch.device) -> None:
    match device.type:
        case "cpu":
            return
        case "cuda":
            count = torch.cuda.device_count()
            if (device.index or 0) >= count:
                raise ConfigError(f"device {name!r} is not here: PyTorch sees {count} CUDA devices")
        case "mps":
            if not torch.backends.mps.is_available():
                raise ConfigError(f"device {name!r} is not here: PyTorch sees no Metal device")
        case _:
            raise ConfigError(f"device {name!r} is not supported; take cpu, cuda, cuda:N or mps")


def share(name: str, worker: int) -> str:
    """Return the device of a worker: of several CUDA devices each in turn, unless one is named."""
    count = torch.cuda.device_count() if name == "cuda" else 0
    return f"cuda:{worker % count}" if count else name


def place(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a batch on the device: to CUDA through pinned memory, without waiting."""
    if tensor.device.type == device.type:
        return tensor
    if device.type == "cuda":
        # Only from pinned memory does a copy go on while this process prepares the next step.
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def seed_device(device: torch.device, seed: int) -> None:
    """Key the global generator of a device."""
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)


@contextmanager
def single_thread() -> Iterator[None]:
    """Compute on one thread and put the thread count back."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
