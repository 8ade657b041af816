"""Claims on a page: a row for each with its outcome, its interval, and what was printed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from flatfed.published.claims.claim import BETWEEN, Claim
from flatfed.published.claims.judging import FAILS, HOLDS, UNDECIDED, deciding
from flatfed.published.claims.printed import judge_printed, printed_numbers
from flatfed.reports.tables.grid import NOTHING, markdown_table
from flatfed.studies.claimed.alike_settings import FREE
from flatfed.studies.evidence.joint_judge import PARTLY, JudgedClaim

ASIDE_HEADS = ["claim", "statement", "study", "why it does not count", "what would have come of it"]
HEADS = ["claim", "statement", "outcome", "by what", "printed numbers"]
SHORT_HEADS = ["claim", "statement", "outcome", "comparison that decides", "studies"]
SIGNS = {HOLDS: "**holds**", FAILS: "**does not hold**", UNDECIDED: "undecided"}
COMES_TO = {HOLDS: "holds", PARTLY: "holds in part", FAILS: "does not hold", UNDECIDED: "is undecided"}
CHANGED = "†"
"""Stands at a claim whose statement or rules were changed after runs had been seen."""


def claim_table(judged: Sequence[JudgedClaim]) -> str:
    """Return the table of some claims as Markdown."""
    return _table(HEADS, [_row(one) for one in judged])


def short_claim_table(judged: Sequence[JudgedClaim]) -> str:
    """Return the same in short: what came of each claim, with the interval that decided it, and where more stands."""
    return _table(SHORT_HEADS, [_short_row(one) for one in judged])


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [[" ".join(text.split()).replace("|", "\\|") for text in row] for row in rows]
    return markdown_table(heads, [":--"] * len(heads), cells)


def _row(one: JudgedClaim) -> list[str]:
    said = [_measured_by(one), _not_judged(one.claim), _our_reading(one.claim), *_aside(one), _with_chance(one)]
    reason = "; ".join(filter(None, said))
    return [f"`{one.claim.id}`", one.claim.statement, outcome_text(one), reason, printed_outcome(one)]


def _short_row(one: JudgedClaim) -> list[str]:
    page = "" if one.claim.paper == BETWEEN else f"{one.claim.paper}.md#claims"
    claim = f"[`{one.claim.id}`]({page})" if page else f"`{one.claim.id}`"
    return [claim, one.claim.statement, outcome_text(one), _interval(one), ", ".join(one.studies)]


def _interval(one: JudgedClaim) -> str:
    """Return the comparison that decided a claim with its interval, or why there is none."""
    if not one.verdict.comparisons:
        return NOTHING
    shown = deciding(one.verdict.outcome, one.verdict.comparisons)
    return f"{shown.statement}: {shown.interval_text or shown.numbers or shown.reason or NOTHING}"


def _measured_by(one: JudgedClaim) -> str:
    """Return what decided a claim, behind what was measured for it."""
    if not one.is_tested:
        return one.reason
    return f"{METRIC_WORDS.get(one.claim.metric, one.claim.metric.replace('_', ' '))}: {one.reason}"


METRIC_WORDS = {
    "accuracy": "accuracy in %",
    "miou": "mean IoU in %",
    "lambda_max": "λmax",
    "lambda_ratio": "λmax/λ5",
    "lpf": "LPF",
    "backprops": "passes per round",
    "c": "the weight c",
}
"""Metrics whose names alone say too little."""


def comparisons_part(judged: Sequence[JudgedClaim]) -> str:
    """Return every comparison of some claims, to be unfolded: each can be checked."""
    lines = [line for one in judged if one.is_tested for line in _comparisons(one)]
    if not lines:
        return ""
    listed = "\n".join(lines)
    return f"<details>\n<summary>Every comparison of these claims</summary>\n\n{listed}\n\n</details>"


def _comparisons(one: JudgedClaim) -> Iterator[str]:
    yield f"- `{one.claim.id}`"
    for compared in one.verdict.comparisons:
        yield f"  - {compared.sentence}"


def _not_judged(claim: Claim) -> str:
    """Say what of a claim's statement is not judged, as the end of a sentence; nothing where all of it is."""
    return f"not judged: {_small(claim.left_out.rstrip('.'))}" if claim.left_out else ""


def _our_reading(claim: Claim) -> str:
    return f"our reading: {_small(claim.our_reading.rstrip('.'))}" if claim.our_reading else ""


def _with_chance(one: JudgedClaim) -> str:
    """Say what would have come of a claim on sharpness if models at chance counted."""
    return f"with models at chance it {COMES_TO[one.with_chance]}" if one.with_chance in COMES_TO else ""


def _aside(one: JudgedClaim) -> Iterator[str]:
    """Say what studies would say of a claim that is judged without them."""
    if one.is_tested:
        for study in one.aside:
            yield f"set aside: {study.study}, where it {COMES_TO[study.outcome]}"


def _small(sentence: str) -> str:
    """Return a sentence with a small first letter, unless it begins with a name such as SAM or FedSAM."""
    word = sentence.partition(" ")[0]
    return sentence if word != word.capitalize() else sentence[:1].lower() + sentence[1:]


def claim_notes(page: str = "") -> str:
    """Say what the mark in a table of claims means, and where more stands: on a page that is linked, or this one."""
    return (
        f"{CHANGED} Its statement or its rules were changed after runs had been seen: "
        f"[what was changed]({page}#changed-after-runs-had-been-seen). What would have come of claims that were set "
        f"aside is [listed]({page}#run-and-set-aside) too."
    )


def outcome_text(one: JudgedClaim) -> str:
    """Return what came of a claim in a word, marked where its rules were changed after runs had been seen."""
    text = SIGNS.get(one.outcome, one.outcome)
    return f"{text} {CHANGED}" if one.claim.changed else text


def aside_table(judged: Sequence[JudgedClaim]) -> str:
    """Return the studies that were set aside for a claim, with what would have come of it and why they do not count."""
    rows = [
        [f"`{one.claim.id}`", one.claim.statement, study.study, study.reason, f"{study.outcome}; {study.sentence}"]
        for one in judged
        for study in one.aside
    ]
    return _table(ASIDE_HEADS, rows)


def printed_outcome(one: JudgedClaim) -> str:
    """Return what the paper's own numbers say of a claim, and some of a setting that was run, if there are any."""
    numbers = printed_numbers(one.claim) if one.claim.rules else {}
    if not numbers:
        return NOTHING
    printed = list(dict.fromkeys(setting for setting, _ in numbers))
    setting = next((name for name in one.settings if name in printed), printed[0])
    own = [f"{method} {_number(value)}" for (name, method), (value, _) in numbers.items() if name == setting]
    more = ", …" if len(numbers) > len(own[:SHOWN]) else ""
    where = "" if setting in FREE else f" {setting}:"
    against = f"; printed against it: {one.claim.against.rstrip('.')}" if one.claim.against else ""
    return f"{judge_printed(one.claim).outcome};{where} {', '.join(own[:SHOWN])}{more}{against}"


SHOWN = 3
"""Numbers of a claim that stand in its row."""


def _number(value: float) -> str:
    if math.isnan(value):
        return "failed"
    return "not reached" if math.isinf(value) else f"{value:g}"
