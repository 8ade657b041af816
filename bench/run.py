"""Speed as ratios within one run: flatfed against bare loops that do the same arithmetic.

Cases take turns round by round and medians are compared, because a shared machine's seconds mean little by themselves.

    python bench/run.py [--only conv,tiny] [--repeats 9] [--out bench/results.json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path
from typing import Any

import torch
from harness import Result
from workloads import WORKLOADS, Workload


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(w.name for w in WORKLOADS), help="workloads, with commas between")
    parser.add_argument("--repeats", type=int, default=9, help="rounds of each case (some workloads do more)")
    parser.add_argument("--out", type=Path, default=Path("bench/results.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    chosen = arguments.only.split(",")
    unknown = set(chosen) - {w.name for w in WORKLOADS}
    if unknown:
        parser.error(f"there is no workload {', '.join(sorted(unknown))}")
    kept = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for workload in WORKLOADS:
        if workload.name in chosen:
            results = workload.run(arguments.repeats)
            kept[workload.name] = report(workload, results)
            show(workload, kept[workload.name])
            kept["machine"] = {"cores": os.cpu_count(), "processor": platform.processor(), "torch": torch.__version__}
            arguments.out.write_text(json.dumps(kept, indent=1) + "\n")


def report(workload: Workload, results: dict[str, Result]) -> dict[str, Any]:
    lines = [line for target in workload.targets if (line := target.line(results))]
    return {"about": workload.about, "cases": [r.as_dict() for r in results.values()], "targets": lines}


def show(workload: Workload, found: dict[str, Any]) -> None:
    print(f"\n{workload.name}: {workload.about}")
    first = found["cases"][0]["seconds"]
    for case in found["cases"]:
        memory = f"{case['resident_mb']:9.0f} MB" if "resident_mb" in case else ""
        print(f"  {case['case']:<42}{case['seconds'] * 1e3:10.1f} ms {case['seconds'] / first:6.2f} x{memory}")
    for line in found["targets"]:
        verdict = "met" if line["met"] else "NOT MET"
        print(f"    {line['what']}: {line['ratio']:.2f} (target {line['bound']}) {verdict}")


if __name__ == "__main__":
    main()
