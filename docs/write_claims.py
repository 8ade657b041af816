"""Write the table of all claims, with what the papers' own numbers say of them, into docs/claims.md."""

from pathlib import Path

from written_part import WrittenPart

from flatfed.published.claims import claims
from flatfed.published.claims.claim import Claim
from flatfed.published.claims.printed import judge_printed, printed_numbers

PAGE = Path(__file__).parent / "claims.md"


def printed(claim: Claim) -> str:
    """Return in a word what decides a claim without a run of one's own."""
    if claim.not_checked:
        return f"not checked: {claim.not_checked}"
    if claim.rules and printed_numbers(claim):
        return judge_printed(claim).outcome
    if claim.tests:
        return "proved by a test"
    return "not in a table"


def table() -> str:
    """Return the table."""
    rows = [
        f"| `{claim.id}` | {claim.kind} | `{claim.metric}` | {claim.statement} | {claim.where} | {printed(claim)} |"
        for claim in claims()
    ]
    return "\n".join(
        ["| claim | kind | metric | statement | where | printed numbers |", "|---|---|---|---|---|---|", *rows]
    )


PART = WrittenPart(PAGE, "claims", "docs/write_claims.py", table)

if __name__ == "__main__":
    PART.main()
