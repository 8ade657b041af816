"""The command line loads modules without the garbage collector, and trains with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

AS_BEFORE = """
import gc
from flatfed.cli.loading import loading
with loading():
    assert not gc.isenabled()
    with loading():
        assert not gc.isenabled()
    assert not gc.isenabled()
assert gc.isenabled() and gc.get_freeze_count()
"""
AFTER_AN_ERROR = """
import gc
from flatfed.cli.loading import loading
try:
    with loading():
        raise ValueError
except ValueError:
    assert gc.isenabled()
"""
AS_THE_CALLER_WISHES = """
import gc
from flatfed.cli.loading import loading
gc.disable()
with loading():
    pass
assert not gc.isenabled() and not gc.get_freeze_count()
"""
ONCE = """
import gc
from flatfed.cli.loading import loading
with loading():
    pass
frozen = gc.get_freeze_count()
kept = [[] for _ in range(10_000)]
with loading():
    pass
assert gc.get_freeze_count() <= frozen
"""
TRAINING = """
import gc
import sys
from flatfed.cli.main import main
import flatfed.core.round.federation as federation

seen, play = [], federation.Federation._play
def watched(self, *args):
    seen.append(gc.isenabled())
    return play(self, *args)
federation.Federation._play = watched
try:
    main(["run", "digits", "fedavg", "--rounds", "2", "--workers", "0", "--out", sys.argv[1]])
except SystemExit as end:
    assert end.code == 0
assert seen and all(seen) and gc.isenabled()
"""


@pytest.mark.parametrize("code", [AS_BEFORE, AFTER_AN_ERROR, AS_THE_CALLER_WISHES, ONCE])
def test_the_collector_is_left_as_it_was(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def test_rounds_are_trained_with_the_collector(tmp_path) -> None:
    subprocess.run([sys.executable, "-c", TRAINING, str(tmp_path / "run")], check=True, capture_output=True)
