"""Published ways to measure, by name: what to measure, of which model, over which examples.

`fedgloss`: the values of lambda in FedGloSS as its released code takes them, which differs from ours in each choice:
power iteration of at most 20 steps, the test set, the other CIFAR's normalisation constants, and the mean of the last
100 global models.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from flatfed.algorithms.weight_averaging.wima import WIMA
from flatfed.core.errors import ConfigError
from flatfed.data.sources.published.cifar import CIFAR10, CIFAR100
from flatfed.experiments.measuring.flatness import home_of
from flatfed.experiments.measuring.laboratory import Laboratory, laboratory
from flatfed.experiments.running.loading import open_run, with_data
from flatfed.experiments.tasks.of_runs import task_of

FEDGLOSS = "fedgloss"
MEASURED, OVER = "lambda_ratio(mode=power)", "test"
WINDOW = 100
SWAPPED = {"cifar10": CIFAR100[FEDGLOSS], "cifar100": CIFAR10[FEDGLOSS]}
"""What pictures are normalised with: each set with the constants of the other."""


def open_as_fedgloss(path: Path, *, data_dir: str | None, say: Callable[[str], None], **more: Any) -> Laboratory:
    """Open a run as FedGloSS's code measures it; what it keeps is kept apart from other measurements."""
    directory = open_run(home_of(path))
    dataset = directory.config["task"].get("dataset")
    if dataset not in SWAPPED:
        raise ConfigError(
            f"--protocol {FEDGLOSS} measures runs of {' and '.join(SWAPPED)}, not of {dataset or 'a task of its own'}"
        )
    task = task_of(with_data(directory, data_dir), remembered=data_dir is None)
    lab = laboratory(path, task=replace(task, prepare=SWAPPED[dataset]), say=say, **more)
    lab.key |= {"protocol": FEDGLOSS}
    _tell_model(lab, say)
    return lab


def _tell_model(lab: Laboratory, say: Callable[[str], None]) -> None:
    """Say so where the model is not the mean of the last 100 global models."""
    assert lab.federation is not None
    average = lab.federation.average
    if not isinstance(average, WIMA):
        say(
            f"{lab.label}: this run did not keep the mean of its last {WINDOW} global models; the evaluated model was "
            "taken instead (train with +wima)"
        )
    elif average.window != WINDOW:
        say(f"{lab.label}: the mean of the last {average.window} global models was taken, not of {WINDOW}")
