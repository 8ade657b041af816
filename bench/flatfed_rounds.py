"""Rounds of flatfed as the peers' scripts do theirs: prints one line of JSON with the seconds of each."""

from __future__ import annotations

import argparse
import json

import torch
from federated import Rounds
from problems import CONV, TINY

import flatfed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", choices=["conv", "tiny"], required=True)
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    case = Rounds("flatfed", CONV if given.work == "conv" else TINY, workers=given.processes)
    case.round()
    seconds = [case.round() for _ in range(given.rounds)]
    case.close()
    facts = {"peer": "flatfed", "version": flatfed.__version__, "work": given.work, "processes": given.processes}
    print(json.dumps(facts | {"seconds": seconds}))


if __name__ == "__main__":
    main()
