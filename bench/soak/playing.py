"""The two runs of a soak: one that nobody disturbs, and one that meets the faults and is resumed after each."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from plan import CHECKPOINT_EVERY, FULL_DISK, KILL_MAIN, KILL_RESUMING, KILL_WORKER, LOST_OUTPUT, SIGNALS, Fault
from processes import PATIENCE, POLL_SECONDS, Flatfed, Hang
from run_files import Rows, count_rows, rounds_saved, status
from samples import Sample, take_sample

OPTIONS = ["digits", "scaffold", "--model", "logreg", "--clients", "20", "--per-round", "2", "--workers", "2"]
OPTIONS += ["--checkpoint-every", str(CHECKPOINT_EVERY), "--evaluate-every", "500", "--evaluate-last", "1"]
INTERRUPTED, FAILED, LOST = 130, 1, 1
SMALL_DISK_SECONDS = 900.0
SAID_ABOUT_THE_DISK = "the disk is full"

Tell = Callable[[int, int], None]
"""Called with the rows that there are and the faults that were played."""


@dataclass
class Story:
    """What happened to a run; it is written after every fault, so that a soak that was stopped goes on from there."""

    played: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    starts: int = 0
    planned_stops: int = 0
    rounds_again: int = 0
    seconds: float = 0.0
    resumed: list[dict[str, float]] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Story:
        """Return the story so far."""
        if not path.exists():
            return cls()
        return cls(**json.loads(path.read_text()))

    def write(self, path: Path) -> None:
        """Keep the story."""
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(self)))
        temporary.replace(path)


class Player:
    """Trains one run, with the faults of a list, and keeps its story beside it."""

    def __init__(self, run: Path, rounds: int, faults: list[Fault], every: int, tell: Tell) -> None:
        self.run, self.rounds, self.faults, self.every, self.tell = run, rounds, faults, every, tell
        self._file = run.with_name(f"{run.name}.story.json")
        self.story = Story.read(self._file)
        self._directories: set[Path] = set()
        self._clock = time.monotonic()

    def play(self) -> Story:
        """Train to the end."""
        self._mend_copy()
        while status(self.run) != "finished":
            if self._next_kind() == FULL_DISK and self._is_run():
                self._fill_disk(self.faults[self.story.played])
            else:
                self._segment()
            self._keep()
        return self.story

    def _keep(self) -> None:
        now = time.monotonic()
        self.story.seconds += now - self._clock
        self._clock = now
        self.story.write(self._file)

    def _next_kind(self) -> str | None:
        if self.story.played == len(self.faults):
            return None
        return self.faults[self.story.played].kind

    def _is_run(self) -> bool:
        return (self.run / "config.json").exists()

    def _count(self, kind: str) -> None:
        self.story.played += 1
        self.story.counts[kind] = self.story.counts.get(kind, 0) + 1

    # One process, from its start to its end.

    def _segment(self) -> None:
        """Start or resume, and play faults until one of them ends the process, or the run comes to its end."""
        process = self._start()
        try:
            self._follow(process, Rows(self.run))
        except Hang as error:
            self._note_problem("hang", str(error), process.text)
        finally:
            process.abandon()
            self._directories |= process.directories

    def _start(self) -> Flatfed:
        self.story.starts += 1
        if self._is_run():
            return Flatfed(["resume", str(self.run)])
        return Flatfed(["run", *OPTIONS, "--rounds", str(self.rounds), "--out", str(self.run)])

    def _follow(self, process: Flatfed, rows: Rows) -> None:
        begun = time.monotonic()
        self._wait(process, rows, 1)
        self.story.resumed.append({"rows": rows.count(), "seconds": time.monotonic() - begun})
        while self._next_kind() not in (None, FULL_DISK):
            fault = self.faults[self.story.played]
            if not self._wait(process, rows, fault.rows):
                break
            time.sleep(fault.delay)  # the place in the round, not a wait for anything
            if self._strike(process, fault):
                return
        if self._next_kind() == FULL_DISK and process.runs():
            self.story.planned_stops += 1
            process.send(signal.SIGTERM, whole_group=False)
            self._ended(process, "planned stop", (INTERRUPTED,))
            return
        self._wait(process, rows, self.rounds + 1)
        self._ended(process, "end", (0,))

    def _wait(self, process: Flatfed, rows: Rows, wanted: int) -> bool:
        """Wait until the history has the rows, with samples meanwhile; say whether it came to that."""
        last, since = -1, time.monotonic()
        while process.runs():
            now = rows.count()
            if now >= wanted:
                return True
            if now != last:
                self._sample(process, now)
                last, since = now, time.monotonic()
            if time.monotonic() - since > PATIENCE:
                raise Hang(f"no new row within {PATIENCE:.0f} s after row {last}")
            time.sleep(POLL_SECONDS)
        return False

    def _sample(self, process: Flatfed, rows: int) -> None:
        self.tell(rows, self.story.played)
        newest = self.story.samples[-1]["rows"] if self.story.samples else 0
        if rows < newest + self.every:
            return
        sample = take_sample(process, self.run, rows, self._directories)
        if sample is not None:
            self.story.samples.append(sample)

    # Faults.

    def _strike(self, process: Flatfed, fault: Fault) -> bool:
        """Let a fault happen; say whether the process has ended of it."""
        workers = process.look()
        if fault.kind == LOST_OUTPUT:
            self._count(fault.kind)
            if not process.output_lost:
                process.lose_output()
            return False
        if fault.kind == KILL_WORKER:
            self._count(fault.kind)
            os.kill(workers[int(fault.choice * len(workers))], signal.SIGKILL)
            return False
        self._count(fault.kind)
        if fault.kind in SIGNALS:
            process.send(getattr(signal, fault.kind), fault.whole_group)
            self._ended(process, fault.kind, (INTERRUPTED,))
            return True
        process.send(signal.SIGKILL, whole_group=fault.kind != KILL_MAIN)
        self._ended(process, fault.kind, (-signal.SIGKILL,))
        if fault.kind == KILL_RESUMING:
            self._kill_resuming(fault)
        return True

    def _kill_resuming(self, fault: Fault) -> None:
        """Kill the resumption too, a drawn time after its start."""
        self.story.starts += 1
        process = Flatfed(["resume", str(self.run)])
        try:
            end = time.monotonic() + fault.again
            while process.runs() and time.monotonic() < end:
                process.look()
                time.sleep(POLL_SECONDS)
            process.send(signal.SIGKILL, whole_group=True)
            self._ended(process, fault.kind, (-signal.SIGKILL,))
        finally:
            process.abandon()
            self._directories |= process.directories

    def _ended(self, process: Flatfed, why: str, codes: tuple[int, ...]) -> None:
        """Wait for the end of a process, and check how it ended."""
        code = process.end()
        if process.output_lost:
            codes = (*codes, LOST)
        if code not in codes:
            self._note_problem(why, f"ended with {code}, not with {' or '.join(map(str, codes))}", process.text)
        if "Traceback" in process.text:
            self._note_problem(why, "a traceback was printed", process.text)
        self.story.rounds_again += count_rows(self.run) - rounds_saved(self.run)

    def _note_problem(self, why: str, what: str, text: str) -> None:
        problem = {"fault": why, "problem": what, "rows": count_rows(self.run), "text": text[-4000:]}
        self.story.problems.append(problem)

    # A full disk.

    def _fill_disk(self, fault: Fault) -> None:
        """Let the run go on on a small disk until that is full, and take it back from there."""
        self._count(fault.kind)
        self.story.starts += 2
        disk = self.run.with_name("disk")
        disk.mkdir(exist_ok=True)
        rows = max(fault.rows, rounds_saved(self.run) + 1)
        script = Path(__file__).with_name("small_disk.py")
        command = ["unshare", "-rm", sys.executable, str(script), str(self.run), str(disk), str(rows)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SMALL_DISK_SECONDS, check=False)
        if done.returncode != 0:
            self._note_problem(fault.kind, "the small disk could not be played", done.stderr)
            return
        report = json.loads(done.stdout)
        self._mend_copy()
        for name in ("first", "again"):
            self._check_full(fault.kind, report[name])
        self.story.rounds_again += report["rows"] - rounds_saved(self.run)

    def _check_full(self, kind: str, ended: dict[str, Any]) -> None:
        if ended["code"] != FAILED or SAID_ABOUT_THE_DISK not in ended["text"]:
            self._note_problem(kind, f"ended with {ended['code']} on a full disk", ended["text"])
        if "Traceback" in ended["text"]:
            self._note_problem(kind, "a traceback was printed", ended["text"])

    def _mend_copy(self) -> None:
        """Take the run that came back from the small disk in the place of the one that went there."""
        new, old = self.run.with_name(f"{self.run.name}.new"), self.run.with_name(f"{self.run.name}.old")
        if new.exists() and not self.run.exists():
            new.rename(self.run)
        elif new.exists():
            shutil.rmtree(old, ignore_errors=True)
            self.run.rename(old)
            new.rename(self.run)
        shutil.rmtree(old, ignore_errors=True)
