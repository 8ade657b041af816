"""Started as `unshare -rm python small_disk.py RUN DISK ROWS`: a run goes on on a small disk until that is full.

The run is copied to a file system in memory that this name space alone sees, and resumed there. When the history has
the rows, the disk is filled. The run must end with a sentence, and so must its resumption on the full disk. Then there
is room again, and the run is copied back beside the original, under the name RUN.new. A report is printed as JSON.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from processes import Flatfed, wait_until
from run_files import Rows, count_rows, sizes

SPARE = 8 * 2**20
"""Bytes beyond what the run has: the rounds until the disk is full must fit."""


def main(run: Path, disk: Path, rows: int) -> dict[str, Any]:
    """Play it and return what happened."""
    found = sizes(run)
    room = 2 * (found["bytes"] + found["history_bytes"]) + 4096 * found["files"] + SPARE
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={room}", "none", str(disk)], check=True)
    copy = disk / "run"
    shutil.copytree(run, copy)
    first = filled(copy, disk / "filling", rows)
    again = ended(Flatfed(["resume", str(copy)]))
    (disk / "filling").unlink()
    copying = run.with_name(f"{run.name}.copying")
    shutil.rmtree(copying, ignore_errors=True)
    shutil.copytree(copy, copying)
    copying.rename(run.with_name(f"{run.name}.new"))
    return {"first": first, "again": again, "rows": count_rows(copy)}


def filled(run: Path, filling: Path, rows: int) -> dict[str, Any]:
    """Resume a run, fill its disk when the history has the rows, and return how it ended."""
    process = Flatfed(["resume", str(run)])
    counted = Rows(run)
    try:
        wait_until(lambda: counted.count() >= rows or not process.runs(), f"{rows} rows on the small disk", 600)
        process.look()
        with filling.open("wb", buffering=0) as file:
            fill(file)
    except BaseException:
        process.abandon()
        raise
    return ended(process)


def fill(file: Any) -> None:
    """Write until there is no room."""
    try:
        while True:
            file.write(bytes(512))
    except OSError:
        return


def ended(process: Flatfed) -> dict[str, Any]:
    """Wait for a process and return how it ended."""
    try:
        return {"code": process.end(), "text": process.text}
    finally:
        process.abandon()


if __name__ == "__main__":
    report = main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps(report))
