"""Run every harness of atheris in a process of its own: `python run_harnesses.py 20000`. A defect ends with code 1."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
FORMATS = (
    "message",
    "idx",
    "idx.gz",
    "cifar.pickle",
    "csv",
    "clients.csv",
    "numbers.csv",
    "scaling.csv",
    "pairs",
    "npy",
    "history",
)
TEXTS = ("method", "schedule", "measurements", "watch", "augmentation", "setting", "value", "target", "yaml")
MEGABYTES, SECONDS = 4096, 30
"""What one input may take of memory and time before it counts as a defect."""


def main() -> int:
    """Run them all, whatever each of them finds."""
    runs = int(sys.argv[1])
    wanted = [("harness_formats.py", name) for name in FORMATS] + [("harness_texts.py", name) for name in TEXTS]
    failed = [f"{script} {name}" for script, name in wanted if not passes(script, name, runs)]
    print(f"{len(wanted)} harnesses of {runs} runs each; defects: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


def passes(script: str, name: str, runs: int) -> bool:
    """Run one and say whether it found nothing; what it found is printed, with the input."""
    limits = [
        f"-rss_limit_mb={MEGABYTES}",
        f"-timeout={SECONDS}",
        "-verbosity=0",
        f"-artifact_prefix={tempfile.gettempdir()}/",
    ]
    command = [sys.executable, str(HERE / script), name, f"-runs={runs}", *limits]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE.parent), *filter(None, sys.path)])}
    print(f"{script} {name}", flush=True)
    # In memory, where there is such a place: a disk would be the slowest part of it.
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as place:
        done = subprocess.run(command, env=environment | {"TMPDIR": place}, check=False, capture_output=True)
    if done.returncode:
        print(done.stderr.decode("utf-8", "replace"), flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
