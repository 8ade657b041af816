"""How many cores this process may really use: its affinity and its cgroup's quota, not the machine's size."""

from __future__ import annotations

import math
import os
from pathlib import Path

from flatfed.core.errors import ConfigError


def usable_cores(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the number of cores to plan for, at least one."""
    cores = _affinity()
    quota = _cgroup_quota(cgroup)
    if quota is not None:
        # Down: with more workers than the quota allows, all of them would be held up.
        cores = min(cores, math.floor(quota))
    return max(1, cores)


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cgroup_quota(root: Path) -> float | None:
    """Return the CPU quota in cores, of cgroup v2 or v1; None where there is none (or no cgroup, as on macOS)."""
    for read in (_quota_v2, _quota_v1):
        try:
            return read(root)
        except (OSError, ValueError):  # not this version's files
            continue
    return None


def _quota_v2(root: Path) -> float | None:
    quota, period = (root / "cpu.max").read_text().split()[:2]
    return None if quota == "max" else max(1.0, int(quota) / int(period))


def _quota_v1(root: Path) -> float | None:
    quota = int((root / "cpu" / "cpu.cfs_quota_us").read_text())
    if quota <= 0:
        return None
    return max(1.0, quota / int((root / "cpu" / "cpu.cfs_period_us").read_text()))


def worker_count(workers: int | str) -> int:
    """Return the number of worker processes that `workers` asks for; 0 means this process."""
    if workers == "auto":
        return usable_cores()
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
        raise ConfigError(f"workers must be 'auto' or a whole number of at least 0, not {workers!r}")
    return workers
