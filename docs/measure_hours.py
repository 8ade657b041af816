"""Check every preset at small scale on this machine, and write what each would take into docs/hours.json.

    python docs/measure_hours.py                     # all presets: about half an hour
    python docs/measure_hours.py fedgloss/table-6    # some of them; the others stay as they are

`docs/write_hours.py` makes the table of docs/hours.md from it.
"""

import datetime
import json
import platform
import sys
from pathlib import Path
from typing import Any

from flatfed.named_code import USER
from flatfed.studies.cells import Resolver
from flatfed.studies.checking.check_study import check_study
from flatfed.studies.checking.timed_cells import TimedCells
from flatfed.studies.presets import Preset, find_preset, paper_names, presets_of

FILE = Path(__file__).parent / "hours.json"
JOBS = 2


def runnable() -> list[str]:
    """Return the presets of which something is trained."""
    return [preset.id for paper in paper_names() for preset in presets_of(paper).values() if not preset.nothing]


def machine() -> str:
    """Return what this machine is, in words."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    return f"{names[0] if names else platform.processor()}, {platform.system()}, {JOBS} cells at once"


def checked(preset: Preset, known: TimedCells) -> dict[str, Any]:
    """Return what a preset takes at small scale."""
    found = check_study(Resolver(preset.resolved("small"), USER), JOBS, known=known)
    return {
        "cells": found.cells,
        "seconds": round(found.seconds),
        "measuring": round(found.measuring),
        "disk": found.disk,
        "not included": found.not_included,
        # Where the home directory is says nothing to others.
        "mistakes": [text.replace(str(Path.home()), "~") for text in found.mistakes],
        "date": datetime.date.today().isoformat(),
    }


def measure(ids: list[str], times: TimedCells) -> None:
    """Check presets, and write the file after each."""
    known = json.loads(FILE.read_text(encoding="utf-8"))["presets"] if FILE.exists() else {}
    for id in ids:
        known[id] = checked(find_preset(id), times)
        presets = {name: known[name] for name in runnable() if name in known}
        content = {"machine": machine(), "scale": "small", "presets": presets}
        FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(id, known[id]["seconds"], "s", len(known[id]["mistakes"]), "mistakes", flush=True)


if __name__ == "__main__":
    measure(sys.argv[1:] or runnable(), TimedCells())
