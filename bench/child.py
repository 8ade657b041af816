"""One case of a workload in a process of its own: a round for every line on standard input."""

from __future__ import annotations

import sys

import torch
from populations import clients_child, resident_mb, state_child


def main() -> None:
    torch.set_num_threads(1)
    kind, value = sys.argv[1:]
    case = clients_child(int(value)) if kind == "clients" else state_child(value)
    for _ in sys.stdin:
        seconds = case.round()
        print(seconds, resident_mb(), flush=True)
    case.close()


if __name__ == "__main__":
    main()
