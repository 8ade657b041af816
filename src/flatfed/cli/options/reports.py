"""The options of `compare` and `show` that ask for more in a report: --at, --target and --baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.core.configuration.settings import Settings
    from flatfed.reports.tables.extras import Extras

Command = Callable[..., Any]


class Rounds(click.ParamType[list[int]]):
    """Numbers of rounds, from 1, with commas between them."""

    name = "N,N,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """Return the numbers, each once."""
        try:
            rounds = [int(str(part)) for part in _parts(value)]
        except ValueError:
            rounds = []
        if not rounds or min(rounds) < 1:
            self.fail(f"{value!r} is not a list of rounds such as 5000,10000, counted from 1", param, ctx)
        return list(dict.fromkeys(rounds))


class Targets(click.ParamType[list[str]]):
    """Values to reach, with commas between them."""

    name = "X|METHOD:final,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        """Return them as they were written."""
        return list(dict.fromkeys(str(part).strip() for part in _parts(value)))


def _parts(value: Any) -> list[Any]:
    """Return the parts of a list as a command line or a file gives it."""
    return value if isinstance(value, list) else str(value).split(",")


OPTIONS: list[Callable[[Command], Command]] = [
    click.option("--at", type=Rounds(), default=None, help="Also show the metric after exactly these rounds."),
    click.option(
        "--target",
        type=Targets(),
        default=None,
        help="Also show what it costs to reach a value: 0.75 (75 % accuracy), or a method's own, fedavg:final (its "
        "last-n mean, as papers report it), fedavg:last (after the last round) or fedavg:best.",
    ),
    click.option("--baseline", default=None, metavar="METHOD", help="Also show the improvement over this method."),
]


def report_options(command: Command) -> Command:
    """Add the options."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def make_extras(options: dict[str, Any]) -> Extras:
    """Return what a report is asked to show besides its table."""
    from flatfed.reports.tables.extras import Extras, Target

    targets = tuple(Target.parse(text) for text in options["target"] or ())
    return Extras(tuple(options["at"] or ()), targets, options["baseline"])


def refuse_unevaluated(at: Sequence[int], settings: Settings) -> None:
    """Refuse rounds for `--at` that training will not evaluate, before it begins."""
    for round in at:
        if round > settings.rounds:
            raise ConfigError(f"--at {round}: there are {settings.rounds} rounds; take one of them, or more --rounds")
        if not settings.evaluates(round - 1):
            every = settings.every
            near = [r for r in (round // every * every, -(-round // every) * every) if 0 < r <= settings.rounds]
            raise ConfigError(
                f"--at {round}: that round is not evaluated, for --every is {every}; take --at "
                f"{' or '.join(map(str, near)) or settings.rounds}, or an --every that divides {round}"
            )
