"""Training settings: everything about a run that is neither the task nor the method.

A setting is declared here and nowhere else: its type and range, its default, and a sentence about it make the
documentation of `ff.train`, the option of `flatfed run` and `compare`, and the key in a run's record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from flatfed.core.configuration.base_optimiser import BaseOptimiser
from flatfed.core.configuration.byte_sizes import ByteSize, byte_count
from flatfed.core.configuration.checking import Count, Decaying, Index, Momentum, NonNegative, Positive
from flatfed.core.configuration.config import Config
from flatfed.core.configuration.history_conditions import Conditions, MonitoredColumn, PlateauRule
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    import torch

LAST = 100
"""The papers evaluate each of their last 100 rounds."""


@dataclass(frozen=True)
class About:
    """What is said of a setting.

    Args:
        text: a sentence or two; `{none}` stands for the way in which None is written.
        unit: what the number counts.
        group: under which heading the command line's help shows it; empty for no option.
        usual: the default of the option, where Python has none.
        none: the word for None on the command line, where it has one.
        otherwise: what None comes to, for the help.
    """

    text: str
    unit: str = ""
    group: str = "training"
    usual: Any = None
    none: str | None = None
    otherwise: str = ""


def setting(text: str, default: Any = MISSING, **about: Any) -> Any:
    """Declare a setting: what it says, its default, and the rest of `About`."""
    return dataclasses.field(default=default, metadata={"about": About(text, **about)})


class Settings(Config):
    """The settings of `train`, checked and serialisable; `lr`, `weight_decay`, `momentum`, `clip` may be schedules."""

    schedules: ClassVar[bool | frozenset[str]] = frozenset({"lr", "weight_decay", "momentum", "clip"})
    renamed: ClassVar[Mapping[str, str]] = {
        "every": "evaluate_every",
        "last": "evaluate_last",
        "batched": "vectorised",
    }

    rounds: Count = setting("Communication rounds.", unit="rounds", group="common", usual=100)
    lr: NonNegative = setting(
        "Client learning rate, or a schedule such as cosine(0.1,0.001,500).", group="common", usual=0.1
    )
    batch_size: Count | None = setting(
        "Examples per step. {none}: all of a client's, in one step per local epoch, without a shuffle.",
        64,
        unit="examples",
        group="common",
        none="full",
    )
    local_epochs: Count = setting("Passes over a client's examples per round.", 1, unit="epochs")
    weight_decay: NonNegative = setting("L2 decay, added to the direction at the unperturbed weights.", 4e-4)
    momentum: Momentum = setting("Client momentum; its buffer starts at zero in every round.", 0.0)
    base_opt: BaseOptimiser = setting(
        "Base optimiser: how a local direction becomes a step, such as adamw(beta2=0.99). See flatfed list "
        "base-optimisers.",
        "sgd",
    )
    lr_decay: Decaying = setting("Factor on the learning rate after every round.", 1.0)
    clip: Positive | None = setting(
        "Bound on the norm of a local direction, before weight decay.", None, otherwise="no bound"
    )
    weighting: Literal["samples", "uniform"] = setting(
        "Weights of clients in the mean: by their numbers of examples, or equal.", "samples"
    )
    seed: int = setting("Key of every draw.", 0, group="")
    dtype: Literal["float32", "float64"] = setting("Number type.", "float32")
    precision: Literal["float32", "bf16", "fp16"] = setting(
        "Number type of the forward and backward passes (autocast) over weights of float32; `float32`: all in the "
        "number type.",
        "float32",
    )
    compile: bool = setting(
        "Compile the model with torch.compile, for batches of the full size. It takes a C++ compiler, and its time.",
        False,
    )
    evaluate_every: Count = setting(
        "Evaluate after every N rounds, and after the final one.", 10, unit="rounds", group="evaluation"
    )
    evaluate_last: Index | None = setting(
        "Evaluate also after each of the last N rounds, and average accuracy over them.",
        None,
        unit="rounds",
        group="evaluation",
        otherwise="evaluate the last 100, average over the last tenth of the rounds, at most 100",
    )
    min_replies: Count = setting("Good replies that a round needs; with fewer it is tried again.", 1, unit="replies")
    retries: Index = setting(
        "How often a round is tried again, with other clients, before the run stops.", 2, unit="attempts"
    )
    max_update_norm: Positive | None = setting(
        "Reject a client's update that lies further than this from the model sent.", None, otherwise="none"
    )
    client_timeout: Positive | None = setting(
        "Reject a client whose training takes longer, such as one that hangs; evaluation has no bound. Who is rejected "
        "depends on the clock: give far more than a client needs.",
        None,
        unit="seconds",
        otherwise="no bound",
    )
    exchange_timeout: Positive | None = setting(
        "Reject the clients that have not answered after this time, and go on with the others. Who is rejected depends "
        "on the clock.",
        None,
        unit="seconds",
        otherwise="no bound",
    )
    eval_stats: Literal["running", "batch-stats", "recalibrate"] | None = setting(
        "BatchNorm statistics in evaluation: averaged running ones, the test batch's own, or re-estimated on training "
        "examples.",
        None,
        group="evaluation",
        otherwise="running; batch-stats where statistics stay on the clients",
    )
    vectorised: bool | None = setting(
        "Train many clients with a small model at once; the same to rounding.",
        None,
        otherwise="where it is faster, by a rule on the task and the clients per round",
    )
    cohort_memory: ByteSize = setting(
        "Memory for the replies of a round and the states of clients, such as 500MB; the rest waits in scratch files. "
        "`unlimited`: all of it stays in memory. Results do not depend on it.",
        "2GB",
    )
    stop_when: Conditions | None = setting(
        "End the run when a column of the history meets a condition, such as test_accuracy>0.9; of several, with "
        "commas between them, the first that does.",
        None,
        group="steering",
        otherwise="all rounds are played",
    )
    patience: Count | None = setting(
        "End the run when N evaluations, one after the other, have brought no improvement of the monitored column.",
        None,
        unit="evaluations",
        group="steering",
        otherwise="all rounds are played",
    )
    min_delta: NonNegative = setting(
        "How much better a value must be for patience to count it as an improvement.", 0.0, group="steering"
    )
    monitor: MonitoredColumn | None = setting(
        "The column of the history that decides what is an improvement; with :min or :max behind it where that is not "
        "known. One of a test set selects on test data.",
        None,
        group="steering",
        otherwise="validation_loss, where examples are held out for validation",
    )
    keep_best: bool = setting(
        "Keep the checkpoint after the best evaluation by the monitored column.", False, group="steering"
    )
    lr_plateau: PlateauRule | None = setting(
        "Lower the learning rate when the monitored column has stopped improving: factor=0.5, patience=10 "
        "(evaluations), min_lr, min_delta, monitor.",
        None,
        group="steering",
        otherwise="the rate follows its schedule alone",
    )
    device: str = setting("Where clients compute: cpu, cuda, cuda:N, mps. The server stays in main memory.", "cpu")

    @property
    def torch_dtype(self) -> torch.dtype:
        """The training type."""
        import torch  # here, so that the command line's help, which is made from this file, need not load it

        return torch.float32 if self.dtype == "float32" else torch.float64

    @property
    def cohort_bytes(self) -> int | None:
        """The bytes of `cohort_memory`; None for no bound."""
        return byte_count(self.cohort_memory)

    @property
    def monitors(self) -> bool:
        """Whether something goes by the monitored column."""
        return self.patience is not None or self.keep_best or self.lr_plateau is not None

    def decayed_lr(self, round: int) -> float:
        """Return the learning rate of a round (from 0), before an average changes it."""
        return self.at(round).lr * self.lr_decay**round

    def evaluates(self, round: int) -> bool:
        """Say whether the model is evaluated after this round: every n, each of the last ones, and the final."""
        # At least one, as the final round is always evaluated.
        last = LAST if self.evaluate_last is None else max(self.evaluate_last, 1)
        return (round + 1) % self.evaluate_every == 0 or round >= self.rounds - last


def about_settings() -> dict[str, About]:
    """Return what is said of each setting, by name, in the order of declaration."""
    fields: Any = dataclasses.fields(Settings)
    return {field.name: field.metadata["about"] for field in fields}


def defaults() -> dict[str, Any]:
    """Return the default of each setting that has one."""
    fields: Any = dataclasses.fields(Settings)
    return {field.name: field.default for field in fields if field.default is not MISSING}


LATER = ("base_opt", "precision", "compile")
"""Settings that earlier versions did not have; with its default, each leaves a run as it was without it."""


def later_settings(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return which of the later settings a record has with another value than the default."""
    usual = Settings(rounds=1, lr=0.0).to_dict()
    return {name: recorded[name] for name in LATER if name in recorded and recorded[name] != usual[name]}


def without_later(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return recorded settings as earlier versions wrote them: without later ones that are at their default."""
    left_out = set(LATER) - later_settings(recorded).keys()
    return {name: value for name, value in recorded.items() if name not in left_out}


def required_settings() -> list[str]:
    """Return the settings that have no default."""
    return [name for name in about_settings() if name not in defaults()]


def averaged_rounds(rounds: int, last: int | None) -> int:
    """Return over how many of the last rounds accuracy is averaged: `last`, or a tenth of them, at most 100."""
    usual = min(LAST, rounds // 10)
    return max(1, usual if last is None else last)


def dtype_name(dtype: torch.dtype | str) -> Literal["float32", "float64"]:
    """Return the name of a training type, or an error."""
    match str(dtype).removeprefix("torch."):
        case "float32":
            return "float32"
        case "float64":
            return "float64"
    raise ConfigError(f"dtype must be torch.float32 or torch.float64, not {dtype}")
