"""Tables of claims and of verdicts, as wide as the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flatfed.cli.output.results import print_notes
from flatfed.cli.output.streams import echo
from flatfed.cli.published.printing import print_cells
from flatfed.published.claims.claim import KINDS, METRICS, Claim
from flatfed.published.claims.claim_file import settings
from flatfed.published.claims.judging import Verdict
from flatfed.published.numbers import papers

if TYPE_CHECKING:
    from flatfed.studies.claimed.claim_judge import Judged

NO_CLAIM = "no claim for this choice"


def print_claims(chosen: Sequence[Claim]) -> None:
    """Print the claims, a line each."""
    if not chosen:
        echo(NO_CLAIM)
        return
    rows = [
        {"claim": claim.id, "kind": claim.kind, "metric": claim.metric, "statement": claim.statement}
        for claim in chosen
    ]
    print_cells(list(rows[0]), rows)
    echo(f"{len(chosen)} claims; more of one: flatfed claims show {chosen[0].id}")


def print_claim(claim: Claim, printed: Verdict) -> None:
    """Print one claim with everything that is known of it."""
    print_notes(_about(claim))
    if claim.rules:
        print_notes(["In the paper's own numbers: " + printed.sentence])
        print_notes(f"- {comparison.sentence}" for comparison in printed.comparisons)


def _about(claim: Claim) -> list[str]:
    paper = papers().get(claim.paper)
    lines = [
        f"{claim.id}: {claim.statement}",
        f"paper: {paper.reference if paper else 'several'}; {claim.where}",
        f"kind: {claim.kind}, {KINDS[claim.kind]}",
        f"metric: {claim.metric}, {METRICS[claim.metric]}",
        f"methods: {', '.join(claim.methods)}",
    ]
    parts = {
        "tables": ", ".join(claim.tables),
        "studies that judge it": ", ".join(claim.studies),
        "proved by": ", ".join(claim.tests),
        "not checked": claim.not_checked,
        "not said by the rules": claim.left_out,
        "our reading": claim.our_reading,
        "against it": claim.against,
        "changed after runs were seen": claim.changed,
    }
    lines += [f"{name}: {text}" for name, text in parts.items() if text]
    named = [(name, settings()[name].words or "anything") for name in claim.every_setting]
    return lines + [f"setting {name}: {words}" for name, words in named]


def print_judged(judged: Sequence[Judged]) -> None:
    """Print the verdicts on the claims that a study says something about, and count the others."""
    touched = [one for one in judged if one.touched]
    if touched:
        rows = [
            {
                "claim": one.claim.id,
                "outcome": one.verdict.outcome,
                "metric": one.claim.metric,
                "why": _why(one.verdict),
            }
            for one in touched
        ]
        print_cells(list(rows[0]), rows)
    else:
        echo("the study says nothing about these claims")
    counted = Counter(one.verdict.outcome for one in touched)
    words = ", ".join(f"{count} {outcome}" for outcome, count in counted.items())
    others = len(judged) - len(touched)
    print_notes([f"{words or 'none judged'}; {others} others are undecided, for the study has not what they are about"])


def _why(verdict: Verdict) -> str:
    return verdict.sentence.partition(": ")[2]
