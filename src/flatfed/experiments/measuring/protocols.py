"""Published ways to measure, by name: what to measure, of which model, over which examples.

`fedgloss`: the values of lambda in FedGloSS as its released code takes them, which differs from ours in each choice:
power iteration of at most 20 steps, the test set, the other CIFAR's normalisation constants, and the mean of the last
100 global models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flatfed.algorithms.weight_averaging.wima import WIMA
from flatfed.core.errors import ConfigError
from flatfed.data.sources.published.cifar import CIFAR10, CIFAR100
from flatfed.experiments.measuring.laboratory import Laboratory, laboratory
from flatfed.experiments.measuring.progress import Say
from flatfed.experiments.measuring.saved_runs import SavedRun, open_saved
from flatfed.experiments.spelling.methods import parse_measurements
from flatfed.flatness.measurement import Measurement

FEDGLOSS = "fedgloss"
MEASURED, OVER = "lambda_ratio(mode=power)", "test"
WINDOW = 100
SWAPPED = {"cifar10": CIFAR100[FEDGLOSS], "cifar100": CIFAR10[FEDGLOSS]}
"""What pictures are normalised with: each set with the constants of the other."""


@dataclass(frozen=True)
class Asked:
    """What is measured of runs: the measurements, over which examples, and what opens a run for them."""

    measurements: Sequence[Measurement]
    data: str
    opened: Callable[..., Laboratory]


def asked_for(options: Mapping[str, Any]) -> Asked:
    """Return what the options of `flatfed flatness` ask for; a protocol decides all of it."""
    if options["protocol"] is not None:
        return Asked(parse_measurements(MEASURED), OVER, open_as_fedgloss)
    return Asked(parse_measurements(options["measure"]), options["data"], laboratory)


def open_as_fedgloss(source: Path | SavedRun, *, data_dir: str | None, say: Say, **more: Any) -> Laboratory:
    """Open a run as FedGloSS's code measures it; what it keeps is kept apart from other measurements."""
    run = open_saved(source)
    dataset = run.directory.config["task"].get("dataset")
    if dataset not in SWAPPED:
        other = dataset or "a task of its own"
        raise ConfigError(f"the protocol {FEDGLOSS} measures runs of {' and '.join(SWAPPED)}, not of {other}")
    task = replace(run.task(data_dir), prepare=SWAPPED[dataset])
    lab = laboratory(run, task=task, say=say, **more)
    # Otherwise its results would be taken for those with the run's own normalisation.
    lab.key |= {"protocol": FEDGLOSS}
    _tell_model(lab, say)
    return lab


def _tell_model(lab: Laboratory, say: Say) -> None:
    """Say so where the model is not the mean of the last 100 global models."""
    average = lab.run.average
    if not isinstance(average, WIMA):
        say(
            f"{lab.label}: this run did not keep the mean of its last {WINDOW} global models; the evaluated model was "
            "taken instead (train with +wima)"
        )
    elif average.window != WINDOW:
        say(f"{lab.label}: the mean of the last {average.window} global models was taken, not of {WINDOW}")
