"""The summary: what was run, what came of the claims that were tested, and the same in short for the README."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from flatfed.published.claims.claim import BETWEEN
from flatfed.published.claims.judging import FAILS, HOLDS, UNDECIDED
from flatfed.published.numbers import papers
from flatfed.reports.statistics.paired import SeedValues, compare_with_reference
from flatfed.reports.tables.grid import markdown_table, rule
from flatfed.studies.evidence.about import AddedPart
from flatfed.studies.evidence.choosing_advice import COUNTED, answers
from flatfed.studies.evidence.claim_rows import CHANGED, aside_table, claim_notes, claim_table, short_claim_table
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
from flatfed.studies.evidence.sections.chance import chance_note, chance_of
from flatfed.studies.evidence.sections.curve_ends import ends_part
from flatfed.studies.evidence.sections.picture_files import picture_name
from flatfed.studies.evidence.sections.setting_table import (
    OPEN,
    interval_text,
    interval_words,
    is_best,
    setting_table,
    short_table,
)
from flatfed.studies.evidence.sections.study_section import SEEDS, drawn_variants, is_drawn, progress
from flatfed.studies.reporting.study_runs import setting_name
from flatfed.studies.results import Entry

OUTCOMES = (HOLDS, PARTLY, FAILS, UNDECIDED, SET_ASIDE, PROVED, NOT_CHECKED, NOT_RUN)
HEAD = f"""# Evidence

What five papers claim, compared with runs of flatfed. `make evidence` makes every number, picture and outcome here from
the compact results in `studies/`; none is typed.

- **No claim holds on fewer than {SEEDS} seeds.** A claim holds if the interval of every comparison lies wholly on its
  side. It does not hold if at least one interval lies wholly on the other side. Everything else is undecided.
- **With three seeds nothing is statistically significant.** The interval is the range of three differences. Between
  two methods that are equal, about one comparison in four comes out decided by chance, one in eight against the claim.
  A claim of k independent comparisons between equal methods fails by chance in 1 - (7/8)^k of cases: 41 % for four,
  80 % for twelve. [How claims are judged](../claims.md) says more.
- **Parts of a claim.** A claim may speak of several settings. The row says how many were run, and it holds in part
  where that is not all. If a method was not trained in a setting that was run, the claim stays undecided there. All
  comparisons of a rule in one setting, or across settings, are made by one study: the one that has the most of them.
  Where another study decides one of them the other way, that comparison is undecided, and the row says so.
- **Models at chance.** How sharp the loss is at a model that has learned nothing says nothing of its method. Such a
  number decides no comparison. This rule came after the runs; a row says what would have come of its claim without it.
- **Changed afterwards.** {CHANGED} marks claims whose statement or rules were changed after runs had been seen; what
  was changed is [listed](#changed-after-runs-had-been-seen). Runs that say too little of a claim are set aside, and
  [what would have come of it](#run-and-set-aside) is listed as well.
- **Scale.** Runs are far smaller than the papers'; each page says in what. That a claim does not hold here does not say
  that it did not hold there, and that it holds is no reproduction."""
SUBJECTS = {
    "costs of a round": ("bytes_per_round", "backprops", "client_seconds"),
    "identities of methods": ("parameters",),
    "accuracy, and costs to a target": ("accuracy", "miou", "rounds_to_target", "bytes_to_target"),
}
"""What claims are about, by their metrics."""
NOISY_SEARCH = " One seed chose, so methods that are a few points apart may owe that to the search."
NOTHING_ASIDE = "Nothing."
OTHER_SUBJECT = "sharpness, and what else is measured of models"


def summary_page(
    studies: Sequence[PublishedStudy], judged: Sequence[JudgedClaim], cannot_run: Mapping[str, str]
) -> str:
    """Return the page.

    Args:
        studies: all of them.
        judged: every claim.
        cannot_run: claims that cannot be run here, each with the reason.
    """
    parts = [HEAD, _choices(studies), _pages(), "## Which method when", _answers(studies)]
    parts += ["## Claims", counts_text(judged), _close_calls(judged), _by_paper(judged), _by_subject(judged)]
    parts += _tested(judged)
    parts += ["## Run and set aside", aside_table(judged) if any(one.aside for one in judged) else NOTHING_ASIDE]
    parts += ["## Changed after runs had been seen", _changed(judged)]
    parts += ["## Not run", *_not_run(judged, cannot_run), "## Not by runs", _not_by_runs(judged)]
    parts += [part for study in studies if study.about.draws_printed for part in _at_paper_scale(study)]
    parts += ["## Studies", _studies(studies)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _choices(studies: Sequence[PublishedStudy]) -> str:
    """Say how learning rates and parameters were chosen, study by study."""
    searched = [study.name for study in studies if any(map(study.study.is_searched, study.study.methods))]
    by_test = [study.name for study in studies if study.about.rate_by_test]
    parts = [
        "- **Choices.** All studies but those named next have one learning rate for all methods, and values that were "
        "set before; their pages say where these come from."
    ]
    if searched:
        parts.append(f"Searched for every method, on held-out training examples: {_listed(searched)}.")
    if by_test:
        parts.append(
            f"In {_listed(by_test)}, in all or some settings, the learning rate was chosen by the test accuracy of a "
            "few other runs, with a seed that is not reported; nothing else was."
        )
    parts.append("A value at the end of its grid is marked, and so is what diverged or stayed at chance.")
    return " ".join(parts)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _answers(studies: Sequence[PublishedStudy]) -> str:
    lines = "\n".join(f"- {answer}" for answer in answers(studies))
    return f"{lines}\n\n{COUNTED} With the numbers behind it: [which method when](choosing.md)."


def _tested(judged: Sequence[JudgedClaim]) -> Iterator[str]:
    """Yield what came of the claims that runs speak of; those of several papers have no other page."""
    tested = [one for one in judged if one.is_tested]
    of_papers = [one for one in tested if one.claim.paper != BETWEEN]
    others = [one for one in tested if one.claim.paper == BETWEEN]
    if tested:
        yield "## Claims that runs speak of"
        yield short_claim_table(of_papers)
        yield claim_notes()
    if others:
        yield "### About several papers"
        yield claim_table(others)


def _close_calls(judged: Sequence[JudgedClaim]) -> str:
    """Say how many claims do not hold by one comparison alone."""
    failed = [one for one in judged if one.outcome == FAILS]
    by_one = [one for one in failed if _count_against(one) == 1]
    listed = ", ".join(f"`{one.claim.id}`" for one in by_one)
    if not by_one:
        return ""
    return f"Of the {len(failed)} claims that do not hold, {len(by_one)} fail by one comparison alone: {listed}."


def _count_against(one: JudgedClaim) -> int:
    return sum(compared.outcome == FAILS for compared in one.verdict.comparisons)


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
        said = progress(study).removeprefix("**Progress.** ")
        link = f"[{study.study.title or study.name}](../../studies/{study.name}/study.yaml)"
        lines.append(f"- {link} ({about}): {study.about.question} {said}")
    return "\n".join(lines) or "There is none yet."


def counts_text(judged: Sequence[JudgedClaim]) -> str:
    """Say how many claims were tested, and what came of them."""
    counts = counted(judged)
    tested = sum(one.is_tested for one in judged)
    return (
        f"Of {len(judged)} claims, {tested} were compared with runs (holds: {counts[HOLDS]}, holds in the settings "
        f"that were run: {counts[PARTLY]}, does not hold: {counts[FAILS]}, undecided: {counts[UNDECIDED]}). "
        f"Proved by tests, as identities or counts: {counts[PROVED]}. Not to be checked by runs: "
        f"{counts[NOT_CHECKED]}. Run, but set aside: {counts[SET_ASIDE]}. Not run: {counts[NOT_RUN]}."
    )


def _at_paper_scale(study: PublishedStudy) -> Iterator[str]:
    """Yield what came of runs that are the papers' but shorter, beside what the papers print."""
    settings = [setting for setting in study.study.settings if is_drawn(study, setting)]
    if not settings:
        return
    yield f"## {study.study.title or study.name}"
    yield f"{study.about.question} {progress(study).removeprefix('**Progress.** ')}"
    seeds = counted_words(len(study.study.seeds), "seed")
    for setting in settings:
        for paper in study.about.differences:
            yield f"### {setting_name(setting)}, {rounds_of(study, setting)} rounds, {seeds}, beside {name(paper)}"
            yield setting_table(study, setting, paper)
            yield from ends_part(study, setting, paper)
    yield " ".join([*study.about.limits, *notes_of(study), chance_note(study).strip()]).strip()


def notes_of(study: PublishedStudy) -> list[str]:
    """Return in what a study differs from its papers, without the same twice."""
    return list(dict.fromkeys(said for of_paper in study.about.differences.values() for said in of_paper))


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


def _not_run(judged: Sequence[JudgedClaim], cannot_run: Mapping[str, str]) -> Iterator[str]:
    """Yield the claims that no run speaks of: those that cannot be run here, and those that could be."""
    open_claims = [one for one in judged if one.outcome == NOT_RUN]
    ids = [one.claim.id for one in open_claims]
    impossible = [f"- `{id}`: {cannot_run[id]}" for id in ids if id in cannot_run]
    others = [f"- `{one.claim.id}`: {one.reason}" for one in open_claims if one.claim.id not in cannot_run]
    if impossible:
        yield "These cannot be run on two cores, or not without data that is not to be had:"
        yield "\n".join(impossible)
    if others:
        yield "These could be run:"
        yield "\n".join(others)
    if not open_claims:
        yield "Nothing."


def _not_by_runs(judged: Sequence[JudgedClaim]) -> str:
    """List the claims that tests prove, and those that no run can decide."""
    shown = [one for one in judged if one.outcome in (PROVED, NOT_CHECKED)]
    lines = [f"- `{one.claim.id}`, {one.outcome}: {one.claim.statement} {one.reason}" for one in shown]
    return "\n".join(lines) or "Nothing."


def readme_section(studies: Sequence[PublishedStudy], judged: Sequence[JudgedClaim]) -> str:
    """Return "What we found" for the README: a table and a picture; nothing where no comparison is complete.

    It shows the study that is meant for it once that is complete, and else the setting with the most methods whose
    seeds have all ended.
    """
    shown = max(_shown(studies), key=_rank, default=None)
    if shown is None:
        return ""
    study, setting = shown
    variants = _shown_variants(study, setting)
    picture = f"docs/pictures/evidence/{picture_name(study, setting)}"
    parts = [
        "## What we found",
        f"{counts_text(judged)} [The evidence](docs/evidence/README.md) has every number with its interval, and "
        "[which method when](docs/evidence/choosing.md). Runs are far smaller than the papers', in network and "
        "rounds: that a claim does not hold here does not say that it did not hold there.",
        f"**{study.study.title or study.name}.** {study.about.question}",
        _findings(study, setting),
        short_table(study, setting, variants),
        _caption(study, setting, variants),
        f"![Accuracy over rounds, bytes and compute]({picture})",
    ]
    return "\n\n".join(filter(None, parts))


def _shown_variants(study: PublishedStudy, setting: str) -> list[str]:
    """Return the methods of the short table: those that findings compare and the best; without findings those drawn."""
    compared = {variant for one in study.about.finds for variant in (one.of, one.against)}
    if not compared:
        return drawn_variants(study, setting)
    entries = {entry.variant: entry for entry in _entries(study, setting)}
    return [variant for variant, entry in entries.items() if variant in compared or is_best(study, entry)]


def _findings(study: PublishedStudy, setting: str) -> str:
    """Say what parts of methods add, by differences of two methods; nothing where there is none."""
    lines = [line for one in study.about.finds if (line := _finding(study, setting, one))]
    if not lines:
        return ""
    return "What parts of methods add, in points of accuracy, with the range over the seeds:\n\n" + "\n".join(lines)


def _finding(study: PublishedStudy, setting: str, one: AddedPart) -> str:
    """Return one difference with its words; nothing where a seed of either method is missing."""
    entries = [study.table.entry(setting, variant) for variant in (one.of, one.against)]
    if any(entry.mean is None for entry in entries):
        return ""
    samples = {(setting, entry.variant): SeedValues(entry.values, entry.ended) for entry in entries}
    (compared,) = compare_with_reference(samples, one.against)
    return f"- {one.what}: {interval_text(study, compared, one.against)} (`{one.of}` minus `{one.against}`)"


def _caption(study: PublishedStudy, setting: str, variants: Sequence[str]) -> str:
    """Say what stands in the short table, and where the rest is."""
    chance = chance_of(study, setting)
    guessing = "" if chance is None else f" Guessing gives {100 * chance:g} %."
    sharpness = " λmax is the largest eigenvalue of the Hessian of the training loss." if study.flatness else ""
    pages = ", ".join(f"[{name(paper)}](docs/evidence/{paper}.md)" for paper in study.about.differences)
    return (
        f"Network {study.study.options.get('model')}, {rounds_of(study, setting)} rounds, {len(study.study.seeds)} "
        f"seeds: mean ± standard deviation; behind differences by seed {interval_words(study)}.{guessing}{sharpness} "
        f"{_chosen_how(study)} {len(variants)} of {len(study.study.methods)} methods and forms are shown; all of them, "
        f"and what these runs cannot say, stand on the pages of {pages}."
    )


def _chosen_how(study: PublishedStudy) -> str:
    """Say how learning rate and parameters were chosen."""
    select = study.study.select
    if any(map(study.study.is_searched, study.study.methods)):
        return select.sentence + (NOISY_SEARCH if len(select.seeds) == 1 else "")
    if study.about.rate_by_test:
        return (
            "One learning rate serves all methods; it was chosen by the test accuracy of a few other runs, with a seed "
            "that is not reported, and nothing else was searched."
        )
    return "One learning rate serves all methods, and nothing was searched."


def _shown(studies: Sequence[PublishedStudy]) -> Iterator[tuple[PublishedStudy, str]]:
    """Yield the settings in which at least two methods have all seeds, at least three."""
    for study in studies:
        for setting in study.study.settings if study.about.differences else ():
            whole = [entry for entry in _entries(study, setting) if entry.mean is not None]
            if len(whole) > 1 and len(study.study.seeds) >= SEEDS and is_drawn(study, setting):
                yield study, setting


def _entries(study: PublishedStudy, setting: str) -> list[Entry]:
    return [study.table.entry(setting, variant) for variant in study.study.methods]


def _rank(shown: tuple[PublishedStudy, str]) -> tuple[bool, int]:
    """Return what decides which study the README shows."""
    study, setting = shown
    ended, total = study.ended
    return study.about.in_readme and ended == total, _count_ended(study, setting)


def _count_ended(study: PublishedStudy, setting: str) -> int:
    """Return how many methods have no seed that is still to be trained."""
    return sum(OPEN.isdisjoint(entry.ended.values()) for entry in _entries(study, setting))
