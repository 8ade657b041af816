"""The options of `compare` and `show` that ask for more in a report: --at, --target and --baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.options.groups import option, together
from flatfed.cli.options.values import list_of_whole, parts_of
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.core.configuration.settings import Settings
    from flatfed.reports.tables.extras import Extras


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
