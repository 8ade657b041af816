"""What a test draws depends on nothing that ran before it."""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

SPECIAL = 0.123456789

here = (float(torch.rand(())), random.random(), float(np.random.rand()))  # noqa: NPY002


def drawn() -> list[float]:
    """Two hundred examples, one after the other."""
    seen: list[float] = []

    @given(number=st.floats(0, 1))
    def draw(number: float) -> None:
        seen.append(number)

    draw()
    draw()
    return seen


@pytest.mark.skipif(bool(os.environ.get("FLATFED_FUZZ")), reason="the draws are to be new ones")
def test_examples_do_not_depend_on_the_modules_that_are_there(tmp_path: Path) -> None:
    before = drawn()
    file = tmp_path / "another.py"
    file.write_text(f"numbers = [{', '.join(str(SPECIAL + n / 1000) for n in range(50))}]")
    spec = importlib.util.spec_from_file_location("another_module", file)
    assert spec is not None and spec.loader is not None
    sys.modules["another_module"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["another_module"])
    try:
        assert drawn() == before
    finally:
        del sys.modules["another_module"]


@pytest.mark.parametrize("time", [1, 2])
def test_global_generators_start_from_the_same_state(time: int) -> None:
    assert (float(torch.rand(())), random.random(), float(np.random.rand())) == here  # noqa: NPY002


@pytest.fixture
def in_the_background() -> Iterator[None]:
    """As a script starts its jobs: Ctrl-C is ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("in_the_background", "signals_heard")
def test_signals_are_heard_in_the_background_too() -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    program = "import signal; signal.raise_signal(signal.SIGINT)"
    assert subprocess.run([sys.executable, "-c", program], stderr=subprocess.DEVNULL).returncode == -signal.SIGINT
