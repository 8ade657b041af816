"""Whether a model runs in the precision that is asked for, and compiled: tried on one batch before a run."""

from __future__ import annotations

import torch
from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import PARAMETER, ConfigError
from flatfed.core.model.devices import single_thread
from flatfed.core.model.precision import TYPES, oracle_of
from flatfed.core.model.vectorising import client_with_examples
from flatfed.core.randomness import preserved_global_state
from flatfed.core.task.examples import PartExamples, TensorExamples
from flatfed.core.task.structures import Structure
from flatfed.core.task.task import Task

SHOWN = 200
"""Characters of another library's error that are shown."""


def check_precision(task: Task, settings: Settings) -> None:
    """Refuse a precision, or a compilation, that the settings or the model do not allow."""
    is_mixed = settings.precision in TYPES
    if is_mixed and settings.dtype != "float32":
        raise ConfigError(
            f"{PARAMETER} {settings.precision} keeps its weights in float32; leave dtype at float32",
            parameter="precision",
        )
    if settings.compile and settings.batch_size is None:
        raise ConfigError(
            f"{PARAMETER} needs a batch size: each client's number of examples would be compiled for itself",
            parameter="compile",
        )
    if not task.holds_examples:
        return
    if settings.compile and not _is_of_one_shape(task, settings):
        raise ConfigError(
            f"{PARAMETER} takes examples of one tensor: batches of other structures differ in shape; leave it out",
            parameter="compile",
        )
    if is_mixed:
        _try(task, settings.replace(compile=False), "precision", f"the model does not run in {settings.precision}")
    if settings.compile:
        _try(task, settings, "compile", "the model cannot be compiled")


def _is_of_one_shape(task: Task, settings: Settings) -> bool:
    """Say whether full batches are one tensor, whose rows are not filled up to this length or that."""
    examples = task.examples(client_with_examples(task))
    pool = examples.pool if isinstance(examples, PartExamples) else examples
    is_filled_up = pool.is_ragged if isinstance(pool, TensorExamples) else task.pad is not None
    return not is_filled_up and isinstance(_full_batch(task, settings)[0], Tensor)


def _try(task: Task, settings: Settings, name: str, what: str) -> None:
    """Take one gradient; where that fails, and would not in float32, say what is at fault."""
    with single_thread(), preserved_global_state():
        plain = oracle_of(task, settings.replace(precision="float32", compile=False))
        try:
            plain.gradient(*plain.batch(*_full_batch(task, settings)))
        except Exception:  # of whom it is shows in the round, which names the client
            return
        try:
            oracle = oracle_of(task, settings)
            oracle.gradient(*oracle.batch(*_full_batch(task, settings)))
        except Exception as error:
            raise ConfigError(f"{PARAMETER}: {what} here ({_why(error)}); leave it out", parameter=name) from error


def _full_batch(task: Task, settings: Settings) -> tuple[Structure, Structure]:
    """Return raw examples of one client, as many as a step takes; some twice where it has fewer."""
    examples = task.examples(client_with_examples(task))
    size = settings.batch_size or len(examples)
    return examples.batch(torch.arange(size) % len(examples))


def _why(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:SHOWN]
