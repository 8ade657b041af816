"""A full disk: it is said which file it was, the run says that it failed, and goes on when there is room."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nursery import environment
from runs.bench import digest, small_run

SCRIPT = """
import json, os, sys
from pathlib import Path
import flatfed as ff
from flatfed.runs.directory import RunDirectory
from runs.bench import digest, litter, small_run

disk = Path(sys.argv[1])
path = disk / "run"


def fill(row):
    if row["round"] == 1:
        with (disk / "filling").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(512))
            except OSError:
                pass


report = {}
try:
    small_run(path, on_round=fill)
except ff.FlatfedError as error:
    report["error"] = str(error)
report["recorded"] = json.loads((path / "status.json").read_text())
try:
    ff.resume(path)
except ff.FlatfedError as error:
    report["again"] = str(error)
report["status"] = RunDirectory.open(path).status()["status"]
(disk / "filling").unlink()
report["bits"] = digest(ff.resume(path))
report["litter"] = litter(path)
print(json.dumps(report))
"""


def can_mount() -> bool:
    """Say whether a small disk can be made here, in a name space of its own."""
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="no small disk can be made here")
def test_a_full_disk_is_reported_the_run_says_failed_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    disk, script = tmp_path / "disk", tmp_path / "script.py"
    disk.mkdir()
    script.write_text(SCRIPT)
    mounted = f"mount -t tmpfs -o size=1m none '{disk}' && exec \"$@\""
    command = ["unshare", "-rm", "sh", "-c", mounted, "sh", sys.executable, str(script), str(disk)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert f"{disk}/run/" in report["error"]
    assert "could not be written: the disk is full; make room, then continue with: flatfed resume" in report["error"]
    assert report["recorded"]["status"] == "failed"
    assert "could not be written: the disk is full" in report["recorded"]["reason"]
    assert "could not be written: the disk is full" in report["again"]
    assert report["status"] == "failed"
    assert report["bits"] == digest(small_run(None))
    assert report["litter"] == []
