"""The summary: what was run, what came of the claims that were tested, and the same in short for the README."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from flatfed.bootstrap import Interval
from flatfed.published.claims.judging import FAILS, HOLDS, UNDECIDED
from flatfed.published.numbers import papers
from flatfed.reports.tables.grid import markdown_table, rule
from flatfed.studies.evidence.claim_rows import CHANGED, aside_table, claim_notes, claim_table
from flatfed.studies.evidence.counted_words import counted_words
from flatfed.studies.evidence.joint_judge import (
    NOT_CHECKED,
    NOT_RUN,
    PARTLY,
    PROVED,
    SET_ASIDE,
    JudgedClaim,
    counted,
)
from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.evidence.sections.chance import chance_mark, chance_note, chance_of
from flatfed.studies.evidence.sections.curve_ends import ends_part
from flatfed.studies.evidence.sections.picture_files import picture_name
from flatfed.studies.evidence.sections.setting_table import OPEN, interval_words, setting_table, short_table
from flatfed.studies.evidence.sections.study_section import SEEDS, drawn_variants, is_drawn, progress
from flatfed.studies.reporting.comparison_text import signed
from flatfed.studies.reporting.study_runs import setting_name
from flatfed.studies.results import Entry

OUTCOMES = (HOLDS, PARTLY, FAILS, UNDECIDED, SET_ASIDE, PROVED, NOT_CHECKED, NOT_RUN)
HEAD = f"""# Evidence

What five papers claim, held against runs of flatfed. `make evidence` makes every number, picture and outcome here from
the compact results in `studies/`; none is typed.

- **No claim holds on fewer than {SEEDS} seeds.** A claim holds if the interval of every comparison lies wholly on its
  side. It does not hold if at least one interval lies wholly on the other side. Everything else is undecided.
- **With three seeds nothing is statistically significant.** The interval is the range of three differences. Between
  two methods that are equal, about one comparison in four comes out decided by chance, and a claim of many comparisons
  may fail by one of them: each row says how many there are. [How claims are judged](../claims.md) says more.
- **Parts of a claim.** A claim may speak of several settings; the row says how many were run, and it holds in part
  where that is not all. If a method was not trained in a setting that was run, the claim stays undecided there. All
  comparisons of a rule in one setting, or across settings, are made by one study: the one that has the most of them.
  Where another study decides one of them the other way, that comparison is undecided, and the row says so.
- **Choices.** Where a study searches parameters for each method, it chooses on held-out training examples. The other
  studies have one learning rate for all methods, and most pages say where it comes from; one rate was chosen by test
  accuracy, with a seed that is not reported, and several studies have it. A value at the end of its grid is marked,
  and so is what diverged or stayed at chance.
- **Changed afterwards.** {CHANGED} marks claims whose statement or rules were changed when runs had been seen; what was
  changed is [listed](#changed-when-runs-had-been-seen). Runs that say too little of a claim are set aside, and
  [what would have come of it](#run-and-set-aside) is listed as well.
- **Scale.** Runs are far smaller than the papers'; each page says in what. That a claim does not hold here does not say
  that it did not hold there, and that it holds is no reproduction."""
SUBJECTS = {
    "costs of a round": ("bytes_per_round", "backprops", "client_seconds"),
    "identities of methods": ("parameters",),
    "accuracy, and costs to a target": ("accuracy", "miou", "rounds_to_target", "bytes_to_target"),
}
"""What claims are about, by their metrics."""
NOTHING_ASIDE = "Nothing."
OTHER_SUBJECT = "sharpness, and what else is measured of models"


def summary_page(studies: Sequence[PublishedStudy], judged: Sequence[JudgedClaim]) -> str:
    """Return the page."""
    parts = [HEAD, _pages(), "## Studies", _studies(studies), "## Claims", counts_text(judged)]
    parts += [_by_paper(judged), _by_subject(judged)]
    parts += [part for study in studies if study.about.draws_printed for part in _at_paper_scale(study)]
    tested = [one for one in judged if one.is_tested]
    if tested:
        parts += ["## Claims that runs speak of", claim_table(tested), claim_notes()]
    parts += ["## Run and set aside", aside_table(judged) if any(one.aside for one in judged) else NOTHING_ASIDE]
    parts += ["## Changed when runs had been seen", _changed(judged), "## Not run", _not_run(judged)]
    return "\n\n".join(parts) + "\n"


def _pages() -> str:
    named = ", ".join(f"[{name(paper)}]({paper}.md)" for paper in papers())
    return f"Pages: {named}; [which method when](choosing.md); [paper against authors' code](ledger.md)."


def name(paper: str) -> str:
    """Return the name of a paper's method as people write it."""
    return NAMES.get(paper, paper)


NAMES = {
    "fedsam": "FedSAM",
    "fedgf": "FedGF",
    "fedgloss": "FedGloSS",
    "fedwmsam": "FedWMSAM",
    "fedvssam": "FedVSSAM",
    "between": "several papers",
}


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
        f"{counts[NOT_CHECKED]}. Run, but set aside: {counts[SET_ASIDE]}. Not run: {counts[NOT_RUN]}."
    )


def _at_paper_scale(study: PublishedStudy) -> Iterator[str]:
    """Yield what came of runs that are the papers' but shorter, beside what the papers print."""
    settings = [setting for setting in study.study.settings if is_drawn(study, setting)]
    if not settings:
        return
    yield f"## {study.study.title or study.name}"
    yield f"{study.about.question} {progress(study).removeprefix('**How far.** ')}"
    seeds = counted_words(len(study.study.seeds), "seed")
    for setting in settings:
        for paper in study.about.differences:
            yield f"### {setting_name(setting)}, {rounds_of(study, setting)} rounds, {seeds}, beside {name(paper)}"
            yield setting_table(study, setting, paper)
            yield from ends_part(study, setting, paper)
    yield " ".join([*study.about.limits, chance_note(study).strip()]).strip()


def rounds_of(study: PublishedStudy, setting: str) -> object:
    """Return the rounds of a setting's runs, which may be others than those of the study."""
    return {**study.study.options, **study.study.settings[setting]}.get("rounds")


def _by_paper(judged: Sequence[JudgedClaim]) -> str:
    papers_of = {name(one.claim.paper): one.claim.paper for one in judged}
    return _counts(
        "paper", {title: [one for one in judged if one.claim.paper == of] for title, of in papers_of.items()}
    )


def _by_subject(judged: Sequence[JudgedClaim]) -> str:
    groups: dict[str, list[JudgedClaim]] = {subject: [] for subject in (*SUBJECTS, OTHER_SUBJECT)}
    for one in judged:
        groups[_subject(one.claim.metric)].append(one)
    return _counts("about", groups)


def _subject(metric: str) -> str:
    return next((subject for subject, metrics in SUBJECTS.items() if metric in metrics), OTHER_SUBJECT)


def _counts(head: str, groups: Mapping[str, Sequence[JudgedClaim]]) -> str:
    """Return the table of how many claims of each group have which outcome."""
    rows = []
    for title, own in groups.items():
        counts = counted(own)
        rows.append([title, str(len(own)), *(str(counts[outcome]) for outcome in OUTCOMES)])
    heads = [head, "claims", *OUTCOMES]
    return markdown_table(heads, [rule(words=place == 0) for place in range(len(heads))], rows)


def _changed(judged: Sequence[JudgedClaim]) -> str:
    return "\n".join(f"- `{one.claim.id}`: {one.claim.changed}" for one in judged if one.claim.changed)


def _not_run(judged: Sequence[JudgedClaim]) -> str:
    lines = [f"- `{one.claim.id}`: {one.reason}" for one in judged if one.outcome == NOT_RUN]
    return "\n".join(lines) or "Nothing."


def readme_section(studies: Sequence[PublishedStudy], judged: Sequence[JudgedClaim]) -> str:
    """Return "What we found" for the README: a table and a picture; nothing where no comparison is complete.

    It shows the setting with the most methods whose seeds have all ended.
    """
    shown = max(_shown(studies), key=lambda pair: _count_ended(*pair), default=None)
    if shown is None:
        return ""
    study, setting = shown
    variants = drawn_variants(study, setting)
    picture = f"docs/pictures/evidence/{picture_name(study, setting)}"
    parts = [
        "## What we found",
        f"{counts_text(judged)} [The evidence](docs/evidence/README.md) has every number with its interval, and "
        "[which method when](docs/evidence/choosing.md). Runs are far smaller than the papers', in network and "
        "rounds: that a claim does not hold here does not say that it did not hold there.",
        f"**{study.study.title or study.name}.** {study.about.question}",
        _beside_reference(study, setting),
        short_table(study, setting, variants),
        _caption(study, setting, variants),
        f"![Accuracy over rounds, bytes and compute]({picture})",
    ]
    return "\n\n".join(filter(None, parts))


def _beside_reference(study: PublishedStudy, setting: str) -> str:
    """Name the methods that are above the reference, those below, and those that are neither, by how much.

    Only those are compared whose seeds have all ended, none of them diverged. Nothing where there is none.
    """
    reference, metric = study.statistics.reference, study.table.metrics[setting]
    if study.table.entry(setting, reference).mean is None:
        return ""
    groups: dict[str, list[tuple[float, str]]] = {"above zero": [], "below zero": [], "neither": []}
    for one in study.statistics.compared:
        entry = study.table.entry(one.setting, one.method)
        if one.setting != setting or one.mean is None or entry.mean is None:
            continue
        points = metric.scale * one.mean
        text = f"`{one.method}` {signed(points, 2)}{chance_mark(study, entry)}"
        groups[_side(one.interval)].append((points, text))
    said = [f"{side}: {', '.join(text for _, text in sorted(of, reverse=True))}" for side, of in groups.items() if of]
    if not said:
        return ""
    return (
        f"Accuracy minus that of `{reference}`, in points, where the whole interval is {'; '.join(said)}. "
        f"Of two methods that are equal, one pair in four is decided by chance with three seeds.{chance_note(study)}"
    )


def _side(interval: Interval | None) -> str:
    if interval is None:
        return "neither"
    if interval.low > 0:
        return "above zero"
    if interval.high < 0:
        return "below zero"
    return "neither"


def _caption(study: PublishedStudy, setting: str, variants: Sequence[str]) -> str:
    """Say what stands in the short table, and where the rest is."""
    chance = chance_of(study, setting)
    guessing = "" if chance is None else f" Guessing has {100 * chance:g} %."
    sharpness = " λmax is the largest eigenvalue of the Hessian of the training loss." if study.flatness else ""
    pages = ", ".join(f"[{name(paper)}](docs/evidence/{paper}.md)" for paper in study.about.differences)
    return (
        f"Network {study.study.options.get('model')}, {rounds_of(study, setting)} rounds, {len(study.study.seeds)} "
        f"seeds: mean ± standard deviation; behind differences by seed {interval_words(study)}.{guessing}{sharpness} "
        f"{len(variants)} of {len(study.study.methods)} methods and forms are shown; all of them, and what these runs "
        f"cannot say, stand on the pages of {pages}."
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
