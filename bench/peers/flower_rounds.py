"""Seconds a round of Flower, its own FedAvg by its simulation runtime on the CPU.

    python bench/peers/flower_rounds.py --work conv|tiny --processes 1|2 --rounds R

What was chosen:

- the message API that Flower's tutorials teach: `ServerApp`, `ClientApp`, the strategy `FedAvg` as it is, with one
  supernode a client;
- `run_simulation`, because it starts from a script; Flower now prefers its command line, which runs the same runtime;
- ray with as many CPUs as processes and one CPU a client, hence that many actors of one thread each;
- data and network are made once an actor, not once a message; batches are gathered straight from a tensor in memory
  (no `DataLoader`), each epoch in an order of its own;
- no evaluation, no logging below errors, no dashboard;
- nothing leaves the machine: telemetry of both Flower and ray is off, and ray's processes talk over the loopback
  interface. Ray asks the metadata services of cloud providers where it runs even with its usage statistics off, unless
  its configuration file in the home directory tells; hence a home directory for the time of the run that has one;
- a round lasts from the moment the strategy is asked to configure it to the same moment of the next round.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

os.environ.update(
    FLWR_TELEMETRY_ENABLED="0",
    RAY_USAGE_STATS_ENABLED="0",
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",  # on any system: a cluster of one machine, at the loopback address
    RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0",  # no warning of a change to come
    OMP_NUM_THREADS="1",
)

import flower_client
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from work import WORKS, parse, report


class Timed(FedAvg):
    """FedAvg that notes when rounds start, and that does not go on without the model of every client."""

    def __init__(self, clients: int, per_round: int) -> None:
        super().__init__(
            fraction_train=per_round / clients,
            fraction_evaluate=0.0,
            min_train_nodes=per_round,
            min_available_nodes=clients,
        )
        self.marks: list[float] = []

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        self.marks.append(time.perf_counter())
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        failures = [reply.error.reason for reply in replies if reply.has_error()]
        if failures or len(replies) != self.min_train_nodes:
            raise RuntimeError(
                f"{len(replies)} replies in round {server_round}, {len(failures)} failed: {failures[:1]}"
            )
        return super().aggregate_train(server_round, replies)


def simulate(arguments: argparse.Namespace) -> list[float]:
    """Return the times at which rounds started, and at which the last one ended."""
    work = WORKS[arguments.work]
    strategy = Timed(work.clients, work.per_round)
    server = ServerApp()

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy.start(
            grid,
            initial_arrays=ArrayRecord(work.model().state_dict()),
            num_rounds=arguments.rounds + 1,
            train_config=ConfigRecord({"work": arguments.work}),
        )
        strategy.marks.append(time.perf_counter())

    run_simulation(
        server,
        flower_client.app,
        num_supernodes=work.clients,
        backend_config={
            "init_args": {
                "num_cpus": arguments.processes,
                "include_dashboard": False,
                "log_to_driver": False,
                "logging_level": logging.ERROR,
            },
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
    return strategy.marks


def main() -> None:
    arguments = parse(__doc__)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        (Path(home) / "ray_bootstrap_config.yaml").write_text("provider: {type: local}\n")
        os.environ["HOME"] = home
        marks = simulate(arguments)
    report("flower", "flwr", arguments, marks[1:])


if __name__ == "__main__":
    main()
