"""The ledger: where a paper and code for it differ, whose each form is, and what both come to on one setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from flatfed.reports.statistics.paired import PairedDifference, SeedValues, compare_with_reference
from flatfed.reports.tables.grid import NOTHING, markdown_table, rule
from flatfed.reports.tables.pivot import DIVERGED, escape_markdown
from flatfed.studies.evidence.about import FormPair
from flatfed.studies.evidence.counted_words import counted_words
from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.evidence.sections.chance import chance_note, seeds_at_chance
from flatfed.studies.evidence.sections.setting_table import (
    OPEN,
    interval_text,
    interval_words,
    measured_text,
    value_text,
)
from flatfed.studies.evidence.sections.study_section import SEEDS, progress, study_setting
from flatfed.studies.reporting.study_runs import setting_name
from flatfed.studies.results import Entry

HEAD = """# Paper against authors' code

A paper and the code of its authors may differ. For many such differences flatfed has both forms by name. The tables of
this page have pairs of forms, trained alike but for one difference. After them come all differences that the pages of
the [methods](../algorithms/README.md) name.

Each row changes what its second column names. In what else the paper and the code of a method differ, the two sides of
a row are alike. So one run may be the paper side in one row and the code side in another.

Two columns say whose each side is. A paper side is the text of a paper, or our reading where no text has it. A code
side is code of the method's own authors, or of other authors who used the method as a baseline. *Second-hand* is a
paper that we know from what others write of it, not from its own text."""
LEARNED, LOST, WAITING = "Both sides learn", "A side does not learn or diverges", "Not complete"
LEADS = {
    LEARNED: "The largest difference comes first.",
    LOST: "The size of such a difference says nothing, so words stand there instead.",
    WAITING: f"A side does not have its {SEEDS} seeds yet, or its runs failed.",
}
EFFECTS = {LEARNED: "code minus paper", LOST: "what happens here", WAITING: "code minus paper"}
WORDS = ("method", "what differs", "paper side", "code side", EFFECTS[LOST])
"""Columns of text; all others have numbers."""


@dataclass(frozen=True)
class MeasuredPair:
    """What the two sides of a pair came to in one setting.

    Attributes:
        pair: which.
        paper: the runs of the paper side.
        code: the runs of the code side.
        difference: the code side minus the paper side, seed by seed.
        lost: in words which side does not learn or diverges, and in how many seeds; empty where both learn.
    """

    pair: FormPair
    paper: Entry
    code: Entry
    difference: PairedDifference
    lost: str

    @property
    def group(self) -> str:
        """The table that it stands in."""
        if not _is_known(self.paper) or not _is_known(self.code):
            return WAITING
        if self.lost:
            return LOST
        return WAITING if self.difference.mean is None else LEARNED

    @property
    def size(self) -> float:
        """How large the measured difference is; less than any where none is measured."""
        return -1.0 if self.lost or self.difference.mean is None else abs(self.difference.mean)

    @property
    def has_one_sign(self) -> bool:
        """Whether the interval of the difference lies on one side of zero."""
        interval = self.difference.interval
        return interval is not None and interval.low * interval.high > 0


def ledger_page(studies: Sequence[PublishedStudy], differences: str) -> str:
    """Return the page of all studies that have pairs, and of all differences that pages name."""
    parts = [HEAD]
    for study in studies:
        if study.about.pairs:
            parts += _of_study(study)
    if differences:
        parts += ["## All differences that the pages name", differences]
    return "\n\n".join(filter(None, parts)) + "\n"


def tabled_points(studies: Sequence[PublishedStudy]) -> Mapping[str, Sequence[str]]:
    """Return how the points begin that pairs are about, by the page that has them."""
    points: dict[str, list[str]] = {}
    for study in studies:
        for pair in study.about.pairs:
            points.setdefault(pair.page, []).extend(pair.points)
    return points


def _of_study(study: PublishedStudy) -> Iterator[str]:
    yield f"## {study.study.title or study.name}"
    yield study.about.question
    yield study_setting(study)
    yield " ".join(study.about.limits)
    yield progress(study)
    for setting in study.study.settings:
        yield f"### {escape_markdown(setting_name(setting))}"
        yield from _of_setting(study, setting)
    yield _notes(study)
    command = f"flatfed study run studies/{study.name}/study.yaml --out runs/{study.name}"
    yield f"`{command}` trains any of these again, to the same bits on the same versions."


def _of_setting(study: PublishedStudy, setting: str) -> Iterator[str]:
    """Yield a summary and a table for each group of pairs, each sorted by the size of the difference."""
    measured = [_measured(study, setting, pair) for pair in study.about.pairs]
    measured.sort(key=lambda one: one.size, reverse=True)
    yield _counted(measured)
    for group, lead in LEADS.items():
        inside = [one for one in measured if one.group == group]
        if inside:
            yield f"**{group}.** {lead}"
            yield _table(study, setting, EFFECTS[group], inside)


def _measured(study: PublishedStudy, setting: str, pair: FormPair) -> MeasuredPair:
    paper, code = (study.table.entry(setting, variant) for variant in (pair.paper, pair.code))
    samples = {(setting, entry.variant): SeedValues(entry.values, entry.ended) for entry in (paper, code)}
    (difference,) = compare_with_reference(samples, pair.paper)
    sides = {"paper side": paper, "code side": code}
    said = [_lost(study, entry, side) for side, entry in sides.items()]
    return MeasuredPair(pair, paper, code, difference, "; ".join(filter(None, said)))


def _lost(study: PublishedStudy, entry: Entry, side: str) -> str:
    """Say that a side diverges or is at chance, and in how many seeds; nothing where it learns."""
    total = len(entry.values) + len(entry.ended)
    diverged = sum(state == "diverged" for state in entry.ended.values())
    if diverged:
        return f"the {side} diverges in {diverged} of {total} seeds"
    still = len(seeds_at_chance(study, entry))
    if still:
        return f"the {side} does not learn in {still} of {total} seeds"
    return ""


def _table(study: PublishedStudy, setting: str, effect: str, measured: Sequence[MeasuredPair]) -> str:
    metric = study.table.metrics.get(setting)
    value = "accuracy in %" if metric is None else metric.title
    heads = ["method", "what differs", "paper side", "code side", effect]
    heads += [f"{what}, {side} side" for what in (value, "λmax") for side in ("paper", "code")]
    rows = [_row(study, setting, one) for one in measured]
    return markdown_table(heads, [rule(words=head in WORDS) for head in heads], rows)


def _row(study: PublishedStudy, setting: str, one: MeasuredPair) -> list[str]:
    pair, sides = one.pair, (one.paper, one.code)
    return [
        f"[{pair.method}](../algorithms/{pair.page}.md)",
        *(text.replace("|", "\\|") for text in (pair.differs, pair.paper_side, pair.code_side)),
        one.lost or interval_text(study, one.difference, pair.paper),
        *(value_text(study, entry).replace("**", "") for entry in sides),
        *(_lambda(study, setting, entry.variant) for entry in sides),
    ]


def _lambda(study: PublishedStudy, setting: str, variant: str) -> str:
    for block in study.flatness:
        if block.number.partition(",")[0] == "lambda_max":
            return measured_text(study, setting, variant, block)
    return NOTHING


def _counted(measured: Sequence[MeasuredPair]) -> str:
    """Say of how many pairs the effect is known, and why it is not known of the others."""
    groups = [one.group for one in measured]
    sure = sum(one.group == LEARNED and one.has_one_sign for one in measured)
    return (
        f"{counted_words(len(measured), 'pair')}. Both sides learn in {groups.count(LEARNED)} of them, and in {sure} "
        f"of these the brackets lie on one side of zero. A side does not learn or diverges in {groups.count(LOST)}. "
        f"Not complete: {groups.count(WAITING)}."
    )


def _notes(study: PublishedStudy) -> str:
    return (
        f"Mean ± standard deviation over seeds {', '.join(map(str, study.study.seeds))}. Differences are by seed, in "
        f"percentage points, with {interval_words(study)} in brackets, and with the number of pairs of seeds where not "
        f"all seeds have both. {DIVERGED} diverged; {NOTHING} not run yet, not measured, or a side diverged."
        f"{chance_note(study)}"
    )


def _is_known(entry: Entry) -> bool:
    """Say whether all runs of a side have ended, and enough of them."""
    return OPEN.isdisjoint(entry.ended.values()) and len(entry.values) + len(entry.ended) >= SEEDS
