"""flatfed against pfl, Flower and loops in the style of research code on the same work, in turns.

`make bench-peers` makes the environments of the first two.

python bench/run_peers.py [--work conv,tiny] [--turns 3] [--out bench/peers.json]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import Result, Target, speed, table

HERE = Path(__file__).parent
LOOP = HERE / "peers" / "research_loop.py"
RESEARCH = {"research code, state dicts": "state-dict", "research code, matrix of clients": "flat-matrix"}
"""Loops written here in the style of such code, by name."""
ROUNDS = {"conv": 4, "tiny": 20}


@dataclass(frozen=True)
class Contender:
    """A command that does some rounds of a work and prints their seconds."""

    name: str
    command: list[str]

    def seconds(self, work: str) -> list[float]:
        arguments = [*self.command, "--work", work, "--rounds", str(ROUNDS[work])]
        for _ in range(2):  # a peer may stumble over its own threads; what it printed counts, else it has another try
            done = subprocess.run(arguments, capture_output=True, text=True)
            printed = [line for line in done.stdout.splitlines() if line.startswith("{")]
            if printed:
                found: dict[str, Any] = json.loads(printed[-1])
                return list(found["seconds"])
        raise SystemExit(f"{self.name} failed:\n{done.stderr[-2000:]}")


def contenders(pfl: Path, flower: Path) -> list[Contender]:
    """Return who takes part: flatfed in this environment, each peer in its own, where that has been made."""
    here = [sys.executable, str(HERE / "flatfed_rounds.py")]
    every = [
        Contender("flatfed, in process", [*here, "--processes", "0"]),
        Contender("flatfed, 2 workers", [*here, "--processes", "2"]),
        Contender("pfl, 1 process", [str(pfl), str(HERE / "peers" / "pfl_rounds.py"), "--processes", "1"]),
        Contender("pfl, 2 processes", [str(pfl), str(HERE / "peers" / "pfl_rounds.py"), "--processes", "2"]),
        Contender("Flower, 2 actors", [str(flower), str(HERE / "peers" / "flower_rounds.py"), "--processes", "2"]),
        *(Contender(name, [sys.executable, str(LOOP), "--style", style]) for name, style in RESEARCH.items()),
    ]
    return [one for one in every if Path(one.command[0]).exists()]


TARGETS = {
    "conv": [
        Target(
            "flatfed, 2 workers: faster than pfl, 2 processes",
            speed("flatfed, 2 workers", "pfl, 2 processes"),
            least=1.35,
            needs="pfl, 2 processes",
        ),
        Target(
            "... than Flower, 2 actors",
            speed("flatfed, 2 workers", "Flower, 2 actors"),
            least=1.4,
            needs="Flower, 2 actors",
        ),
        *(Target(f"... than {name}, 1 process", speed("flatfed, 2 workers", name), least=1.5) for name in RESEARCH),
    ],
    "tiny": [
        Target(
            "flatfed, the better: faster than pfl, the better",
            speed("flatfed, best", "pfl, best"),
            least=3,
            needs="pfl, best",
        ),
        Target(
            "... than Flower, 2 actors", speed("flatfed, best", "Flower, 2 actors"), least=30, needs="Flower, 2 actors"
        ),
        *(Target(f"... than {name}, 1 process", speed("flatfed, best", name), least=2) for name in RESEARCH),
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", default="conv,tiny")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--pfl", type=Path, default=Path(".venv-pfl/bin/python"))
    parser.add_argument("--flower", type=Path, default=Path(".venv-flower/bin/python"))
    parser.add_argument("--out", type=Path, default=Path("bench/peers.json"))
    arguments = parser.parse_args()
    kept: dict[str, Any] = {}
    for work in arguments.work.split(","):
        kept[work] = compete(work, contenders(arguments.pfl, arguments.flower), arguments.turns)
        arguments.out.write_text(json.dumps(kept, indent=1) + "\n")


def compete(work: str, cases: list[Contender], turns: int) -> dict[str, Any]:
    """Let each have its turn again and again, and compare the medians of all rounds."""
    seconds: dict[str, list[float]] = {case.name: [] for case in cases}
    for _ in range(turns):
        for case in cases:
            seconds[case.name] += case.seconds(work)
    results = {name: Result(work, name, times) for name, times in seconds.items()}
    for family in ("flatfed", "pfl"):
        members = [result for name, result in results.items() if name.startswith(family)]
        if members:
            best = min(members, key=lambda result: result.median)
            results[f"{family}, best"] = Result(work, f"{family}, best", best.seconds)
    targets = [target.line(results) for target in TARGETS[work] if target.is_possible(results)]
    found = {"cases": [results[name].as_dict() for name in seconds], "targets": targets}
    print(table(work, "rounds of each in turns", found), flush=True)
    return found


if __name__ == "__main__":
    main()
