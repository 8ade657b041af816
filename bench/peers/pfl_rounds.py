"""Seconds a round of pfl (pfl-research), federated averaging by its simulator on the CPU.

    python bench/peers/pfl_rounds.py --work conv|tiny --processes 1|2 --rounds R

What was chosen, following pfl's guide to fast simulations:

- all data in memory, as `PyTorchTensorDataset`s that are made once; none of pfl's loading in parallel, which is for
  data that is read from disk or expensive to prepare;
- two processes are joined as pfl documents, by `PFL_WORKER_ADDRESSES` and `PFL_WORKER_RANK`, over gloo on the loopback
  interface; each trains its share of a round's clients and the sums are reduced once a round. pfl prefers `torchrun`,
  which makes the same group; but with an address to meet at, PyTorch asks the name server what loopback is called.
  Here a file takes the place of the address, which does not touch the rounds;
- no sorting of clients between processes by weight: all have the same size, and it would cost another process;
- `minimize_reuse` sampling: a round's clients are different ones;
- no weighting of updates: with clients of one size pfl's plain mean is the mean by examples;
- no evaluation (pfl insists on one in its first iteration, which warms up), no metrics printed, no checkpoints;
- every epoch has an order of its own, as everywhere in this benchmark. pfl's own datasets keep one order; `Shuffled`
  adds the permutation at the price of gathering each batch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["PFL_PYTORCH_DEVICE"] = "cpu"
os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from work import LR, WEIGHT_DECAY, WORKS, Work, parse, report

MEETING = "PEERS_MEETING"


def launch(processes: int) -> int:
    """Run this script in as many processes of pfl, and return the first exit code that is not 0."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "PFL_WORKER_ADDRESSES": ",".join(["127.0.0.1:0"] * processes),
            MEETING: str(Path(folder) / "meeting"),
        }
        workers = [
            subprocess.Popen(
                [sys.executable, __file__, *sys.argv[1:]], env=environment | {"PFL_WORKER_RANK": str(rank)}
            )
            for rank in range(processes)
        ]
        try:
            while None in (codes := [worker.poll() for worker in workers]) and not any(codes):
                time.sleep(0.1)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
        return next((code for code in codes if code), 0)


def meet_at(path: str) -> None:
    """Let pfl's processes find each other by a file."""
    join = torch.distributed.init_process_group

    def init_process_group(backend: str, init_method: str, rank: int, world_size: int) -> None:
        join(backend=backend, init_method=f"file://{path}", rank=rank, world_size=world_size)

    torch.distributed.init_process_group = init_process_group


def train(work: Work, iterations: int) -> list[float]:
    """Return the times at which iterations ended."""
    # pfl joins the group of processes as soon as it is imported, hence not before they are launched.
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam.base import NNTrainHyperParams
    from pfl.metrics import Metrics, Weighted
    from pfl.model.pytorch import PyTorchModel

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = work.model()

        def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(self.layers(inputs), targets)

        @torch.no_grad()
        def metrics(self, inputs: torch.Tensor, targets: torch.Tensor) -> dict[str, Weighted]:
            return {"loss": Weighted(self.loss(inputs, targets).item() * len(targets), len(targets))}

    class Shuffled(PyTorchTensorDataset):
        def iter(self, batch_size: int | None) -> Iterator[list[torch.Tensor]]:
            inputs, targets = self.raw_data
            for indices in torch.randperm(len(targets)).split(batch_size or len(targets)):
                yield [inputs[indices], targets[indices]]

    class Clock(TrainingProcessCallback):
        def __init__(self) -> None:
            self.marks: list[float] = []

        def after_central_iteration(
            self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
        ) -> tuple[bool, Metrics]:
            self.marks.append(time.perf_counter())
            return False, Metrics()

    inputs, targets = work.data()
    users = [Shuffled((inputs[k], targets[k]), user_id=str(k)) for k in range(work.clients)]
    dataset = FederatedDataset(users.__getitem__, get_user_sampler("minimize_reuse", range(work.clients)))
    network = Network()
    model = PyTorchModel(
        network,
        local_optimizer_create=lambda parameters, lr: torch.optim.SGD(parameters, lr, weight_decay=WEIGHT_DECAY),
        central_optimizer=torch.optim.SGD(network.parameters(), 1.0),
    )
    clock = Clock()
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=iterations,
            evaluation_frequency=iterations,
            train_cohort_size=work.per_round,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(training_data=dataset, val_data=dataset),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=LR, local_batch_size=work.batch_size
        ),
        callbacks=[clock],
        send_metrics_to_platform=False,
    )
    return clock.marks


def main() -> None:
    arguments = parse(__doc__)
    if arguments.processes > 1 and MEETING not in os.environ:
        sys.exit(launch(arguments.processes))
    if MEETING in os.environ:
        meet_at(os.environ[MEETING])
    warnings.filterwarnings("ignore", category=FutureWarning, module="pfl")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  pfl draws from this one
    marks = train(WORKS[arguments.work], arguments.rounds + 1)
    if os.environ.get("PFL_WORKER_RANK", "0") == "0":
        report("pfl", "pfl", arguments, marks)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
