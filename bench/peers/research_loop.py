"""Rounds in the style of this field's research code: written from scratch, for speed alone.

Two styles. `state-dict`: clients one after another in one process; each gets a deep copy of the model, a DataLoader
and an optimiser of torch of its own; the server averages state dicts. `flat-matrix`: models are rows of a matrix with
one row for each client of the population, copied into a model and out again parameter by parameter; the server averages
the rows of the cohort. Both take each step as torch's documentation shows it.

    python bench/peers/research_loop.py --work conv --style state-dict --rounds 4
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from work import LR, WEIGHT_DECAY, WORKS, Work

Step = Callable[[], None]


def train(model: nn.Module, loader: DataLoader[tuple[Tensor, ...]]) -> None:
    """Do one local epoch."""
    optimiser = torch.optim.SGD(model.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
    model.train()
    for inputs, targets in loader:
        optimiser.zero_grad()
        F.cross_entropy(model(inputs), targets).backward()
        optimiser.step()


def cohort(work: Work) -> list[int]:
    return [int(client) for client in torch.randperm(work.clients)[: work.per_round]]


def loader_of(work: Work, inputs: Tensor, targets: Tensor, client: int) -> DataLoader[tuple[Tensor, ...]]:
    return DataLoader(TensorDataset(inputs[client], targets[client]), batch_size=work.batch_size, shuffle=True)


def state_dicts(work: Work) -> Step:
    """Return a round with deep copies and averaged state dicts."""
    inputs, targets = work.data()
    server = work.model()

    def round() -> None:
        updates = []
        for client in cohort(work):
            model = copy.deepcopy(server)
            train(model, loader_of(work, inputs, targets, client))
            updates.append(copy.deepcopy(model.state_dict()))
        mean = {name: sum(update[name] for update in updates) / len(updates) for name in updates[0]}
        server.load_state_dict(mean)

    return round


def flat_matrix(work: Work) -> Step:
    """Return a round with a row of a matrix for each client of the population."""
    inputs, targets = work.data()
    model = work.model()
    start = flat(model)
    rows = start.repeat(work.clients, 1)

    def round() -> None:
        nonlocal start
        chosen = cohort(work)
        for client in chosen:
            fill(model, start)
            train(model, loader_of(work, inputs, targets, client))
            rows[client] = flat(model)
        start = rows[chosen].mean(dim=0)

    return round


def flat(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().clone().reshape(-1) for parameter in model.parameters()])


def fill(model: nn.Module, vector: Tensor) -> None:
    first = 0
    for parameter in model.parameters():
        parameter.data.copy_(vector[first : first + parameter.numel()].view_as(parameter))
        first += parameter.numel()


STYLES = {"state-dict": state_dicts, "flat-matrix": flat_matrix}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", choices=sorted(WORKS), required=True)
    parser.add_argument("--style", choices=sorted(STYLES), required=True)
    parser.add_argument("--rounds", type=int, required=True, help="measured; one more goes before, to warm up")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    step = STYLES[given.style](WORKS[given.work])
    step()
    seconds = []
    for _ in range(given.rounds):
        began = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - began)
    print(json.dumps({"peer": given.style, "version": torch.__version__, "work": given.work, "seconds": seconds}))


if __name__ == "__main__":
    main()
