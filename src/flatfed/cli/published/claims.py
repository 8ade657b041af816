"""`flatfed claims`: what papers claim, listed, shown, and judged by a study."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.options.groups import GroupedCommand, NearestGroup, json_option, option
from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.published.claims.claim import Claim

paper_option = option(
    "--paper", "Of one paper: fedgloss, fedsam, fedwmsam, fedvssam, fedgf or between.", metavar="PAPER"
)
kind_option = option("--kind", "Of one kind: exact, trend or counter.", metavar="KIND")


@click.group(
    cls=NearestGroup, invoke_without_command=True, short_help="List what papers claim, and judge it by a study."
)
@paper_option
@kind_option
@json_option
@click.pass_context
def claims(ctx: click.Context, paper: str | None, kind: str | None, as_json: bool) -> int | None:
    """List what five papers claim, each in a form that runs can be held against.

    \b
      flatfed claims --paper fedgloss            its claims
      flatfed claims show fedgloss-05            one with its rules, settings and printed numbers
      flatfed claims check runs/study            what a study's runs say of them
    """
    if ctx.invoked_subcommand is not None:
        for name, value in {"--paper": paper, "--kind": kind, "--json": as_json}.items():
            if value:
                raise ConfigError(
                    f"{name} belongs behind {ctx.invoked_subcommand}: flatfed claims "
                    f"{ctx.invoked_subcommand} ... {name}"
                )
        return None
    from flatfed.cli.published.printing_claims import print_claims
    from flatfed.published.claims import claims as known

    chosen = known(paper, kind)
    if as_json:
        echo(json.dumps([_record(claim) for claim in chosen], indent=1))
        return 0
    print_claims(chosen)
    return 0


def _record(claim: Claim) -> dict[str, Any]:
    record = asdict(claim)
    del record["line"], record["named"]
    return {"paper": claim.paper, "methods": list(claim.methods), "studies": list(claim.studies)} | record


@claims.command(cls=GroupedCommand)
@click.argument("id", metavar="CLAIM")
@json_option
def show(id: str, as_json: bool) -> int:
    """Show one CLAIM, by its id (fedgloss-05) or number (5): settings, rules, and what the printed numbers say."""
    from flatfed.cli.published.printing_claims import print_claim
    from flatfed.published.claims import find_claim
    from flatfed.published.claims.printed import judge_printed

    claim = find_claim(id)
    verdict = judge_printed(claim)
    if as_json:
        echo(json.dumps(_record(claim) | {"printed": verdict.to_dict()}, indent=1))
        return 0
    print_claim(claim, verdict)
    return 0


@claims.command(cls=GroupedCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@paper_option
@kind_option
@option(
    "--as standing_for",
    "A setting of the study that stands for one of the claims': 'one class=cifar10-0'; may be given several times.",
    multiple=True,
    metavar="OURS=THEIRS",
)
@json_option
def check(folder: Path, paper: str | None, kind: str | None, standing_for: tuple[str, ...], as_json: bool) -> int:
    """Judge the claims by the runs in the FOLDER of a study.

    A claim holds where every comparison's interval over the seeds lies on its side, and does not hold where one lies on
    the other; all else is undecided. A setting of the study stands for one of the claims' by its name, by --as, or
    because its examples are divided in the same way.
    """
    from flatfed.cli.published.printing_claims import print_judged
    from flatfed.published.claims import claims as known
    from flatfed.studies.claimed.claim_judge import ClaimJudge
    from flatfed.studies.entering import recorded_study
    from flatfed.studies.folder import StudyFolder
    from flatfed.studies.run_study import RunningStudy

    chosen = known(paper, kind)
    running = RunningStudy(recorded_study(StudyFolder(folder)), folder)
    judge = ClaimJudge(running, _pairs(standing_for))
    judged = [judge.judge(claim) for claim in chosen]
    if as_json:
        echo(json.dumps([one.verdict.to_dict() for one in judged], indent=1))
        return 0
    print_judged(judged)
    return 0


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    """Return the study's setting for each of the claims' that one was given for."""
    pairs = {}
    for text in given:
        ours, sign, theirs = (part.strip() for part in text.rpartition("="))
        if not (ours and sign and theirs):
            raise ConfigError(f"--as must be OURS=THEIRS, such as 'one class=cifar10-0', not {text!r}")
        pairs[theirs] = ours
    return pairs
