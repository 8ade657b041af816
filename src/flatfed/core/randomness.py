"""Keyed randomness: every draw comes from (seed, purpose, round, client, ...), never from global state.

Equal keys give equal draws whatever ran before, in whichever process, so that runs do not depend on the
number of workers, on arrival order or on interruptions.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def key(seed: int, purpose: str, *parts: int | str) -> int:
    """Return a 63-bit integer that depends on every part of the key (BLAKE2b of their text)."""
    # With a sign between the parts: round 1, client 23 must not have the key of round 12, client 3.
    text = "\x1f".join([str(seed), purpose, *map(str, parts)])
    # 63 bits: torch takes seeds of 64, and a client adds the number of its step to them.
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def torch_generator(seed: int, purpose: str, *parts: int | str) -> torch.Generator:
    """Return a torch generator for this key."""
    return torch.Generator().manual_seed(key(seed, purpose, *parts))


def numpy_generator(seed: int, purpose: str, *parts: int | str) -> np.random.Generator:
    """Return a NumPy generator for this key."""
    return np.random.Generator(np.random.PCG64(key(seed, purpose, *parts)))


@contextmanager
def preserved_global_state() -> Iterator[None]:
    """Put the global generators of torch, NumPy and Python back as they were: models and data sets draw from them."""
    with preserved_torch_generator(), preserved_other_generators():
        yield


@contextmanager
def preserved_torch_generator() -> Iterator[None]:
    """Put torch's global generator back as it was."""
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)


@contextmanager
def preserved_other_generators() -> Iterator[None]:
    """Put the global generators of NumPy and of Python back; it takes NumPy a quarter of a millisecond."""
    states = np.random.get_state(), random.getstate()  # noqa: NPY002  (to put it back)
    try:
        yield
    finally:
        np.random.set_state(states[0])  # noqa: NPY002  (put back)
        random.setstate(states[1])


def global_state() -> tuple[Any, ...]:
    """Return the states of the global generators of torch, NumPy and Python, to see whether something drew."""
    _, words, place, *rest = np.random.get_state()  # noqa: NPY002  (to look at it)
    return torch.get_rng_state().numpy().tobytes(), np.asarray(words).tobytes(), place, *rest, random.getstate()


def put_back_other_generators(state: tuple[Any, ...]) -> None:
    """Put the global generators of NumPy and of Python back to a state that `global_state` has returned."""
    _, words, place, *rest, python_state = state
    np.random.set_state(("MT19937", np.frombuffer(words, np.uint32), place, *rest))  # noqa: NPY002  (put back)
    random.setstate(python_state)


def key_global_generators(seed: int) -> None:
    """Key the global generators of torch, NumPy and Python, from which a user's model, loss or data set may draw."""
    torch.default_generator.manual_seed(seed)
    key_other_generators(seed)


def key_other_generators(seed: int) -> None:
    """Key the global generators of NumPy and of Python."""
    random.seed(seed)
    # NumPy's global generator takes seeds of 32 bits only.
    np.random.seed(seed % 2**32)  # noqa: NPY002  (a user's code draws from the global one)


@contextmanager
def other_generators(seed: int) -> Iterator[None]:
    """Key the global generators of NumPy and of Python, and put them back: transforms of data sets draw from them."""
    with preserved_other_generators():
        key_other_generators(seed)
        yield
