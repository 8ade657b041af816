"""Write the table of all claims, with what the papers' own numbers say of them, into docs/claims.md."""

import sys
from pathlib import Path

from flatfed.published.claims import claims
from flatfed.published.claims.claim import Claim
from flatfed.published.claims.printed import judge_printed, printed_numbers

PAGE = Path(__file__).parent / "claims.md"
BEGIN, END = "<!-- claims: made by docs/write_claims.py -->\n", "<!-- end of claims -->"


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


def with_table(text: str) -> str:
    """Return the page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    now = PAGE.read_text(encoding="utf-8")
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if with_table(now) == now else "the table is out of date; run docs/write_claims.py")
    PAGE.write_text(with_table(now), encoding="utf-8")
