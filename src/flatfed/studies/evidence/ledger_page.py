"""The ledger: where a paper and its authors' code differ, what either form comes to on one setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flatfed.reports.statistics.paired import SeedValues, compare_with_reference
from flatfed.reports.tables.grid import NOTHING, markdown_table, rule
from flatfed.reports.tables.pivot import escape_markdown
from flatfed.studies.evidence.about import FormPair
from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.evidence.sections.chance import chance_mark, chance_note
from flatfed.studies.evidence.sections.setting_table import (
    OPEN,
    interval_text,
    interval_words,
    measured_text,
    value_text,
)
from flatfed.studies.evidence.sections.study_section import SEEDS, progress
from flatfed.studies.reporting.study_runs import setting_name

HEAD = """# Paper against authors' code

Where the text of a paper and the code of its authors differ, flatfed has both forms by name. This page has differences
with their measured effect where both forms were trained: in one setting, with the papers' values but for the learning
rate, nothing searched. The pages of the [methods](../algorithms/README.md) tell each difference in full.

Each row changes what its second column names. In what else the paper and the code of a method differ, the two forms of
a row are alike. So one run may be the paper's form in one row and the code's form in another."""
HEADS = [
    "method",
    "difference",
    "paper's form",
    "code's form",
    "code minus paper",
    "λmax, paper",
    "λmax, code",
]
UNMEASURED = (
    "Measured are those above. Of the others some have no switch here, some concern data or participation, and some "
    "have no effect where clients have equally many examples; how much they matter is not known."
)
WORDS = 2


def ledger_page(studies: Sequence[PublishedStudy], differences: str) -> str:
    """Return the page of all studies that have pairs, and of all differences that pages name."""
    parts = [HEAD]
    for study in studies:
        if study.about.pairs:
            parts += _of_study(study)
    if differences:
        parts += ["## All differences that the pages name", UNMEASURED, differences]
    return "\n\n".join(parts) + "\n"


def _of_study(study: PublishedStudy) -> Iterator[str]:
    yield f"## {study.study.title or study.name}"
    yield study.about.question
    yield progress(study)
    for setting in study.study.settings:
        rows = [_row(study, setting, pair) for pair in study.about.pairs]
        yield f"### {escape_markdown(setting_name(setting))}"
        yield markdown_table(HEADS, [rule(words=place < WORDS) for place in range(len(HEADS))], rows)
        yield _counted(study, setting)
    yield (
        f"Mean ± standard deviation over seeds {', '.join(map(str, study.study.seeds))}; differences by seed in "
        f"percentage points, with {interval_words(study)}, and with the number of pairs where not all seeds have "
        "both; ✗ diverged; "
        f"{NOTHING} not run yet, or a form diverged.{chance_note(study)}"
    )
    yield " ".join(study.about.limits)
    command = f"flatfed study run studies/{study.name}/study.yaml --out runs/{study.name}"
    yield f"`{command}` trains any of these again, to the same bits on the same versions."


def _row(study: PublishedStudy, setting: str, pair: FormPair) -> list[str]:
    forms = [study.table.entry(setting, variant) for variant in (pair.paper, pair.code)]
    return [
        f"[{pair.method}](../algorithms/{pair.page}.md)",
        pair.differs.replace("|", "\\|"),
        *(value_text(study, form).replace("**", "") for form in forms),
        _difference(study, setting, pair),
        *(_lambda(study, setting, variant) for variant in (pair.paper, pair.code)),
    ]


def _difference(study: PublishedStudy, setting: str, pair: FormPair) -> str:
    """Return the code's form minus the paper's, with interval and pairs; nothing where a seed of either diverged."""
    entries = {variant: study.table.entry(setting, variant) for variant in (pair.paper, pair.code)}
    samples = {(setting, name): SeedValues(entry.values, entry.ended) for name, entry in entries.items()}
    (one,) = compare_with_reference(samples, pair.paper)
    return interval_text(study, one, pair.paper)


def _lambda(study: PublishedStudy, setting: str, variant: str) -> str:
    for block in study.flatness:
        if block.number.partition(",")[0] == "lambda_max":
            return measured_text(study, setting, variant, block)
    return NOTHING


def _counted(study: PublishedStudy, setting: str) -> str:
    """Say of how many pairs the effect is known, and in how many of these it is a difference."""
    pairs = study.about.pairs
    known = [pair for pair in pairs if all(_is_known(study, setting, name) for name in (pair.paper, pair.code))]
    measured = [pair for pair in known if _difference(study, setting, pair) != NOTHING]
    lost = [pair for pair in measured if any(_is_at_chance(study, setting, name) for name in (pair.paper, pair.code))]
    at_chance = f"; in {len(lost)} of these a seed of one form or the other stayed at chance" if lost else ""
    return (
        f"Both forms have all of their at least {SEEDS} seeds in {len(known)} of {len(pairs)} pairs, and none of them "
        f"diverged in {len(measured)}{at_chance}."
    )


def _is_at_chance(study: PublishedStudy, setting: str, variant: str) -> bool:
    return bool(chance_mark(study, study.table.entry(setting, variant)))


def _is_known(study: PublishedStudy, setting: str, variant: str) -> bool:
    entry = study.table.entry(setting, variant)
    return OPEN.isdisjoint(entry.ended.values()) and len(entry.values) + len(entry.ended) >= SEEDS
