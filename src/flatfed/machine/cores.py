"""How many cores this process may really use: its affinity and its cgroup's quota, not the machine's size."""

from __future__ import annotations

import math
import os
from pathlib import Path

from flatfed.core.errors import ConfigError


def usable_cores(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the number of cores to plan for, at least one."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_quota(cgroup)
    return max(1, min(affinity, math.floor(quota)) if quota is not None else affinity)


def _cgroup_quota(root: Path) -> float | None:
    """Return the CPU quota in cores, of cgroup v2 or v1; None where there is none (or no cgroup, as on macOS)."""
    try:
        quota, period = (root / "cpu.max").read_text().split()[:2]
        return None if quota == "max" else max(1.0, int(quota) / int(period))
    except (OSError, ValueError):
        pass
    try:
        limit = int((root / "cpu" / "cpu.cfs_quota_us").read_text())
        return max(1.0, limit / int((root / "cpu" / "cpu.cfs_period_us").read_text())) if limit > 0 else None
    except (OSError, ValueError):
        return None


def worker_count(workers: int | str) -> int:
    """Return the number of worker processes that `workers` asks for; 0 means this process."""
    if workers == "auto":
        return usable_cores()
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
        raise ConfigError(f"workers must be 'auto' or a whole number of at least 0, not {workers!r}")
    return workers
