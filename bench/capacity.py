"""How long a round takes on a Ray cluster, predicted from what was measured: a simulator of server, link and workers.

    python bench/run.py --only ray,ray-sizes --out bench/ray.json    # what is measured, first
    python bench/capacity.py --results bench/ray.json --check        # predictions beside the measured points
    python bench/capacity.py --results bench/ray.json                # tables for large clusters

The server gives jobs to free workers, one after another, and takes replies one after another. A worker receives its job
over the server's link, takes its steps, and sends its reply over the same link. All clients are equal.
"""

from __future__ import annotations

import argparse
import heapq
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from problems import CONV
from ray_rounds import ACTORS, PER_ROUND, SIZES

from flatfed.experiments.comparing.index import entries

FLOAT = 4
GIGABIT = 1e9 / 8


@dataclass(frozen=True)
class Method:
    """What a method sends and computes per client and round, in vectors of the model's size."""

    id: str
    down: float
    personal: int
    up: float
    kept: int
    exchanges: int
    backprops: float

    @property
    def common(self) -> float:
        """Vectors that all clients receive alike, per exchange: each node fetches them once."""
        return (self.down - self.personal) / self.exchanges

    @property
    def own(self) -> float:
        """Vectors of one client's job and reply, per exchange: its state both ways, personal part and upload."""
        return (2 * self.kept + self.personal + self.up) / self.exchanges


@dataclass(frozen=True)
class Costs:
    """Seconds, as measured: on the server and on a worker, for each job and for each byte that goes with it."""

    server_job: float
    server_byte: float
    worker_job: float
    worker_byte: float
    step: float
    """One backprop of a batch."""


@dataclass(frozen=True)
class Cluster:
    """Workers, the link of the server in bytes per second, and how many workers a node holds."""

    workers: int
    link: float = 10 * GIGABIT
    per_node: int = 16
    cores: int | None = None
    """Where server and workers share a machine: how many cores they have together."""


def round_seconds(method: Method, cohort: int, parameters: int, steps: int, costs: Costs, cluster: Cluster) -> float:
    """Return the time of a round: its exchanges, one after another."""
    size = parameters * FLOAT
    work = steps * method.backprops * costs.step / method.exchanges
    one = _exchange(cohort, method.common * size, method.own * size, work, costs, cluster)
    return method.exchanges * one


def _exchange(cohort: int, common: float, own: float, work: float, costs: Costs, cluster: Cluster) -> float:
    """Return the time of an exchange, by following every job."""
    nodes = -(-min(cluster.workers, cohort) // cluster.per_node)
    # The link goes both ways at once. First the message, to each node once.
    down_free, up_free = common * nodes / cluster.link, 0.0
    # A job and its reply each have a half of what is the client's own.
    half = own / 2
    on_server = costs.server_job / 2 + costs.server_byte * half
    on_worker = costs.worker_job + costs.worker_byte * own + work
    server_free, last, given = 0.0, 0.0, 0
    replies: list[float] = []
    idle = [down_free] * min(cluster.workers, cohort)  # when each worker can begin
    heapq.heapify(idle)
    while given < cohort or replies:
        next_reply = replies[0] if replies else float("inf")
        if idle and given < cohort and max(idle[0], server_free) <= max(next_reply, server_free):
            begin = max(heapq.heappop(idle), server_free)
            server_free = begin + on_server
            down_free = max(down_free, server_free) + half / cluster.link
            heapq.heappush(replies, down_free + on_worker)
            given += 1
        else:
            up_free = max(heapq.heappop(replies), up_free) + half / cluster.link
            server_free = max(server_free, up_free) + on_server
            heapq.heappush(idle, server_free)
            last = max(last, server_free)
    if cluster.cores is not None:
        last = max(last, cohort * (2 * on_server + on_worker) / cluster.cores)
    return last


# What was measured.


def methods() -> list[Method]:
    """Return every method with its costs."""
    found = []
    for entry in entries():
        if "down" in entry and entry["id"] != "centralised":
            kept, exchanges = len(entry["client_state"]), entry["exchanges"]
            personal = int(entry["id"] in PERSONAL)
            costs = personal, entry["up"], kept, exchanges, _backprops(entry["backprops"])
            found.append(Method(entry["id"], entry["down"], *costs))
    return found


def _backprops(text: str) -> float:
    """Return the number that `1 + forward pass` begins with; what is done once per round is left out."""
    return float(text.split()[0])


PERSONAL = ("fedwmsam",)
"""Methods of which one of the vectors down is each client's own."""

FEDAVG = Method("fedavg", 1, 0, 1, 0, 1, 1)


def measured(results: dict[str, Any], workload: str) -> dict[str, float]:
    """Return the median seconds of each case of a workload."""
    return {case["case"]: case["seconds"] for case in results[workload]["cases"]}


def parameters_of(size: str) -> int:
    """Return the number of parameters of a case of the workload `ray-sizes`."""
    rows, columns = SIZES[size]
    return rows * columns


def fitted(results: dict[str, Any]) -> Costs:
    """Return the costs that one actor's rounds show, by the number of parameters: lines through three points.

    The server's part is its processor time; with one actor, the rest of a round is the actor's.
    """
    server, worker = [], []
    for case in results["ray-sizes"]["cases"]:
        size, _, where = case["case"].partition(", ")
        if where == "actors: 1":
            size_bytes = parameters_of(size) * FLOAT
            server.append((size_bytes, case["server_seconds"] / PER_ROUND))
            worker.append((size_bytes, (case["seconds"] - case["server_seconds"]) / PER_ROUND))
    conv = measured(results, "ray")["conv, 2 workers"]
    # Five clients on two workers: three one after the other.
    step = conv / (3 * CONV.steps)
    return Costs(*_line(server), *_line(worker), step)


def _line(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Return offset and slope of a line whose relative errors are small, both at least 0."""
    weights = [1 / y**2 for _, y in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
    above = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points, strict=True))
    below = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    slope = above / below
    return max(mean_y - slope * mean_x, 0.0), max(slope, 0.0)


# Tables.


def check(results: dict[str, Any], costs: Costs) -> str:
    """Return predictions beside what was measured; the costs are from one actor alone."""
    rounds = measured(results, "ray-sizes")
    lines = ["| parameters | actors | predicted | measured | predicted / measured |", "|---|---:|---:|---:|---:|"]
    here = Cluster(1, link=float("inf"), per_node=64, cores=2)
    for size in SIZES:
        for actors in ACTORS:
            # One step of the linear layers is within the costs of a job.
            found = rounds[f"{size}, actors: {actors}"]
            guess = round_seconds(FEDAVG, PER_ROUND, parameters_of(size), 0, costs, replace(here, workers=actors))
            lines.append(_check_line(size, actors, guess, found))
    found = measured(results, "ray")["conv, 2 actors"]
    parameters = sum(parameter.numel() for parameter in CONV.fresh_model().parameters())
    guess = round_seconds(FEDAVG, CONV.per_round, parameters, CONV.steps, costs, replace(here, workers=2))
    lines.append(_check_line(f"conv, {parameters / 1e6:.1f} M", 2, guess, found))
    return "\n".join(lines) + "\n"


def _check_line(size: str, actors: int, guess: float, found: float) -> str:
    return f"| {size} | {actors} | {guess * 1e3:,.1f} ms | {found * 1e3:,.1f} ms | {guess / found:.2f} |"


WORKERS = (10, 100, 1_000, 10_000)
COHORTS = (100, 1_000, 10_000, 100_000)


def by_size(costs: Costs, parameters: int, steps: int, link: float) -> str:
    """Return fedavg's seconds per round by workers and cohort."""
    lines = ["| clients per round | " + " | ".join(f"{n:,} workers" for n in WORKERS) + " |"]
    lines.append("|---:|" + "---:|" * len(WORKERS))
    for cohort in COHORTS:
        cells = []
        for workers in WORKERS:
            seconds = round_seconds(FEDAVG, cohort, parameters, steps, costs, Cluster(workers, link))
            cells.append(f"{seconds:,.1f} s" if workers <= cohort else "–")
        lines.append(f"| {cohort:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def by_method(costs: Costs, parameters: int, steps: int, link: float, cohort: int) -> str:
    """Return every method's seconds per round by workers, and what crosses the server's link."""
    counts = [workers for workers in WORKERS if workers <= cohort]
    lines = ["| method | " + " | ".join(f"{n:,} workers" for n in counts) + " | over the link per client |"]
    lines.append("|---|" + "---:|" * (len(counts) + 1))
    for method in methods():
        cells = []
        for workers in counts:
            seconds = round_seconds(method, cohort, parameters, steps, costs, Cluster(workers, link))
            cells.append(f"{seconds:,.1f} s")
        crossing = method.own * method.exchanges * parameters * FLOAT / 1e6
        lines.append(f"| {method.id} | " + " | ".join(cells) + f" | {crossing:,.1f} MB |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("bench/ray.json"))
    parser.add_argument("--check", action="store_true", help="compare with what was measured")
    parser.add_argument("--parameters", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=8, help="local steps of a client")
    parser.add_argument("--step-ms", type=float, help="one backprop of a batch, in milliseconds (default: as measured)")
    parser.add_argument("--gigabits", type=float, default=10.0, help="the link of the server")
    parser.add_argument("--cohort", type=int, default=10_000, help="clients per round of the table by method")
    given = parser.parse_args()
    results = json.loads(given.results.read_text())
    costs = fitted(results)
    if given.step_ms is not None:
        costs = replace(costs, step=given.step_ms / 1e3)
    server = f"{costs.server_job * 1e3:.2f} ms and {costs.server_byte * 1e9:.2f} ns per byte on the server"
    worker = f"{costs.worker_job * 1e3:.2f} ms and {costs.worker_byte * 1e9:.2f} ns per byte on the worker"
    print(f"measured per job: {server}, {worker}; {costs.step * 1e3:.1f} ms per backprop\n")
    if given.check:
        print(check(results, costs))
        return
    print(by_size(costs, given.parameters, given.steps, given.gigabits * GIGABIT))
    print(by_method(costs, given.parameters, given.steps, given.gigabits * GIGABIT, given.cohort))


if __name__ == "__main__":
    main()
