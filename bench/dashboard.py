"""The dashboard: how soon a large folder opens, how soon a round appears, and what a run loses that is followed.

    python bench/dashboard.py                # 500 runs of 10,000 rounds; some minutes
    python bench/dashboard.py --runs 50      # smaller

The folder holds one long history and hard links to it, so that it takes megabytes and reads like gigabytes.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flatfed.core.configuration.settings import Settings
from flatfed.runs.directory import RunDirectory
from flatfed.runs.history import History

FLATFED = (sys.executable, "-m", "flatfed")
CONV = (
    "run synthetic fedavg --set data.like=cifar10 --set data.train=50000 --model cnn --clients 100 --per-round 5 "
    "--partition iid --augment none --batch-size 64 --lr 0.01 --evaluate-every 100 --evaluate-last 1"
)
"""The workload `conv` of bench/problems.py, on as many workers as cores."""


def row(round: int) -> dict[str, Any]:
    """Return a row as long as those of real runs: 600 bytes."""
    costs = {"bytes_down": 10**6, "bytes_up": 10**6, "backprops": 400, "seconds": 0.5, "client_seconds": 0.01234567}
    measured = {"test_accuracy": round / 20_000, "test_loss": 1.5, "test_class_accuracy": [0.123456789] * 10}
    norms = {"train_loss": 2.3 / (round + 1), "update_norm": 0.123456789, "model_norm": 12.3456789}
    clients = {"clients": list(range(0, 40, 2)), "lr": 0.1, "watch": {"divergence": 0.123456789}}
    return {"round": round, **clients, **norms, **costs, **measured}


def config(seed: int, rounds: int) -> dict[str, Any]:
    method = ("fedavg", "fedsam", "feddyn")[seed % 3]
    settings = Settings(rounds=rounds, lr=0.1, seed=seed)
    return {
        "method": method,
        "algorithm": {"id": method},
        "average": None,
        "sampler": {"id": "uniform", "count": 20},
        "settings": {name: value for name, value in settings.to_dict().items() if name != "id"},
        "workers": 0,
        "metrics": {"accuracy": {"label": "accuracy", "unit": "%", "higher_is_better": True}},
        "test_sets": ["test"],
        "task": {"kind": "catalogue", "dataset": "digits", "clients": 100, "partition": {"id": "iid"}, "seed": seed},
    }


def make_tree(folder: Path, runs: int, rounds: int) -> int:
    """Write the folder, and return how many bytes its histories have together."""
    first: Path | None = None
    for number in range(runs):
        directory = RunDirectory.create(folder / f"group-{number % 10}" / f"run-{number:04d}", config(number, rounds))
        directory.publish()
        if first is None:
            first = directory.history_path
            history = History(first)
            history.begin(map(row, range(rounds)))
            history.close()
        else:
            directory.history_path.hardlink_to(first)
        directory.set_status("finished" if number % 2 else "interrupted")
    return 0 if first is None else runs * first.stat().st_size


@contextlib.contextmanager
def server(folder: Path) -> Iterator[tuple[int, int]]:
    """Start a dashboard; yield its port and the number of its process."""
    command = [*FLATFED, "dashboard", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r":(\d+)/", process.stdout.readline())
        assert found is not None
        try:
            yield int(found[1]), process.pid
        finally:
            process.terminate()


@contextlib.contextmanager
def stream(port: int, query: str = "") -> Iterator[Iterator[tuple[str, Any]]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", f"/events?{query}")
    try:
        yield _events(connection.getresponse())
    finally:
        connection.close()


def _events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    name = ""
    while line := answer.readline().decode():
        if line.startswith(":"):  # nothing happened
            yield "", {}
        if line.startswith("event: "):
            name = line[7:].strip()
        if line.startswith("data: "):
            yield name, json.loads(line[6:])


def first_list(port: int) -> list[dict[str, Any]]:
    with stream(port) as events:
        return next(data for name, data in events if name == "list")["entries"]


def measure_opening(folder: Path, runs: int, repeats: int) -> None:
    opening, whole, picked, cpu = [], [], [], []
    for _ in range(repeats):
        begun = time.perf_counter()
        with server(folder) as (port, pid):
            ready = time.perf_counter()
            entries = first_list(port)
            listed = time.perf_counter()
            cpu.append(cpu_seconds(pid))
            assert len(entries) == runs and all(entry["rounds"] for entry in entries)
            with stream(port, f"runs={entries[0]['id']}") as events:
                next(data for name, data in events if name == "rows")
            picked.append(time.perf_counter() - listed)
        opening.append(listed - ready)
        whole.append(listed - begun)
    print(
        f"first complete list: {statistics.median(opening):.2f} s, {statistics.median(whole):.2f} s from the start of "
        f"the command, which used {statistics.median(cpu):.2f} s of a core until then; one run picked: "
        f"{statistics.median(picked):.2f} s"
    )


def measure_latency(folder: Path, count: int) -> None:
    """Measure the time from a row in the file to the event on the stream."""
    directory = RunDirectory.create(folder / "latency", config(0, 10_000))
    directory.publish()
    written: dict[int, float] = {}
    delays: list[float] = []

    def write() -> None:
        history = History(directory.history_path)
        for round in range(count):
            time.sleep(0.7)
            written[round + 1] = time.perf_counter()
            history.append(row(round))
        history.close()

    # As of a run that trains: its lock is held, and its record says so.
    directory.set_status("running")
    with directory.lock(), server(folder) as (port, _):
        run = next(entry["id"] for entry in first_list(port) if entry["name"] == "latency")
        with stream(port, f"runs={run}") as events:
            writer = threading.Thread(target=write)
            writer.start()
            for name, data in events:
                if name == "rows" and data["id"] == run and data["x"]["round"]:
                    arrived = time.perf_counter()
                    delays += [arrived - written[round] for round in data["x"]["round"]]
                if len(delays) == count:
                    break
            writer.join()
    print(f"a round appears after {statistics.median(delays):.2f} s (median of {count}), {max(delays):.2f} s at most")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def train(out: Path, rounds: int) -> float:
    """Train, and return the seconds of the rounds; those of the first are left out."""
    command = [*FLATFED, *f"{CONV} --rounds {rounds} --out".split(), str(out)]
    subprocess.run(command, check=True, capture_output=True)
    times = [json.loads(line)["seconds"] for line in (out / "history.jsonl").read_text().splitlines()]
    return sum(times[1:])


def measure_loss(folder: Path, rounds: int, repeats: int) -> None:
    """Train alone and followed by an open page, in turns."""
    alone, followed, shares = [], [], []
    for number in range(repeats):
        alone.append(train(folder / f"alone-{number}", rounds))
        with server(folder) as (port, pid):
            stop = threading.Event()
            follower = threading.Thread(target=follow, args=(port, f"followed-{number}", stop))
            follower.start()
            first_list(port)  # opening is measured by itself
            before, begun = cpu_seconds(pid), time.perf_counter()
            followed.append(train(folder / f"followed-{number}", rounds))
            shares.append((cpu_seconds(pid) - before) / (time.perf_counter() - begun))
            stop.set()
            follower.join()
    ratios = [two / one for one, two in zip(alone, followed, strict=True)]
    print(
        f"rounds of a run that is followed take {statistics.median(ratios):.3f} of the time of one that is not "
        f"(median of {repeats} pairs: {', '.join(f'{ratio:.3f}' for ratio in sorted(ratios))}); "
        f"the server used {100 * statistics.median(shares):.2f} % of one core"
    )


def follow(port: int, name: str, stop: threading.Event) -> None:
    """Be a page that picks a run as soon as it is there."""
    query = ""
    while not stop.is_set():
        with stream(port, query) as events:
            for kind, data in events:
                if stop.is_set():
                    return
                ids = [entry["id"] for entry in data.get("entries", ()) if entry["name"] == name]
                if kind == "list" and ids and not query:
                    query = f"runs={ids[0]}"
                    break


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--training-rounds", type=int, default=15, help="0 leaves training out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="flatfed-dashboard-") as name:
        folder = Path(name)
        size = make_tree(folder, options.runs, options.rounds)
        print(f"{options.runs} runs of {options.rounds:,} rounds, {size / 1e9:.1f} GB of histories")
        measure_opening(folder, options.runs, options.repeats)
        measure_latency(folder, 20)
        if options.training_rounds:
            measure_loss(folder, options.training_rounds, options.repeats)


if __name__ == "__main__":
    main()
