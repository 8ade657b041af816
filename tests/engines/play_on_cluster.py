"""A run on a cluster, for tests that disturb it: `play_on_cluster.py DIRECTORY ADDRESS MINIMUM PATIENCE [DATA]`.

With DATA each node reads the examples from that directory. It begins, or goes on where it is. After the first round
that it plays, clients on the cluster leave a mark with the process that they are in, and wait for a file `go`.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from torch import Tensor
from torch.nn import functional

import flatfed as ff
from engines.bench import digits, is_actor
from engines.data_of_nodes import task_of
from flatfed.core.configuration.settings import Settings
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.engine import Engine, listening
from flatfed.core.round.trainer import Pulse, no_pulse

CLIENTS = 12
METHOD = "scaffold+sam"
SETTINGS: dict[str, Any] = {"rounds": 4, "sampling": 4, "lr": 0.05, "vectorised": False, "checkpoint_every": 1}


@dataclass(frozen=True)
class WaitingLoss:
    """Cross-entropy that waits on the cluster, from when it is told to `hold` to when it may `go`."""

    directory: Path

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if is_actor() and (self.directory / "hold").exists():
            (self.directory / f"waits-{os.getpid()}").touch()
            while not (self.directory / "go").exists():
                time.sleep(0.01)
        return functional.cross_entropy(outputs, targets)


class ImpatientRay(ff.Ray):
    """Ray that waits as long as it takes for the first workers, and has `patience` from then on."""

    def start(self, task: ff.Task, algorithm: Algorithm, settings: Settings, pulse: Pulse = no_pulse) -> Engine:
        engine: Any = self._patient().start(task, algorithm, settings, pulse)
        engine._actors._config = self
        return cast(Engine, engine)

    def _patient(self) -> ff.Ray:
        return ff.Ray(address=self.address, minimum=self.minimum, patience=600.0, node_data=self.node_data)


def main() -> None:
    name, address, minimum, patience, *data = sys.argv[1:]
    directory = Path(name)

    def hold(row: dict[str, Any]) -> None:
        (directory / "hold").touch()

    task = task_of(directory / "here", CLIENTS) if data else digits()
    task = replace(task, loss=WaitingLoss(directory))
    node_data = data[0] if data else None
    engine = ImpatientRay(address=address, minimum=int(minimum), patience=float(patience), node_data=node_data)
    where = {"engine": engine, "on_round": hold}
    with listening(lambda text: print(text, flush=True)):
        if (directory / "run").exists():
            run = ff.resume(directory / "run", task=task, **where)
        else:
            run = ff.train(task, METHOD, out=directory / "run", **where, **SETTINGS)
    print(run.status)


if __name__ == "__main__":
    # By its name, under which actors find its classes too.
    from engines import play_on_cluster

    play_on_cluster.main()
