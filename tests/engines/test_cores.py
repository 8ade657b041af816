"""How many workers: affinity and quota, not the machine's size."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from engines.bench import tensors_task
from flatfed.machine import usable_cores, worker_count

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def files(root: Path, **contents: str) -> Path:
    for name, text in contents.items():
        path = root / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def version_two(root: Path, text: str) -> Path:
    return files(root, cpu_DOT_max=text)


def version_one(root: Path, quota: str, period: str) -> Path:
    return files(root, cpu__cpu_DOT_cfs_quota_us=quota, cpu__cpu_DOT_cfs_period_us=period)


def test_without_a_quota_the_affinity_counts(tmp_path: Path) -> None:
    assert usable_cores(tmp_path / "nowhere") == CORES


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_the_affinity_is_respected() -> None:
    script = (
        "import os, pathlib; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
        "from flatfed.machine import usable_cores, worker_count; "
        "print(usable_cores(pathlib.Path('/nowhere')), worker_count('auto'))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    # With one core a worker would only take turns with the process itself.
    assert done.stdout.split() == ["1", "0"]


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("max 100000\n", CORES),
        ("100000 100000\n", 1),
        ("150000 100000\n", 1),
        ("50000 100000\n", 1),
        ("1 100000\n", 1),
        ("200000 100000\n", min(2, CORES)),
        ("6400000 100000\n", min(64, CORES)),
        ("nonsense\n", CORES),
        ("", CORES),
    ],
)
def test_the_quota_of_cgroup_v2_is_respected(text: str, cores: int, tmp_path: Path) -> None:
    assert usable_cores(version_two(tmp_path, text)) == cores


@pytest.mark.parametrize(
    ("quota", "period", "cores"),
    [
        ("-1\n", "100000\n", CORES),
        ("100000\n", "100000\n", 1),
        ("199999\n", "100000\n", 1),
        ("20000\n", "100000\n", 1),
        ("50000\n", "25000\n", min(2, CORES)),
        ("9900000\n", "100000\n", min(99, CORES)),
        ("nonsense\n", "100000\n", CORES),
    ],
)
def test_the_quota_of_cgroup_v1_is_respected(quota: str, period: str, cores: int, tmp_path: Path) -> None:
    assert usable_cores(version_one(tmp_path, quota, period)) == cores


@pytest.mark.parametrize("workers", [0, 1, 7])
def test_a_number_of_workers_is_itself(workers: int) -> None:
    assert worker_count(workers) == workers


@pytest.mark.parametrize("workers", [1_025, 100_000, 2**64])
def test_more_workers_than_any_machine_has_use_for_are_refused(workers: int) -> None:
    with pytest.raises(ff.ConfigError, match=f"workers must be at most 1,024, not {workers}"):
        ff.train(tensors_task(), "fedavg", rounds=1, sampling=2, lr=0.1, workers=workers)


def test_auto_is_the_number_of_usable_cores() -> None:
    assert worker_count("auto") == usable_cores() >= 1


@pytest.mark.parametrize("workers", [-1, 1.5, 2.0, "2", "all", True, False, None, [2]])
def test_anything_else_is_refused(workers: Any) -> None:
    with pytest.raises(ff.ConfigError, match="workers must be 'auto' or a whole number") as caught:
        worker_count(workers)
    assert repr(workers) in str(caught.value)
