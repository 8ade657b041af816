"""The options that `run` and `compare` share, and the configuration file behind them.

Precedence: command line, then file, then default.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flatfed.core.errors import ConfigError, nearest

if TYPE_CHECKING:
    from flatfed.core.sampling import Sampler
    from flatfed.core.settings import Settings
    from flatfed.experiments.catalogue import TaskRecipe

FILE_SETTINGS = "flatfed.file-settings"
Command = Callable[..., Any]


class WholeOr(click.ParamType[int | str]):
    """A whole number or one word, such as `auto`."""

    def __init__(self, word: str, least: int) -> None:
        self.word, self.least, self.name = word, least, f"N|{word}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return the number or the word."""
        if value == self.word:
            return self.word
        try:
            number = int(value)
        except (TypeError, ValueError):
            number = self.least - 1
        if number < self.least:
            self.fail(f"{value!r} is neither {self.word!r} nor a whole number of at least {self.least}", param, ctx)
        return number


class Whole(click.ParamType[list[int]]):
    """Whole numbers with commas between them."""

    name = "N,N,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """Return the numbers; none may come twice."""
        parts = value if isinstance(value, list) else str(value).split(",")
        try:
            numbers = [int(part) for part in parts]
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a list of whole numbers such as 0,1,2", param, ctx)
        if len(set(numbers)) < len(numbers):
            self.fail(f"{value!r} names a number twice", param, ctx)
        return numbers


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
    known = {p.name for p in ctx.command.params if p.name} - {"config", "json", "dataset", "algorithm", "algorithms"}
    options: dict[str, Any] = {}
    for key, entry in content.items():
        name = str(key).replace("-", "_")
        if name not in known and name != "set":
            raise ConfigError(f"--config {value}: {nearest(name, known | {'set'}, 'option')}")
        options[name] = entry
    settings = options.pop("set", None) or {}
    if not isinstance(settings, dict):
        raise ConfigError(f"--config {value}: set must hold `name: value` lines")
    ctx.meta[FILE_SETTINGS] = {str(name): entry for name, entry in settings.items()}
    ctx.default_map = {**(ctx.default_map or {}), **options}
    return value


OPTIONS: list[Callable[[Command], Command]] = [
    click.option("--config", type=click.Path(path_type=Path, dir_okay=False), is_eager=True, callback=read_config, help="YAML file of options (`rounds: 200`, `set: {rho: 0.1}`). Command line > file > default."),  # noqa: E501
    click.option("--rounds", type=click.IntRange(1), default=100, show_default=True, help="Communication rounds."),
    click.option("--clients", type=click.IntRange(1), default=100, show_default=True, help="Clients in total."),
    click.option("--per-round", type=click.IntRange(1), default=5, show_default=True, help="Clients sampled a round, uniform without replacement."),  # noqa: E501
    click.option("--bernoulli", type=float, default=None, help="Instead of --per-round: each client joins with this probability."),  # noqa: E501
    click.option("--partition", default="dirichlet", show_default=True, help="How data is divided: flatfed list partitions."),  # noqa: E501
    click.option("--alpha", type=float, default=None, help="Dirichlet concentration; 0 is one class per client.  [default: the partition's]"),  # noqa: E501
    click.option("--model", default=None, help="Model: flatfed list models.  [default: the data set's]"),
    click.option("--augment/--no-augment", default=True, show_default=True, help="The data set's augmentation."),
    click.option("--lr", type=float, default=0.1, show_default=True, help="Client learning rate."),
    click.option("--lr-decay", type=float, default=1.0, show_default=True, help="Factor on the rate after every round."),  # noqa: E501
    click.option("--batch-size", type=WholeOr("full", 1), default=64, show_default=True, help="Examples a step, or `full`."),  # noqa: E501
    click.option("--local-epochs", type=click.IntRange(1), default=1, show_default=True, help="Local passes a round."),
    click.option("--weight-decay", type=float, default=4e-4, show_default=True, help="L2 decay."),
    click.option("--momentum", type=float, default=0.0, show_default=True, help="Client momentum, reset every round."),
    click.option("--clip", type=float, default=None, help="Bound on the norm of a local direction.  [default: none]"),
    click.option("--weighting", type=click.Choice(["samples", "uniform"]), default="samples", show_default=True, help="Weights of clients in the mean."),  # noqa: E501
    click.option("--dtype", type=click.Choice(["float32", "float64"]), default="float32", show_default=True, help="Number type."),  # noqa: E501
    click.option("--every", type=click.IntRange(1), default=10, show_default=True, help="Evaluate after every so many rounds ..."),  # noqa: E501
    click.option("--last", type=click.IntRange(0), default=100, show_default=True, help="... and after each of the last so many; accuracy is averaged over these."),  # noqa: E501
    click.option("--workers", type=WholeOr("auto", 0), default="auto", show_default=True, help="Worker processes; 0: in this one. Results do not depend on it."),  # noqa: E501
    click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter of the method (rho=0.1), of its client optimiser (client_opt.rho=0.1), of the average (average.cycle=5) or of the partition (partition.beta=0.3). METHOD:NAME=VALUE for one of several methods."),  # noqa: E501
    click.option("--out", type=click.Path(path_type=Path, file_okay=True), default=None, help="Directory to write.  [default: a new one in runs/]"),  # noqa: E501
    click.option("--json", "as_json", is_flag=True, help="Print the results as JSON instead of a table."),
]  # fmt: skip


def common_options(command: Command) -> Command:
    """Add the options that `run` and `compare` share."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def gather_settings(ctx: click.Context, given: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the methods' settings and the partition's, the command line's over the file's."""
    from flatfed.experiments.methods import parse_setting

    merged: dict[str, Any] = dict(ctx.meta.get(FILE_SETTINGS, {}))
    merged.update(parse_setting(text) for text in given)
    partition = {n.removeprefix("partition."): v for n, v in merged.items() if n.startswith("partition.")}
    return {n: v for n, v in merged.items() if not n.startswith("partition.")}, partition


def make_recipe(dataset: str, options: dict[str, Any], partition: dict[str, Any], seed: int) -> TaskRecipe:
    """Return the task that the options describe, checked by building it."""
    from flatfed.core.config import build, parameters
    from flatfed.data.partition import Partitioner
    from flatfed.experiments.catalogue import TaskRecipe

    cls = Partitioner.registry.find(options["partition"])
    if options["alpha"] is not None:
        if "alpha" not in parameters(cls):
            takes = ", ".join(f"partition.{n}" for n in parameters(cls)) or "no parameters"
            raise ConfigError(f"--alpha: the partition {cls.id!r} has no alpha (it takes {takes})")
        partition = {"alpha": options["alpha"]} | partition
    made = build(cls, partition)
    return TaskRecipe(dataset, options["clients"], made.to_dict(), options["model"], options["augment"], seed)


def make_settings(options: dict[str, Any], seed: int) -> Settings:
    """Return the training settings."""
    from flatfed.core.settings import Settings

    size = options["batch_size"]
    names = (
        "rounds",
        "lr",
        "lr_decay",
        "local_epochs",
        "weight_decay",
        "momentum",
        "clip",
        "weighting",
        "dtype",
        "every",
        "last",
    )
    return Settings(seed=seed, batch_size=None if size == "full" else size, **{name: options[name] for name in names})


def make_sampler(options: dict[str, Any]) -> Sampler:
    """Return the sampler, checked against the number of clients."""
    from flatfed.core.sampling import Bernoulli, Uniform

    p = options["bernoulli"]
    sampler = Uniform(options["per_round"]) if p is None else Bernoulli(p)
    sampler.check(options["clients"], options["rounds"])
    return sampler


def free_directory(name: str) -> Path:
    """Return a directory in `runs/` that is not there yet."""
    for number in range(1, 1_000_000):
        path = Path("runs") / f"{name}-{number:03d}"
        if not path.exists():
            return path
    raise ConfigError("runs/ is full; give --out")
