"""atheris on what people write: `python harness_texts.py NAME -runs=20000`, NAME as in `grammars.py`, or yaml."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["flatfed.core.configuration", "flatfed.algorithms.spelling", "yaml"]):
    from flatfed.core.configuration.values import read_yaml
    from fuzz.grammars import KEYS, NAMES, READERS
    from fuzz.harness import run

SEEDS = {
    "calls": b"feddyn(alpha=0.1)+sam(rho=ramp(0.1, 0.2, 5))",
    "names": ",".join(NAMES).encode(),
    "keys": ",".join(f"{key}=1" for key in KEYS).encode(),
    "watch": b"lambda_max:5,lpf(samples=3):10",
    "yaml": b"lr: 0.1\nset: {rho: [1, 2]}\n",
}

if __name__ == "__main__":
    name = sys.argv.pop(1)
    read = read_yaml if name == "yaml" else READERS[name]
    run(lambda data: read(data.decode("utf-8", "surrogateescape")), SEEDS)
