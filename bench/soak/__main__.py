"""A soak: thousands of rounds under kills, signals, full disks and lost streams, to the bits of an undisturbed run.

    python bench/soak [--rounds 20000] [--faults 66] [--seed 0] [--out bench/soak-out]

Two runs of one setting are trained as real `flatfed` processes. One is left alone. The other meets faults that are
drawn from the seed, and is resumed after each. The results are in OUT/results.json and OUT/results.md. The same command
again goes on where it was stopped. Needs Linux (/proc); without `unshare` there are no full disks.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

from plan import FULL_DISK, KINDS, Fault, draw_faults
from playing import Player, Story
from report import markdown, passed, record
from run_files import status

SAMPLES = 200
TELL_SECONDS = 10.0


class Progress:
    """Says now and then how far a run is, and how long it may still take."""

    def __init__(self, name: str, rounds: int, faults: int) -> None:
        self.name, self.rounds, self.faults = name, rounds, faults
        self._first: tuple[float, int] | None = None
        self._told = 0.0

    def __call__(self, rows: int, played: int) -> None:
        """Take note of how far it is."""
        now = time.monotonic()
        if self._first is None and rows > 0:
            self._first = (now, rows)
        if self._first is None or now - self._told < TELL_SECONDS:
            return
        self._told = now
        print(
            f"{self.name}: round {rows:,} of {self.rounds:,}, {played} of {self.faults} faults{self._left(now, rows)}",
            file=sys.stderr,
            flush=True,
        )

    def _left(self, now: float, rows: int) -> str:
        assert self._first is not None
        begun, first = self._first
        if rows <= first:
            return ""
        seconds = int((self.rounds - rows) * (now - begun) / (rows - first))
        return f", {seconds // 60}:{seconds % 60:02d} left"


def main() -> None:
    arguments = parsed()
    os.nice(10)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    arguments.out.mkdir(parents=True, exist_ok=True)
    command = {name: getattr(arguments, name) for name in ("rounds", "faults", "seed")}
    refuse_other(arguments.out / "command.json", command)
    faults = drawn(command)
    try:
        found = play(arguments.out, command, faults)
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command again goes on")
    (arguments.out / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    (arguments.out / "results.md").write_text(markdown(found) + "\n")
    print(markdown(found))
    sys.exit(0 if passed(found) else 1)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20_000, help="rounds of each of the two runs (20,000)")
    parser.add_argument("--faults", type=int, default=6 * len(KINDS), help="faults in all, of eleven kinds (66)")
    parser.add_argument("--seed", type=int, default=0, help="decides kinds, rounds and moments of the faults (0)")
    parser.add_argument("--out", type=Path, default=Path("bench/soak-out"), help="directory to write (bench/soak-out)")
    arguments = parser.parse_args()
    if arguments.rounds < 10 or not 0 <= arguments.faults <= arguments.rounds // 10:
        parser.error("--rounds must be 10 at least, and --faults at most a tenth of it")
    arguments.out = arguments.out.absolute()
    return arguments


def stop(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def refuse_other(file: Path, command: dict[str, int]) -> None:
    """Refuse to go on with another soak than the one that was begun in this directory."""
    if file.exists() and json.loads(file.read_text()) != command:
        sys.exit(f"{file.parent} holds another soak ({file.read_text()}); choose another --out, or remove it")
    file.write_text(json.dumps(command))


def drawn(command: dict[str, int]) -> list[Fault]:
    """Return the faults; those that cannot be made on this machine are left out, and that is said."""
    faults = draw_faults(command["rounds"], command["faults"], command["seed"])
    if can_mount():
        return faults
    print("no small disk can be made here (unshare -rm): no full disks", file=sys.stderr)
    return [fault for fault in faults if fault.kind != FULL_DISK]


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def play(out: Path, command: dict[str, int], faults: list[Fault]) -> dict[str, object]:
    """Train both runs, or what is left of them, and compare."""
    runs = {name: out / name for name in ("undisturbed", "disturbed")}
    begin_again_if_disturbed(runs["undisturbed"])
    stories: dict[str, Story] = {}
    for name, run in runs.items():
        chosen = faults if name == "disturbed" else []
        every = max(1, command["rounds"] // SAMPLES)
        tell = Progress(name, command["rounds"], len(chosen))
        stories[name] = Player(run, command["rounds"], chosen, every, tell).play()
    return record(command, faults, stories, runs)


def begin_again_if_disturbed(run: Path) -> None:
    """Remove a run that should be undisturbed but was stopped with the soak."""
    if run.exists() and status(run) != "finished":
        shutil.rmtree(run)
        run.with_name(f"{run.name}.story.json").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
