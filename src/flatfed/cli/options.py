"""The options that `run` and `compare` share, and the configuration file behind them.

Precedence: command line, then file, then default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flatfed.core.errors import ConfigError, nearest

if TYPE_CHECKING:
    from flatfed.core.sampling import Sampler
    from flatfed.core.settings import Settings
    from flatfed.data.partition import Partitioner
    from flatfed.experiments.catalogue import TaskRecipe
    from flatfed.flatness.monitor import Monitor

FILE_SETTINGS = "flatfed.file-settings"
PARTITION, MODEL, DATA = "partition.", "model.", "data."
SETTINGS = (
    *("rounds", "lr", "lr_decay", "local_epochs", "weight_decay", "momentum", "clip", "weighting", "dtype"),
    *("every", "last", "eval_stats", "batched", "device", "min_replies", "retries", "max_update_norm"),
)
Command = Callable[..., Any]
PER_ROUND = 5
"""Clients a round where nothing says otherwise."""


class Number(click.ParamType[float | str]):
    """A number, or a course over the rounds where there may be one; anything else that a file may hold is refused."""

    name = "X"

    def __init__(self, may_vary: bool = False) -> None:
        self.may_vary = may_vary

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return how the value is written."""
        return "X|COURSE" if self.may_vary else "X"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """Return the number, or the course as it was written."""
        if self.may_vary and isinstance(value, str) and "(" in value:
            return value
        try:
            return float("" if isinstance(value, bool | list | dict) else value)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a number", param, ctx)


class Whole(click.ParamType[int | str]):
    """A whole number of at least `least`, or one word, such as `auto`."""

    def __init__(self, least: int, word: str | None = None) -> None:
        self.least, self.word, self.name = least, word, "N"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return how the value is written."""
        return f"N|{self.word}" if self.word else "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return the number or the word."""
        if self.word is not None and value == self.word:
            return self.word
        try:
            number = int(str(value))
        except ValueError:
            number = self.least - 1
        if number < self.least or isinstance(value, bool):
            either = f"neither {self.word!r} nor" if self.word else "not"
            self.fail(f"{value!r} is {either} a whole number of at least {self.least}", param, ctx)
        return number


class Augmentation(click.ParamType[bool | str]):
    """The data set's own augmentation (True), none (False), or names; a file may hold a truth value."""

    name = "NAME,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool | str:
        """Return which it is."""
        if isinstance(value, bool) or value in ("default", "none"):
            return value is True or value == "default"
        if not isinstance(value, str) or not value.strip():
            self.fail(f"{value!r} is not a list of augmentations such as crop-flip,cutout(8)", param, ctx)
        for word in ("none", "default"):
            if word in (name.strip() for name in value.split(",")):
                self.fail(f"{value!r}: {word!r} stands alone; give either it or names", param, ctx)
        return value


class Seeds(click.ParamType[list[int]]):
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


@dataclass(frozen=True)
class Given:
    """What was set by name, in the file or, going before it, on the command line; `short` are --alpha and --beta."""

    methods: dict[str, Any]
    partition: dict[str, Any]
    model: dict[str, Any]
    data: dict[str, Any]
    short: dict[str, float]


def gather_settings(ctx: click.Context, here: tuple[str, ...], spellings: list[str]) -> Given:
    """Return what is set in the file and on the command line, the latter going first.

    A file may serve many methods: what it sets for others than these is left out.
    """
    from flatfed.experiments.methods import relevant

    in_file: dict[str, Any] = relevant(ctx.meta.get(FILE_SETTINGS, {}), spellings)
    typed = _typed_once(here)
    short_in_file, short_typed = _short(ctx, in_file, True), _short(ctx, typed, False)
    short = short_in_file | short_typed
    if set(short) == {"alpha", "beta"} and len(short_typed) == 1:  # a file's, overridden by the other spelling
        short = short_typed
    both = in_file | {f"{PARTITION}{n}": v for n, v in short_in_file.items() if n in short}
    both |= typed | {f"{PARTITION}{n}": v for n, v in short_typed.items()}
    methods = {n: v for n, v in both.items() if not n.startswith((PARTITION, MODEL, DATA))}
    return Given(methods, _of(PARTITION, both), _of(MODEL, both), _of(DATA, both), short)


def _typed_once(settings: tuple[str, ...]) -> dict[str, Any]:
    """Return what --set says; a name that is given twice is an error."""
    from flatfed.experiments.methods import parse_setting

    typed: dict[str, Any] = {}
    for name, value in map(parse_setting, settings):
        if name in typed:
            raise ConfigError(f"--set {name} is given twice, as {typed[name]} and as {value}; give it once")
        typed[name] = value
    return typed


def _short(ctx: click.Context, settings: dict[str, Any], in_file: bool) -> dict[str, float]:
    """Return --alpha and --beta, as far as they come from the file or from the command line; each may come once."""
    found: dict[str, float] = {}
    for name in ("alpha", "beta"):
        value, long = ctx.params.get(name), f"{PARTITION}{name}"
        if value is None or in_file != (ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP):
            continue
        if long in settings:
            raise ConfigError(
                f"--{name} {value:g} and --set {long}={settings[long]} say the same thing; give one of them"
            )
        found[name] = value
    return found


def _of(prefix: str, settings: dict[str, Any]) -> dict[str, Any]:
    return {n.removeprefix(prefix): v for n, v in settings.items() if n.startswith(prefix)}


def make_recipe(dataset: str, options: dict[str, Any], given: Given, seed: int) -> TaskRecipe:
    """Return the task that the options describe."""
    from flatfed.experiments.catalogue import TaskRecipe

    partition = _make_partition(dataset, options["partition"], given)
    names = ("clients", "model", "augment", "local_parts", "data_dir", "weights", "new_head", "partition_seed")
    given_by_name = {name: options[name] for name in names}
    if options["no_augment"]:
        given_by_name["augment"] = False
    for name in ("data_dir", "weights"):
        given_by_name[name] = _absolute(given_by_name[name])
    return TaskRecipe(
        dataset,
        partition=_found_here(partition.to_dict(), "path"),
        seed=seed,
        data_options=_found_here(given.data, "path", "images", "test"),
        model_options=given.model,
        **given_by_name,
    )


def _make_partition(dataset: str, asked: str | None, given: Given) -> Partitioner:
    """Return the partition: the one asked for, that of --beta, or the data set's."""
    from flatfed.core.config import build, parameters
    from flatfed.data.catalogue import find
    from flatfed.data.partition import Partitioner

    own = find(dataset).partition
    cls = Partitioner.registry.find(asked or (PER_CLASS if "beta" in given.short else own))
    takes = parameters(cls)
    if len(given.short) > 1 and not {"alpha", "beta"} <= set(takes):
        raise ConfigError("--alpha (a total over the classes) and --beta (per class) are two ways to say it; give one")
    for name in given.short:
        if name not in takes:
            listed = ", ".join(f"partition.{n}" for n in takes) or "no parameters"
            raise ConfigError(f"--{name}: the partition {cls.id!r} has no {name} (it takes {listed}); {_INSTEAD[name]}")
    typed = "beta" if "beta" in given.short else "alpha"
    with named_as_typed(f"{cls.id}: {typed}", f"--{typed}"):
        return build(cls, given.partition)


PER_CLASS = "dirichlet-per-class"
_INSTEAD = {
    "alpha": "it is the total concentration of the partition dirichlet",
    "beta": f"it is the concentration per class of the partition {PER_CLASS}",
}


def refuse_contradictions(ctx: click.Context, options: dict[str, Any]) -> None:
    """Refuse options that are empty, or that say two things at once."""
    for name in ("partition", "model", "data_dir", "weights"):
        if isinstance(options[name], str) and not options[name].strip():
            raise ConfigError(f"--{name.replace('_', '-')} is empty; leave it out, or name one")
    sources = ctx.get_parameter_source("augment"), ctx.get_parameter_source("no_augment")
    if options["no_augment"] and options["augment"] is not False and sources[0] == sources[1]:
        raise ConfigError("--augment and --no-augment contradict each other; give one of them")


def _found_here(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the settings with paths that hold from any folder.

    What is not there as seen from here may lie in the data directory, or be a name: it is left alone.
    """
    paths = {name: settings[name] for name in names if isinstance(settings.get(name), str) and settings[name]}
    found = {name: path for name, path in paths.items() if name == "path" and Path(path).expanduser().exists()}
    found |= {name: path for name, path in paths.items() if name == "images" and Path(path).expanduser().is_dir()}
    found |= {name: path for name, path in paths.items() if name == "test" and Path(path).expanduser().is_file()}
    return settings | {name: _absolute(path) for name, path in found.items()}


def _absolute(path: str | None) -> str | None:
    """Return a path that holds from any folder."""
    return None if path is None else str(Path(path).expanduser().absolute())


def make_settings(options: dict[str, Any], seed: int) -> Settings:
    """Return the training settings."""
    from flatfed.core.settings import Settings

    size = options["batch_size"]
    values = {name: options[name] for name in SETTINGS}
    with named_as_typed("", "--"):
        return Settings(seed=seed, batch_size=None if size == "full" else size, **values)


def make_monitors(options: dict[str, Any]) -> tuple[Monitor, ...]:
    """Return what is measured while it trains."""
    from flatfed.experiments.measures import parse_watch

    samples = options["watch_samples"]
    try:
        return parse_watch(options["watch"], options["watch_data"], None if samples == "all" else samples)
    except ConfigError as error:
        raise ConfigError(f"--watch: {error}") from None


def make_checkpoints(options: dict[str, Any]) -> dict[str, Any]:
    """Return what a plan says about checkpoints: after every so many rounds, and which are kept."""
    from flatfed.experiments.plan import kept_rounds

    with named_as_typed("", "--"):
        kept = kept_rounds(options["keep_checkpoints"] or ())
    return {"checkpoint_every": options["checkpoint_every"], "keep_checkpoints": kept}


def make_sampler(ctx: click.Context, options: dict[str, Any], population: int) -> Sampler:
    """Return the sampler, checked against the number of clients."""
    from flatfed.core.sampling import Bernoulli, Uniform

    p = options["bernoulli"]
    with named_as_typed("bernoulli: p", "--bernoulli"):
        sampler = Uniform(options["per_round"] or min(PER_ROUND, population)) if p is None else Bernoulli(p)
    sources = ctx.get_parameter_source("per_round"), ctx.get_parameter_source("bernoulli")
    if p is not None and options["per_round"] is not None and sources[0] == sources[1]:
        raise ConfigError("--bernoulli and --per-round are two ways to sample; give one of them")
    sampler.check(population, options["rounds"])
    return sampler


@contextmanager
def named_as_typed(name: str, option: str) -> Iterator[None]:
    """Let an error speak of the option that was typed instead of the parameter behind it."""
    try:
        yield
    except ConfigError as error:
        text = str(error)
        if not text.startswith(name):
            raise
        first, _, rest = text.removeprefix(name).partition(" ")
        raise ConfigError(f"{option}{first.replace('_', '-')} {rest}") from None


def free_directory(name: str) -> Path:
    """Return a directory in `runs/` that is not there yet."""
    for number in range(1, 1_000_000):
        path = Path("runs") / f"{name}-{number:03d}"
        if not path.exists():
            return path
    raise ConfigError("runs/ is full; give --out")
