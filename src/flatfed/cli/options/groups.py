"""Options in groups: the class of every command that has some, and those that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flatfed.cli.loading import loading
from flatfed.cli.options.values import Number, Whole, click_type, naming, options_of, typed_words
from flatfed.core.errors import ConfigError, nearest
from flatfed.experiments.spelling.declared import RunOption
from flatfed.experiments.spelling.kinds import TrackKind, list_of_whole, parts_of
from flatfed.experiments.spelling.measured import SPACE, WEIGHTS

if TYPE_CHECKING:
    from flatfed.core.configuration.settings import Settings
    from flatfed.named_code import NamedBy
    from flatfed.reports.tables.extras import Extras


Command = Callable[..., Any]
Decorator = Callable[[Command], Command]

HEADINGS = {
    "common": "Most used",
    "data": "Data",
    "model": "Model",
    "training": "Training",
    "steering": "Early stopping, best model, learning rate on a plateau",
    "engine": "Where clients run",
    "evaluation": "Evaluation and measurements",
    "figures": "Figures",
    "output": "Output",
}

FIRST = (
    *("measure", "data", "kind", "points", "extent", "samples"),
    *("partition", "rounds", "clients", "per_round", "alpha", "beta", "lr", "batch_size", "settings"),
    *("seed", "seeds", "workers", "out", "config"),
)
"""The order of the most used options, of all commands."""

FEW = 9
"""A command with no more options than this shows them under one heading."""


class NearestGroup(click.Group):
    """Subcommands, of which the nearest is suggested for an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the nearest ones."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise click.UsageError(nearest(args[0], self.commands, "command"), ctx)
        return super().resolve_command(ctx, args)


class GroupedOption(click.Option):
    """An option that stands under a heading of the help; names of earlier versions are taken, but not shown."""

    def __init__(
        self, declared: list[str], group: str = "common", old: tuple[str, ...] = (), **attributes: Any
    ) -> None:
        super().__init__([*declared, *old], **attributes)
        self.group = group
        # A flag declares its yes and its no at once, with a slash between them.
        self._old = set("/".join(old).split("/"))

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the line of the help, without the old names."""
        every = self.opts, self.secondary_opts
        # Click takes the names from the option itself: they are hidden for this line only.
        self.opts, self.secondary_opts = self._of_today(self.opts), self._of_today(self.secondary_opts)
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts, self.secondary_opts = every

    def _of_today(self, names: list[str]) -> list[str]:
        return [name for name in names if name not in self._old]


class GroupedCommand(click.Command):
    """A command whose help shows its options under headings, and whose errors name them as they are typed."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what Python calls by the name of a parameter is called by that of the option."""
        with naming(typed_words(ctx)):
            if "engine" in ctx.params:
                take_engine(ctx)
            return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, heading by heading."""
        if len(options_of(self)) <= FEW:
            super().format_options(ctx, formatter)
            return
        for group, lines in _lines_by_group(ctx, self.get_params(ctx)).items():
            with formatter.section(HEADINGS[group]):
                formatter.write_dl(lines)


def _lines_by_group(ctx: click.Context, params: list[click.Parameter]) -> dict[str, list[tuple[str, str]]]:
    """Return the lines under each heading: the option, and what is said of it."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for option in sorted(params, key=_place):
        line = option.get_help_record(ctx)
        if line is not None and isinstance(option, click.Option):
            groups.setdefault(_group_of(option), []).append(line)
    return groups


def _place(option: click.Parameter) -> tuple[int, int]:
    """Return where an option stands: in the order of the headings, and there the first ones in that of `FIRST`."""
    heading = list(HEADINGS).index(_group_of(option))
    if option.name not in FIRST:
        return heading, len(FIRST)
    return heading, FIRST.index(option.name)


def _group_of(option: click.Parameter) -> str:
    return getattr(option, "group", "output")  # --help is click's own


def option(name: str, help: str, type: Any = None, default: Any = None, **extra: Any) -> Decorator:
    """Return an option that shows its default, where it has one; `group` and `old` as in `GroupedOption`."""
    if extra.get("is_flag"):
        return click.option(*name.split(), cls=GroupedOption, help=help, **extra)
    return click.option(
        *name.split(),
        cls=GroupedOption,
        type=type,
        default=default,
        show_default=default not in (None, ""),
        help=help,
        **extra,
    )


def declared_option(name: str, help: str, declared: RunOption, **extra: Any) -> Decorator:
    """Return an option whose values and default are declared elsewhere."""
    return option(name, help, click_type(declared.kind), declared.default, **extra)


def together(*options: Decorator) -> Decorator:
    """Return several options as one decorator."""

    def add(command: Command) -> Command:
        # The last decorator comes first: so the help shows them in the order in which they are written.
        for decorator in reversed(options):
            command = decorator(command)
        return command

    return add


class Rounds(click.ParamType[list[int]]):
    """Numbers of rounds, from 1, with commas between them."""

    name = "N,N,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """Return the numbers, each once."""
        rounds = list_of_whole(value)
        if min(rounds, default=0) < 1:
            self.fail(f"{value!r} is not a list of rounds such as 5000,10000, counted from 1", param, ctx)
        return list(dict.fromkeys(rounds))


class Targets(click.ParamType[list[str]]):
    """Values to reach, with commas between them."""

    name = "X|METHOD:final,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        """Return them as they were written."""
        texts = [str(part).strip() for part in parts_of(value)]
        return list(dict.fromkeys(texts))


report_options = together(
    option("--at", "Also show the metric after exactly these rounds.", Rounds(), group="output"),
    option(
        "--target",
        "Also show what it costs to reach a value: 0.75 (75 % accuracy), or a method's own, fedavg:final (its "
        "last-n mean, as papers report it), fedavg:last (after the last round) or fedavg:best.",
        Targets(),
        group="output",
    ),
    option("--baseline", "Also show the improvement over this method.", metavar="METHOD", group="output"),
)


def make_extras(options: dict[str, Any]) -> Extras:
    """Return what a report is asked to show besides its table; a command may lack these options."""
    from flatfed.reports.tables.extras import Extras, Target

    rounds, targets = options.get("at") or (), options.get("target") or ()
    return Extras(tuple(rounds), tuple(map(Target.parse, targets)), options.get("baseline"))


def refuse_unevaluated(at: Sequence[int], settings: Settings) -> None:
    """Refuse rounds for `--at` that training will not evaluate, before it begins."""
    for round in at:
        _refuse_round(round, settings)


def _refuse_round(round: int, settings: Settings) -> None:
    if round > settings.rounds:
        raise ConfigError(f"--at {round}: there are {settings.rounds} rounds; take one of them, or more --rounds")
    if not settings.evaluates(round - 1):
        raise ConfigError(_not_evaluated(round, settings))


def _not_evaluated(round: int, settings: Settings) -> str:
    every = settings.evaluate_every
    return (
        f"--at {round}: that round is not evaluated, for --evaluate-every is {every}; take --at "
        f"{_evaluated_near(round, settings)}, or an --evaluate-every that divides {round}"
    )


def _evaluated_near(round: int, settings: Settings) -> str:
    """Return the evaluated rounds before and after a round that is not."""
    every = settings.evaluate_every
    before = round // every * every
    near = [str(known) for known in (before, before + every) if 0 < known <= settings.rounds]
    return " or ".join(near) or str(settings.rounds)


OPTIONS = ("engine", "address", "resources", "minimum", "wait_for_workers", "node_data")
CALLED = {"wait_for_workers": "patience"}
"""Options whose parameter has another name: a training setting has that one."""


def engine_options(workers: str, default: str | None = None) -> Decorator:
    """Return --workers, with what is said of it, and the options of engines beyond this machine."""
    return together(
        option("--workers", workers, Whole(0, "auto"), default),
        option(
            "--engine",
            "Where clients run: `ray` is a Ray cluster; flatfed list engines. Results stay the same.  [default: as "
            "--workers says]",
            str,
            group="engine",
        ),
        option(
            "--address",
            "Of the Ray cluster: `local` starts Ray here, `auto` is the one that this machine belongs to, or "
            "HOST:PORT.  [default: local]",
            str,
            group="engine",
        ),
        option(
            "--resources",
            "What each worker takes of a Ray node, such as CPU=1,GPU=0.5.  [default: CPU=1]",
            str,
            group="engine",
        ),
        option(
            "--minimum",
            "With fewer workers than this on a Ray cluster the run waits.  [default: 1]",
            Whole(1),
            group="engine",
        ),
        option(
            "--wait-for-workers",
            "For this many seconds; then it stops, with a checkpoint.  [default: 120]",
            Number(),
            group="engine",
        ),
        option(
            "--node-data",
            "Each Ray node reads the data sets from this directory of its own.  [default: the data are sent to it]",
            str,
            metavar="DIR",
            group="engine",
        ),
    )


def take_engine(ctx: click.Context) -> None:
    """Put the engine in the place of the number of workers, and its options away."""
    from flatfed.core.errors import ConfigError

    with loading():
        from flatfed.engines.choice import named_engine

    params, by = ctx.params, whose(ctx, "engine")
    given = {name: params.pop(name) for name in OPTIONS}
    id = given.pop("engine")
    if id is not None:
        parameters = {CALLED.get(name, name): value for name, value in given.items()}
        params["workers"] = named_engine(id, by, workers=params["workers"], **parameters)
        return
    for name, value in given.items():
        if value is not None:
            raise ConfigError(f"--{name.replace('_', '-')} belongs to an engine; add --engine ray")


def whose(ctx: click.Context, *options: str) -> NamedBy:
    """Return whose word some options are: the user's, or, where one stands in it, that of the file of --config."""
    from flatfed.named_code import USER, NamedBy

    if not any(ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP for name in options):
        # Runs of a comparison that has begun may be there already, and these are files.
        return replace(USER, trusted=ctx.params.get("trust", False))
    return NamedBy(ctx.params["config"], ctx.params["trust"])


def track_option(otherwise: str) -> Decorator:
    """Return --track, with what is done where it is not given."""
    return option(
        "--track",
        "Also send the run to a tracker: tensorboard, mlflow or wandb, with parameters such as "
        "mlflow(uri=http://127.0.0.1:5000,experiment=flat); may be repeated. It never stops or changes the run.  "
        f"[default: {otherwise}]",
        click_type(TrackKind()),
        multiple=True,
        group="output",
    )


weights_option = declared_option(
    "--weights",
    "Of a run with weight averaging: the averaged model, or the last global one.",
    WEIGHTS,
    group="model",
)
space_option = declared_option(
    "--space",
    "Of a model with frozen weights: the loss as a function of the parameters that are trained (with LoRA the "
    "adapters), or of all weights in full, adapters merged.",
    SPACE,
    group="model",
)
which_model_option = option(
    "--model",
    "Which model: that of the newest checkpoint, or the best one of a run with --keep-best.",
    click.Choice(("newest", "best")),
    "newest",
    group="model",
)
data_dir_option = option("--data-dir", "Where the data sets lie, if no longer where they were.", group="data")
accept_data_option = option(
    "--accept-changed-data",
    "Use the data although they are not those that the run was made with.",
    is_flag=True,
    group="data",
)
accept_code_option = option(
    "--accept-changed-code",
    "Go on although a part from outside flatfed is other code than when the run was made.",
    is_flag=True,
    group="model",
)
jobs_option = option(
    "--jobs",
    "Runs at a time, each in a process of its own; 1: one after another, each with its --workers. Results stay the "
    "same.  [default: by cores and memory, where as many runs are left as there are cores and no --workers are given]",
    Whole(1),
    group="engine",
)
"""How many runs of a comparison are trained at once."""
workers_option = engine_options("Worker processes.  [default: as the run]")
trust_option = option(
    "--trust",
    "Import the code that the run or file names, wherever it comes from; only for those of people you trust.",
    is_flag=True,
    group="model",
)
json_option = option("--json as_json", "Print the results as JSON instead of a table.", is_flag=True, group="output")
