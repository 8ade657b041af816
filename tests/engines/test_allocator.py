"""Freed memory is kept for the next step: far fewer page faults, where there is a C library that can be told."""

from __future__ import annotations

import ctypes
import json
import platform
import subprocess
import sys
from typing import Any

import pytest
import torch

from flatfed.machine import M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, keep_freed_memory
from nursery import environment

ON_GLIBC = sys.platform == "linux" and platform.libc_ver()[0] == "glibc"

FAULTS = """
import json, resource, sys
import torch
from flatfed.machine import keep_freed_memory

torch.set_num_threads(1)

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        torch.ones(2**24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
before = faults()
told = keep_freed_memory()
faults()
after = min(faults() for _ in range(4))  # the system may take pages back once in a while, for others
print(json.dumps({"before": before, "told": told, "after": after, "again": keep_freed_memory()}))
"""


def in_new_process(code: str) -> Any:
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), timeout=300, check=False
    )
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


@pytest.mark.skipif(not ON_GLIBC, reason="only glibc is told")
def test_blocks_of_64_megabytes_are_taken_and_freed_with_far_fewer_page_faults() -> None:
    found = in_new_process(FAULTS)
    assert (found["told"], found["again"]) == (True, True)
    assert found["before"] >= 8 * 16, "the blocks were not fetched anew each time, so nothing is measured"
    assert found["after"] * 20 < found["before"]


WORKER = """
import json, resource
import torch
import flatfed as ff
from torch import nn

class Greedy(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = nn.Linear(2, 2)

    def forward(self, x):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(2**24)
        COUNTS.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        return self.inside(x)

class Telling(ff.Algorithm):
    def finish(self, client):
        client.watch.update(first=float(COUNTS[0]), all=float(sum(COUNTS)))
        return super().finish(client)

COUNTS = []
task = ff.Task(Greedy(), [(torch.randn(4, 2), torch.zeros(4, dtype=torch.int64))])
run = ff.train(task, Telling(), rounds=2, sampling=1, lr=0.1, local_epochs=20, workers=1, vectorised=False)
print(json.dumps(run.history[-1]["watch"]))
"""


@pytest.mark.skipif(not ON_GLIBC, reason="only glibc is told")
def test_workers_keep_theirs() -> None:
    """Forty steps; a few may find the kept block divided by what was taken between rounds."""
    found = in_new_process(WORKER)
    assert found["first"] > 0
    assert found["all"] * 5 < found["first"] * 40


def test_it_says_whether_it_could_and_may_be_called_again() -> None:
    found = [keep_freed_memory() for _ in range(2)]
    assert found == [ON_GLIBC, ON_GLIBC]
    assert torch.ones(2**20).sum() == 2**20


class Library:
    """A C library that sets no threshold above `most`, as older versions of glibc do with 32 MB."""

    def __init__(self, most: int) -> None:
        self.most, self.set = most, dict[int, int]()

    gnu_get_libc_version = "2.31"

    def mallopt(self, name: int, value: int) -> int:
        if name == M_MMAP_THRESHOLD and value > self.most:
            return 0
        self.set[name] = value
        return 1


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no library is asked")
@pytest.mark.parametrize("most", [2**31, 2**25, 0])
def test_a_library_that_takes_less_is_not_left_worse_than_before(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any threshold that is set ends glibc's own adjusting: one for the top alone would fix blocks at 128 KB."""
    library = Library(most)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    told = keep_freed_memory()
    assert told is (most > 0)
    assert (M_TRIM_THRESHOLD in library.set) == (M_MMAP_THRESHOLD in library.set) == (most > 0)


def test_other_systems_and_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        def mallopt(self, name: int, value: int) -> int:
            raise AssertionError("it was told")

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Other())
    assert keep_freed_memory() is False
    monkeypatch.setattr(sys, "platform", "darwin")
    assert keep_freed_memory() is False


def test_a_library_that_cannot_be_opened_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: Any) -> Any:
        raise OSError("not here")

    monkeypatch.setattr(ctypes, "CDLL", fails)
    assert keep_freed_memory() is False
