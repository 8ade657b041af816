"""The summary: what was run, what came of the claims that were tested, and the same in short for the README."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flatfed.published.claims.judging import FAILS, HOLDS, UNDECIDED
from flatfed.published.numbers import papers
from flatfed.reports.tables.grid import markdown_table, rule
from flatfed.studies.evidence.claim_rows import claim_table
from flatfed.studies.evidence.joint_judge import NOT_CHECKED, NOT_RUN, PARTLY, PROVED, JudgedClaim, counted
from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.evidence.sections.picture_files import picture_name
from flatfed.studies.evidence.sections.setting_table import OPEN, short_table
from flatfed.studies.evidence.sections.study_section import SEEDS, is_drawn, progress
from flatfed.studies.reporting.study_runs import setting_name
from flatfed.studies.results import Entry

OUTCOMES = (HOLDS, PARTLY, FAILS, UNDECIDED, PROVED, NOT_CHECKED, NOT_RUN)
HEAD = """# Evidence

What five papers claim, held against runs of flatfed. Every number, picture and outcome here is made by `make
evidence` from the compact results in `studies/`, none is typed.

- No claim is said to hold on fewer than 3 seeds. A claim holds where the interval of every comparison lies on its
  side. It does not hold where that of one lies on the other side. All else is undecided.
- A claim speaks of several settings: in how many it was run is said, and it holds in part where that is not all. Within
  a setting a method that was not trained leaves it open. The comparisons of a rule in a setting, and all of a rule
  across settings, are made by the runs of one study: the one that has the most of them. Where another study decides
  one of them the other way, it is undecided, and that is said.
- Intervals over three seeds are short: two methods that are equal are distinguished in one case of four, and of many
  comparisons one may be decided by chance. [How claims are judged](../claims.md) says more.
- Parameters that are searched by a study are chosen on held-out training examples, never on the test set; what is not
  searched stands in the study's file, and where it comes from on its page. A value at the end of its grid is marked,
  and so is what diverged. A study that says too little of a claim, whatever its runs come to, does not judge it.
- Runs are smaller than the papers': each page says in what. That a claim does not hold here does not say that it
  did not hold there."""


def summary_page(studies: Sequence[PublishedStudy], judged: Sequence[JudgedClaim]) -> str:
    """Return the page."""
    parts = [HEAD, _pages(), "## Studies", _studies(studies), "## Claims", counts_text(judged), _counts(judged)]
    tested = [one for one in judged if one.is_tested]
    if tested:
        parts += ["## Claims that runs speak of", claim_table(tested)]
    parts += ["## Not run", _not_run(judged)]
    return "\n\n".join(parts) + "\n"


def _pages() -> str:
    named = ", ".join(f"[{name(paper)}]({paper}.md)" for paper in papers())
    return f"Pages: {named}; [which method when](choosing.md); [paper against authors' code](ledger.md)."


def name(paper: str) -> str:
    """Return the name of a paper's method as people write it."""
    return NAMES.get(paper, paper)


NAMES = {"fedsam": "FedSAM", "fedgf": "FedGF", "fedgloss": "FedGloSS", "fedwmsam": "FedWMSAM", "fedvssam": "FedVSSAM"}


def _studies(studies: Sequence[PublishedStudy]) -> str:
    lines = []
    for study in studies:
        about = ", ".join(map(name, study.about.differences)) or "authors' code"
        said = progress(study).removeprefix("**How far.** ")
        link = f"[{study.study.title or study.name}](../../studies/{study.name}/study.yaml)"
        lines.append(f"- {link} ({about}): {study.about.question} {said}")
    return "\n".join(lines) or "There is none yet."


def counts_text(judged: Sequence[JudgedClaim]) -> str:
    """Say how many claims were tested, and what came of them."""
    counts = counted(judged)
    tested = sum(one.is_tested for one in judged)
    return (
        f"Of {len(judged)} claims, {tested} were held against runs (holds: {counts[HOLDS]}, holds in what "
        f"was run of it: {counts[PARTLY]}, does not hold: {counts[FAILS]}, undecided: {counts[UNDECIDED]}). "
        f"Proved by tests, as identities or counts: {counts[PROVED]}. Not to be checked by runs: "
        f"{counts[NOT_CHECKED]}. Not run: {counts[NOT_RUN]}."
    )


def _counts(judged: Sequence[JudgedClaim]) -> str:
    rows = []
    for paper in dict.fromkeys(one.claim.paper for one in judged):
        own = [one for one in judged if one.claim.paper == paper]
        counts = counted(own)
        rows.append([name(paper), str(len(own)), *(str(counts[outcome]) for outcome in OUTCOMES)])
    heads = ["paper", "claims", *OUTCOMES]
    return markdown_table(heads, [rule(words=place == 0) for place in range(len(heads))], rows)


def _not_run(judged: Sequence[JudgedClaim]) -> str:
    lines = [f"- `{one.claim.id}`: {one.reason}" for one in judged if one.outcome == NOT_RUN]
    return "\n".join(lines) or "Nothing: every claim that a run can decide was held against one."


def readme_section(studies: Sequence[PublishedStudy], judged: Sequence[JudgedClaim]) -> str:
    """Return "What we found" for the README: a table and a picture; nothing where no comparison is complete.

    It shows the setting with the most methods whose seeds have all ended.
    """
    shown = max(_shown(studies), key=lambda pair: _count_ended(*pair), default=None)
    if shown is None:
        return ""
    study, setting = shown
    picture = f"docs/pictures/evidence/{picture_name(study, setting)}"
    table = short_table(study, setting)
    return "\n\n".join(
        [
            "## What we found",
            f"{counts_text(judged)} [The evidence](docs/evidence/README.md) has every number with its interval, and "
            "[which method when](docs/evidence/choosing.md). Runs are far smaller than the papers', in network and "
            "rounds: that a claim does not hold here does not say that it did not hold there.",
            f"{study.study.title or study.name} ({setting_name(setting)}): {study.about.question}",
            table,
            f"![Accuracy over rounds, bytes and compute]({picture})",
            " ".join(study.about.limits),
        ]
    )


def _shown(studies: Sequence[PublishedStudy]) -> Iterator[tuple[PublishedStudy, str]]:
    """Yield the settings in which at least two methods have all seeds, at least three."""
    for study in studies:
        for setting in study.study.settings if study.about.differences else ():
            whole = [entry for entry in _entries(study, setting) if entry.mean is not None]
            if len(whole) > 1 and len(study.study.seeds) >= SEEDS and is_drawn(study, setting):
                yield study, setting


def _entries(study: PublishedStudy, setting: str) -> list[Entry]:
    return [study.table.entry(setting, variant) for variant in study.study.methods]


def _count_ended(study: PublishedStudy, setting: str) -> int:
    """Return how many methods have no seed that is still to be trained."""
    return sum(OPEN.isdisjoint(entry.ended.values()) for entry in _entries(study, setting))
