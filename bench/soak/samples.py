"""What a run takes of the machine, sampled while it trains, and whether any of it grows."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from processes import Flatfed, open_descriptors, resident_bytes
from run_files import sizes

Sample = dict[str, Any]
MEASURES = {
    "main_bytes": "memory of the main process (RSS)",
    "worker_bytes": "memory of a worker (RSS, the larger of two)",
    "main_descriptors": "open descriptors of the main process",
    "worker_descriptors": "open descriptors of a worker (the larger number)",
    "files": "files in the run directory",
    "bytes": "bytes in the run directory, without the history",
    "history_bytes": "bytes of the history",
    "shared": "directories in shared memory",
}
WORKERS = 2
SHARE = 0.02
"""A measure grows where its fitted change over the second half is more than this part of it, and at least one."""
EXPECTED_TO_GROW = ("history_bytes",)
ENOUGH_ROUNDS = 1000
"""Before, a run still grows as it should: clients take part for the first time, and checkpoints come to be."""


def take_sample(process: Flatfed, run: Path, rows: int, seen: Iterable[Path]) -> Sample | None:
    """Return what a run takes now; nothing while its workers are not all there."""
    workers = process.look()
    memory = [resident_bytes(pid) for pid in workers]
    descriptors = [open_descriptors(pid) for pid in workers]
    if len(workers) != WORKERS or 0 in (*memory, *descriptors):
        return None
    own = {*seen, *process.directories}
    return {
        "rows": rows,
        "main_bytes": resident_bytes(process.pid),
        "worker_bytes": max(memory),
        "main_descriptors": open_descriptors(process.pid),
        "worker_descriptors": max(descriptors),
        "shared": sum(directory.exists() for directory in own),
        **sizes(run),
    }


def trend(samples: list[Sample], measure: str) -> dict[str, Any] | None:
    """Return the level and the slope per 1,000 rounds of a measure over the second half of its samples."""
    last = max((sample["rows"] for sample in samples), default=0)
    half = [sample for sample in samples if sample["rows"] >= last / 2]
    if len({sample["rows"] for sample in half}) < 2:
        return None
    rows = [sample["rows"] for sample in half]
    values = [sample[measure] for sample in half]
    slope = median_slope(rows, values)
    middle = statistics.median(values)
    change = slope * (max(rows) - min(rows))
    return {
        "least": min(sample[measure] for sample in samples),
        "median": middle,
        "most": max(sample[measure] for sample in samples),
        "slope_per_1000": 1000 * slope,
        "grows": change >= max(1.0, SHARE * middle),
        "samples": len(samples),
    }


def median_slope(rows: list[int], values: list[int]) -> float:
    """Return the median of the slopes between all pairs (Theil and Sen): one odd sample does not move it."""
    points = list(zip(rows, values, strict=True))
    pairs = [(one, other) for one, other in itertools.combinations(points, 2) if one[0] != other[0]]
    return statistics.median((other[1] - one[1]) / (other[0] - one[0]) for one, other in pairs)


def trends(samples: list[Sample], rounds: int) -> dict[str, Any]:
    """Return the trend of every measure; none where the run was too short to say."""
    if rounds < ENOUGH_ROUNDS:
        return {}
    found = {measure: trend(samples, measure) for measure in MEASURES}
    return {measure: line for measure, line in found.items() if line is not None}
