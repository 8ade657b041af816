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

import torch
from harness import table
from workloads import WORKLOADS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(w.name for w in WORKLOADS), help="workloads, with commas between")
    parser.add_argument("--repeats", type=int, default=9, help="rounds of each case (some workloads do more)")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.json"))
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
            targets = [target.line(results) for target in workload.targets if target.is_possible(results)]
            found = {"about": workload.about, "cases": [r.as_dict() for r in results.values()], "targets": targets}
            kept[workload.name] = found
            print(table(workload.name, workload.about, found), flush=True)
            kept["machine"] = {"cores": os.cpu_count(), "processor": _processor(), "torch": torch.__version__}
            arguments.out.write_text(json.dumps(kept, indent=1) + "\n")
            tables = [table(w.name, w.about, kept[w.name]) for w in WORKLOADS if w.name in kept]
            arguments.out.with_suffix(".md").write_text("\n".join(tables))


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
