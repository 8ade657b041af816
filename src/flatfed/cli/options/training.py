"""The options that `run` and `compare` share, and the configuration file behind them.

Precedence: command line, then file, then default.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from flatfed.cli.options.values import Augmentation, Number, Seeds, Whole
from flatfed.core.errors import ConfigError, nearest

FILE_SETTINGS = "flatfed.file-settings"
Command = Callable[..., Any]


def read_config(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Take defaults from a YAML file; a key that is no option is an error."""
    if value is None:
        return None
    import yaml

    try:
        content = yaml.safe_load(value.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise ConfigError(f"--config {value}: {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config {value} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"--config {value} must hold `option: value` lines")
    known = _option_names(ctx.command)
    options: dict[str, Any] = {}
    for key, entry in content.items():
        name = str(key).replace("-", "_")
        if name not in known:
            raise ConfigError(f"--config {value}: {nearest(name, known, 'option')}")
        options[known[name]] = entry
    settings = options.pop("settings", None) or {}
    if not isinstance(settings, dict):
        raise ConfigError(f"--config {value}: set must hold `name: value` lines")
    ctx.meta[FILE_SETTINGS] = {str(name): entry for name, entry in settings.items()}
    ctx.default_map = {**(ctx.default_map or {}), **options}
    return value


def _option_names(command: click.Command) -> dict[str, str]:
    """Return the options as a file spells them, each with click's name for it."""
    options = [p for p in command.params if isinstance(p, click.Option) and p.name and p.name != "config"]
    return {opt[2:].replace("-", "_"): str(p.name) for p in options for opt in p.opts if opt.startswith("--")}


def _option(name: str, help: str, type: Any = None, default: Any = None, **extra: Any) -> Callable[[Command], Command]:
    """Return an option that shows its default, where it has one."""
    return click.option(*name.split(), type=type, default=default, show_default=default is not None, help=help, **extra)


alpha_option = _option(
    "--alpha",
    "Dirichlet concentration in total over the classes, as in FedSAM, FedGloSS, FedGF: 0.1 gives 1.6 of CIFAR-10's 10 "
    "classes per client, 0 one. For a concentration per class: --beta.  [default: the partition's]",
    Number(),
)
beta_option = _option(
    "--beta",
    "Dirichlet concentration per class, as in FedSMOO, FedWMSAM, FedVSSAM and most papers: 0.1 gives 5.6 of CIFAR-10's "
    "10 classes per client. Selects the partition dirichlet-per-class.",
    Number(),
)

OPTIONS: list[Callable[[Command], Command]] = [
    click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        is_eager=True,
        callback=read_config,
        help="YAML file of options (`rounds: 200`, `set: {rho: 0.1}`). Command line > file > default.",
    ),
    _option("--rounds", "Communication rounds.", Whole(1), 100),
    _option("--clients", "Clients in total.  [default: 100, or the data's natural clients]", Whole(1)),
    _option(
        "--per-round",
        "Clients sampled a round, uniform without replacement.  [default: 5, or all where there are fewer]",
        Whole(1),
    ),
    _option("--bernoulli", "Instead of --per-round: each client joins with this probability.", Number()),
    _option("--data-dir", "Where data sets lie.  [default: $FLATFED_DATA, or ~/.cache/flatfed/data]", str),
    _option("--partition", "How data is divided: flatfed list partitions.  [default: the data set's]", str),
    alpha_option,
    beta_option,
    _option(
        "--partition-seed",
        "Seed of the partition alone: runs with other seeds then have the same one, as with the split files of FedSAM, "
        "FedGloSS and FedGF.  [default: the seed, as in FedWMSAM's code: another partition for each]",
        Whole(0),
    ),
    _option("--model", "Model: flatfed list models, or package.module:Class.  [default: the data set's]", str),
    _option("--weights", "Weights to start from: a safetensors file.  [default: random, by the seed]", str),
    click.option(
        "--new-head", is_flag=True, help="With --weights: all but the head, which starts random, by the seed."
    ),
    _option(
        "--local-parts",
        "BatchNorm parts that stay on the clients: the statistics (SiLoBN) or all (FedBN).  [default: none]",
        click.Choice(["bn-stats", "bn"]),
    ),
    _option(
        "--augment",
        "Augmentation: the data set's, `none`, or by name, such as crop-flip,cutout(8): flatfed list augmentations.",
        Augmentation(),
        "default",
        is_flag=False,
        flag_value="default",
    ),
    click.option("--no-augment", "no_augment", is_flag=True, help="The same as --augment none."),
    _option("--lr", "Client learning rate, or a course such as cosine(0.1,0.001,500).", Number(True), 0.1),
    _option("--lr-decay", "Factor on the learning rate after every round.", Number(), 1.0),
    _option("--batch-size", "Examples a step, or `full`.", Whole(1, "full"), 64),
    _option("--local-epochs", "Passes over a client's data in a round.", Whole(1), 1),
    _option("--weight-decay", "L2 decay.", Number(True), 4e-4),
    _option("--momentum", "Client momentum, reset every round.", Number(True), 0.0),
    _option("--clip", "Bound on the norm of a local direction.  [default: none]", Number(True)),
    _option("--weighting", "Weights of clients in the mean.", click.Choice(["samples", "uniform"]), "samples"),
    _option("--dtype", "Number type.", click.Choice(["float32", "float64"]), "float32"),
    _option("--every", "Evaluate after every N rounds, and after the final one.", Whole(1), 10),
    _option(
        "--last",
        "Evaluate also after each of the last N rounds and average accuracy over them.  [default: evaluate the last "
        "100, average over the last tenth of the rounds, at most 100]",
        Whole(0),
    ),
    _option(
        "--eval-stats",
        "BatchNorm statistics in evaluation: averaged running ones, the test batch's own, or re-estimated on training "
        "examples.  [default: running; batch-stats where statistics stay on the clients]",
        click.Choice(["running", "batch-stats", "recalibrate"]),
    ),
    _option(
        "--watch",
        "Measure while it trains, without changing the result: lambda_max:50,lpf:100 (every 50 and 100 rounds). See "
        "flatfed list measurements.",
        str,
        metavar="NAME:N,...",
    ),
    _option("--watch-data", "Take --watch's losses over `train` (all clients' examples) or a test set.", str, "train"),
    _option(
        "--watch-samples",
        "Over so many examples at most, drawn once, or `all`; compare --flatness too.",
        Whole(1, "all"),
        2_000,
    ),
    _option("--min-replies", "Good replies that a round needs; with fewer it is tried again.", Whole(1), 1),
    _option("--retries", "How often a round is tried again, with other clients, before the run stops.", Whole(0), 2),
    _option(
        "--max-update-norm",
        "Reject a client's update that lies further than this from the model sent.  [default: none]",
        Number(),
    ),
    _option(
        "--checkpoint-every",
        "Save after every N rounds, and at the end.  [default: about every 30 seconds]",
        Whole(1),
    ),
    _option(
        "--keep-checkpoints",
        "Write a checkpoint after exactly N rounds and never remove it, besides the last two: 400,800. See `flatfed "
        "branch`.  [default: none]",
        Seeds(),
    ),
    _option("--device", "Where clients compute: cpu, cuda, cuda:N, mps.", str, "cpu"),
    click.option(
        "--batched/--no-batched",
        default=None,
        help="Train clients in lockstep, many at a time; the same to rounding.  [default: where it wins, by a rule on "
        "the task and the clients a round]",
    ),
    _option("--workers", "Worker processes; 0: in this one. Results do not depend on it.", Whole(0, "auto"), "auto"),
    _option(
        "--set settings",
        "A parameter of the method (rho=0.1), of its client optimiser (client_opt.rho=0.1), of the average "
        "(average.cycle=5), of the partition (partition.beta=0.3), the model (model.stem=cifar) or the data "
        "(data.NAME=X). METHOD:NAME=VALUE for one of several methods. "
        "A real number may follow a course over the rounds: ramp(START,END,ROUNDS), cosine(START,END,ROUNDS), "
        "poly(START,END,ROUNDS,POWER), decay(START,FACTOR), cycle(HIGH,LOW,PERIOD), cyclefrom(START,HIGH,LOW,PERIOD), "
        "steps(0:X,100:Y).",
        multiple=True,
        metavar="NAME=VALUE",
    ),
    _option("--out", "Directory to write.  [default: a new one in runs/]", click.Path(path_type=Path)),
    click.option("--json", "as_json", is_flag=True, help="Print the results as JSON instead of a table."),
]


weights_option = click.option(
    "--weights",
    type=click.Choice(["evaluated", "global"]),
    default="evaluated",
    show_default=True,
    help="Of a run with an average: the averaged model, or the last global one.",
)


def common_options(command: Command) -> Command:
    """Add the options that `run` and `compare` share."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command
