"""A study on a page: its question, the settings, how far it is, its tables and pictures, and a paragraph on it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from flatfed.published.claims.judging import FAILS, HOLDS, UNDECIDED
from flatfed.reports.results.result import Result
from flatfed.reports.tables.grid import of_metric
from flatfed.reports.tables.pivot import escape_markdown
from flatfed.runs.environment import arithmetic_of, read_environment
from flatfed.studies.claimed.variants import taken_apart
from flatfed.studies.evidence.counted_words import counted_words
from flatfed.studies.evidence.joint_judge import PARTLY, JudgedClaim, counted
from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.evidence.sections.barriers import barrier_parts
from flatfed.studies.evidence.sections.beside_papers import differences_in_size
from flatfed.studies.evidence.sections.chance import chance_note
from flatfed.studies.evidence.sections.curve_ends import ends_part
from flatfed.studies.evidence.sections.picture_files import PICTURES, picture_name
from flatfed.studies.evidence.sections.setting_table import (
    EDGE,
    OPEN,
    difference_text,
    interval_words,
    is_best,
    measured_table,
    setting_table,
    target_words,
    tried_text,
)
from flatfed.studies.reporting.study_pivot import note_of
from flatfed.studies.reporting.study_runs import setting_name
from flatfed.studies.results import Entry
from flatfed.studies.study import Options

SAID = ("dataset", "model", "clients", "per_round", "rounds", "local_epochs")
"""Options of all runs that a page names."""
OWN = (*SAID, "partition", "alpha", "beta", "lr")
"""Those that it names where a setting has values of its own."""
MEASURED = "What else was [measured](../flatness.md) of the final models, mean ± sample standard deviation over seeds:"
MOST_DRAWN = 7
"""Methods of a picture."""
SEEDS = 3
"""Fewer decide nothing."""


def study_section(study: PublishedStudy, paper: str, judged: Sequence[JudgedClaim]) -> str:
    """Return what a paper's page has of one study."""
    parts = [f"## {study.study.title or study.name}", f"**Question.** {study.about.question}"]
    parts += [_setting(study), progress(study), _differences(study, paper)]
    for setting in study.study.settings:
        parts += _of_setting(study, setting, paper)
    parts += [*_notes(study), f"**In short.** {paragraph(study, judged)}", _again(study)]
    return "\n\n".join(filter(None, parts))


def _setting(study: PublishedStudy) -> str:
    words = _said(study.study.options, SAID)
    link = f"[`studies/{study.name}/study.yaml`](../../studies/{study.name}/study.yaml)"
    return f"**Setting.** {words}; seeds {', '.join(map(str, study.study.seeds))}; {link}."


def _own(study: PublishedStudy, setting: str) -> str:
    """Say in what a setting differs; nothing where it is the only one."""
    words = _said(study.study.settings[setting], OWN)
    return f"Here: {words}." if words and len(study.study.settings) > 1 else ""


def _said(options: Options, names: Sequence[str]) -> str:
    """Return options with their values, those of some names."""
    found = {name: options[name] for name in names if options.get(name) is not None}
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found.items())


def progress(study: PublishedStudy) -> str:
    """Say how far a study is."""
    ended, total = study.ended
    chosen, choosing = study.chosen
    chose = f", and {chosen} of {choosing} that choose parameters" if choosing else ""
    state = "complete" if ended == total else "not complete"
    return f"**How far.** {ended} of {total} runs that are reported have ended{chose}: {state}."


def _differences(study: PublishedStudy, paper: str) -> str:
    said = [*study.about.differences.get(paper, ()), *differences_in_size(study, paper)]
    if not said:
        return ""
    return "**How it differs from the paper.**\n\n" + "\n".join(f"- {one}" for one in said)


def _of_setting(study: PublishedStudy, setting: str, paper: str) -> Iterator[str]:
    entries = [study.table.entry(setting, variant) for variant in study.study.methods]
    name = escape_markdown(setting_name(setting))
    if not any(_has_ended(entry) for entry in entries):
        yield f"### {name}\n\nNo run that is reported has ended yet."
        yield _tried(study, setting)
        return
    yield f"### {name}"
    yield _own(study, setting)
    yield setting_table(study, setting, paper)
    measured = measured_table(study, setting)
    if measured:
        yield MEASURED
        yield measured
    yield f"![Accuracy over rounds, bytes and compute: {name}]({PICTURES / picture_name(study, setting)})"
    if len(study.study.methods_in(setting)) > MOST_DRAWN:
        reference = study.statistics.reference
        yield f"Drawn are {reference}, what the papers are about, and the best others, {MOST_DRAWN} at the most."
    yield from ends_part(study, setting, paper)
    yield from barrier_parts(study, setting)
    yield _tried(study, setting)


def _tried(study: PublishedStudy, setting: str) -> str:
    listed = tried_text(study, setting)
    metrics = {choice.metric for key, choice in study.table.chosen.items() if key[0] == setting and choice.metric}
    what = " or ".join(sorted(metrics)).replace("_", " ") or "nothing"
    return f"What choosing came to, {what} of each point that was tried:\n\n{listed}" if listed else ""


def _has_ended(entry: Entry) -> bool:
    return bool(entry.values) or not OPEN.issuperset(entry.ended.values())


def is_drawn(study: PublishedStudy, setting: str) -> bool:
    """Say whether a setting has a run to draw, so that its picture stands on pages."""
    return any(_has_ended(study.table.entry(setting, variant)) for variant in study.study.methods)


def drawn_results(study: PublishedStudy, setting: str) -> Sequence[Result]:
    """Return the runs that a picture shows: the reference, what the papers are about, and the best of the others.

    More lines could not be distinguished.
    """
    shown = drawn_variants(study, setting)
    return [result for result in study.results_in(setting) if result.method in shown]


def drawn_variants(study: PublishedStudy, setting: str) -> list[str]:
    """Return the methods whose runs a picture shows, in the study's order."""
    methods = dict.fromkeys(result.method for result in study.results_in(setting))
    means = {method: study.table.entry(setting, method).mean for method in methods}
    metric = study.table.metrics.get(setting)
    is_higher = metric is None or metric.shown.higher_is_better is not False
    ranked = sorted((mean if is_higher else -mean, name) for name, mean in means.items() if mean is not None)
    best = [name for _, name in reversed(ranked)] or list(means)
    shown = drawn_methods(best, study.statistics.reference, study.about.differences)
    return [variant for variant in study.study.methods if variant in shown]


def drawn_methods(best: Sequence[str], reference: str, papers: Collection[str]) -> list[str]:
    """Return which of some methods, best first, are drawn; a paper's own is `fedgloss` or `fedgloss+sam`."""
    own = [name for name in best if name.partition("+")[0] in papers and "," not in name]
    first = [name for name in best if name == reference]
    return list(dict.fromkeys([*first, *own, *best]))[:MOST_DRAWN]


def _notes(study: PublishedStudy) -> Iterator[str]:
    if not study.table.metrics:
        return
    words = target_words(study)
    target = f" Target: {words}, reached in the first evaluated round that is as good." if words else ""
    yield (
        f"{note_of(study.table)} Differences are by seed, with {interval_words(study)}, and with the number of "
        "pairs where not all seeds have both; there is none where a seed diverged. Bold is the best of the table; "
        f"✗ diverged; {EDGE} the end of a grid, beyond which nothing was tried; {_times(study)}."
        f"{target}{_measured_on(study)}{chance_note(study)}"
    )
    yield from study.statistics.warnings


def _times(study: PublishedStudy) -> str:
    if study.about.is_timed:
        return "times are of a machine that did no other work, by seed, with their range over the seeds"
    return "times are of a machine that did other work too"


def _measured_on(study: PublishedStudy) -> str:
    samples = study.study.report.flatness_samples
    if not study.flatness or samples is None:
        return ""
    return f" λ and what else is measured is over {samples:,} training examples, drawn at random."


def paragraph(study: PublishedStudy, judged: Sequence[JudgedClaim]) -> str:
    """Return a paragraph on a study: what was done, what came of it, and what it does not say."""
    ended, total = study.ended
    seeds = len(study.study.seeds)
    sentences = [f"{_methods(study)}, {counted_words(seeds, 'seed')} each; {ended} of {total} runs have ended."]
    if any(map(study.study.is_searched, study.study.methods)):
        sentences.append(study.study.select.sentence)
    sentences += _best(study)
    sentences += _claims(study, judged)
    return " ".join([*sentences, *study.about.limits])


def _methods(study: PublishedStudy) -> str:
    """Say how many methods there are, and in how many forms."""
    forms = len(study.study.methods)
    methods = len({taken_apart(spelling)[0] for spelling in study.study.methods.values()})
    said = counted_words(methods, "method")
    return said if forms == methods else f"{said} in {forms} forms"


def _best(study: PublishedStudy) -> Iterator[str]:
    """Name the best method of each setting, where at least two have all seeds, and those that diverged."""
    for setting, metric in study.table.metrics.items():
        entries = [study.table.entry(setting, variant) for variant in study.study.methods]
        lost = [entry.variant for entry in entries if entry.has_diverged]
        for entry in entries:
            if is_best(study, entry) and len(entry.values) >= SEEDS:
                mean = of_metric(metric, (entry.mean or 0.0, entry.spread))
                minus = difference_text(study, setting, entry.variant)
                against = f", {minus} against {study.statistics.reference}" if "[" in minus else ""
                yield f"In {setting_name(setting)} the best is {entry.variant} with {mean}{against}."
        if lost:
            yield f"In {setting_name(setting)} a seed diverged of {', '.join(lost)}."


def _claims(study: PublishedStudy, judged: Sequence[JudgedClaim]) -> Iterator[str]:
    own = [one for one in judged if study.name in one.studies]
    if not own:
        return
    counts = counted(own)
    said = ", ".join(f"{name}: {counts[name]}" for name in DECIDED if counts[name])
    yield f"Of the paper's claims {len(own)} can be held against these runs ({said})."


DECIDED = (HOLDS, PARTLY, FAILS, UNDECIDED)


def _versions(study: PublishedStudy) -> str:
    """Say with what the runs were made."""
    found: dict[str, None] = {}
    for runs in study.table.runs.values():
        for path in runs.values():
            made = arithmetic_of(read_environment(path))
            found[", ".join(f"{name} {version}" for name, version in made.items() if name != "machine")] = None
    return f"Made with {' or '.join(found)}. " if found else ""


def _again(study: PublishedStudy) -> str:
    file = f"studies/{study.name}/study.yaml"
    return _versions(study) + (
        f"`flatfed study run {file} --out runs/{study.name}` trains any of these cells again, to the same bits on the "
        f"same versions; `flatfed study unpack studies/{study.name}/results runs/unpacked` makes a folder of the "
        "published results, for `flatfed study show` and `flatfed claims check`."
    )
