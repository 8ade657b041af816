"""A study on a Slurm cluster: an array job of workers that share the study's folder, submitted through submitit."""

from __future__ import annotations

import math
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatfed.core.configuration.values import parse_value
from flatfed.core.errors import ConfigError
from flatfed.studies.launching.worker_job import WorkerJob

if TYPE_CHECKING:
    from submitit.core.core import Executor, Job

FOLDER = "slurm"
"""Where logs lie, and what was submitted, within the study's folder."""
MINUTES = 240
"""Time limit of a job where nothing is said; one that comes to it is put back into the queue."""
GRACE = 90
"""Seconds before the time limit at which a worker is asked to save."""
TURNS = 1_000_000
"""How often a worker may come back after its time limit."""
OURS = ("array", "open_mode", "output", "error", "signal", "requeue", "nodes", "ntasks", "ntasks_per_node", "wrap")
"""What the launcher sets itself: a worker is one task on one node."""


@dataclass(frozen=True)
class Launched:
    """Workers that were submitted."""

    jobs: tuple[str, ...]
    """The ids of the tasks: 4711_0, 4711_1."""
    logs: Path

    @property
    def array(self) -> str:
        """The id of them all."""
        return self.jobs[0].partition("_")[0]

    @property
    def cancel(self) -> tuple[str, str]:
        """How to cancel: what waits is removed, and what runs is asked to save and to end for good."""
        return f"scancel --state=PENDING {self.array}", f"scancel --signal=INT {self.array}"

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return {"array": self.array, "jobs": list(self.jobs), "logs": str(self.logs), "cancel": list(self.cancel)}


def require_slurm() -> None:
    """Refuse where jobs cannot be submitted."""
    _require_submitit()
    for program in ("sbatch", "srun"):
        if shutil.which(program) is None:
            raise ConfigError(
                f"there is no {program} on the PATH; start this on a machine of a Slurm cluster, or without "
                "--launcher slurm"
            )


def _require_submitit() -> None:
    try:
        import submitit  # noqa: F401
    except ImportError:
        raise ConfigError(
            "the launcher slurm needs the package submitit; install it with: pip install 'flatfed[slurm]'"
        ) from None


def slurm_executor(folder: Path, name: str, given: Mapping[str, str]) -> Executor:
    """Return who submits to Slurm, with the options of `sbatch` that were given."""
    from submitit.slurm.slurm import SlurmExecutor

    executor = SlurmExecutor(folder.absolute() / FOLDER, max_num_timeout=TURNS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        executor.update_parameters(**_parameters(name, given, SlurmExecutor._valid_parameters()))
    return executor


def _parameters(name: str, given: Mapping[str, str], known: set[str]) -> dict[str, Any]:
    """Return the parameters of submitit: those that it knows, and all others as options of `sbatch`."""
    parameters: dict[str, Any] = {"job_name": f"flatfed-{name}", "time": MINUTES, "wckey": None}
    others: dict[str, Any] = {"requeue": True}
    for key, text in given.items():
        option = key.replace("-", "_")
        if option in OURS:
            raise ConfigError(f"--slurm {key} is set by the launcher; leave it out")
        if option == "time":
            parameters[option] = minutes(text)
        elif option in ("setup", "teardown", "srun_args"):
            parameters[option] = [text]
        elif option in known:
            parameters[option] = parse_value(text)
        else:
            others[option] = True if text == "" else text
    grace = parameters.pop("signal_delay_s", GRACE)
    others["signal"] = f"USR1@{grace}"
    parameters["additional_parameters"] = others
    # For submitit in the job: which signal means that it is to come back.
    parameters["setup"] = [*parameters.get("setup", []), "export SUBMITIT_PREEMPT_SIGNAL=USR1"]
    return parameters


def minutes(text: str) -> int:
    """Return a time of Slurm in minutes, rounded up: `90`, `30:00`, `2:00:00`, `1-12`, `1-12:30`."""
    days, _, rest = text.rpartition("-")
    try:
        numbers = [int(part) for part in rest.split(":")]
        whole_days = int(days) if days else 0
    except ValueError:
        numbers, whole_days = [], -1
    if text.startswith("-") or not 1 <= len(numbers) <= 3 or min(*numbers, whole_days) < 0:
        raise ConfigError(f"--slurm time takes minutes, HH:MM:SS or D-HH:MM:SS, not {text!r:.40}")
    # Without days, one number is minutes and two are minutes and seconds; with days the first is hours.
    first = 3600 if days or len(numbers) == 3 else 60
    units = (first, first // 60, first // 3600)
    seconds = sum(number * unit for number, unit in zip(numbers, units, strict=False))
    total = math.ceil((86400 * whole_days + seconds) / 60)
    if total < 1:
        raise ConfigError("--slurm time must be at least a minute")
    return total


def submit(workers: Sequence[WorkerJob], executor: Executor) -> Launched:
    """Submit workers as one array, and return their ids."""
    _require_submitit()
    import submitit

    jobs: list[Job[str]] = []
    try:
        with executor.batch():
            jobs = [executor.submit(worker) for worker in workers]
        ids = tuple(each.job_id for each in jobs)
    except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError) as error:
        raise ConfigError(f"sbatch refused the job: {str(error).strip() or 'it gave no reason'}") from None
    return Launched(ids, Path(executor.folder))
