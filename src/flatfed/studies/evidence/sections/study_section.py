"""A study on a page: its question, the settings, how far it is, its tables and pictures, and a paragraph on it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from flatfed.reports.results.result import Result
from flatfed.reports.tables.grid import of_metric
from flatfed.reports.tables.pivot import escape_markdown
from flatfed.runs.environment import arithmetic_of, read_environment
from flatfed.studies.claimed.variants import taken_apart
from flatfed.studies.evidence.counted_words import counted_words
from flatfed.studies.evidence.joint_judge import JudgedClaim
from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.evidence.sections.barriers import barrier_parts
from flatfed.studies.evidence.sections.beside_papers import differences_in_size
from flatfed.studies.evidence.sections.chance import MARK, NEAR
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

SAID = (
    "dataset",
    "model",
    "clients",
    "per_round",
    "rounds",
    "local_epochs",
    "batch_size",
    "lr",
    "lr_decay",
    "weight_decay",
    "evaluate_every",
    "evaluate_last",
)
"""Options of all runs that a page names."""
OWN = (*SAID, "partition", "alpha", "beta")
"""Those that it names where a setting has values of its own."""
MEASURED = "What else was [measured](../flatness.md) of the final models, mean ± sample standard deviation over seeds:"
MOST_DRAWN = 7
"""Methods of a picture."""
SEEDS = 3
"""Fewer decide nothing."""


def study_section(study: PublishedStudy, paper: str, judged: Sequence[JudgedClaim]) -> str:
    """Return what a paper's page has of one study."""
    parts = [f"## {study.study.title or study.name}", f"**Question.** {study.about.question}"]
    parts += [f"**In short.** {paragraph(study, judged)}", study_setting(study), progress(study)]
    parts.append(_differences(study, paper))
    for setting in _begun(study):
        parts += _of_setting(study, setting, paper)
    parts += [_not_begun(study), *_notes(study), _limits(study), _again(study)]
    return "\n\n".join(filter(None, parts))


def study_setting(study: PublishedStudy) -> str:
    """Say how all runs of a study are trained."""
    words = ", ".join(filter(None, (_said(study.study.options, SAID), _size(study))))
    link = f"[`studies/{study.name}/study.yaml`](../../studies/{study.name}/study.yaml)"
    seeds = ", ".join(map(str, study.study.seeds))
    return f"**Setting.** {words}; seeds {seeds}; {link} has the values of each method."


def _size(study: PublishedStudy) -> str:
    """Say how many parameters the networks have; nothing before a run has ended."""
    described = [study.described(setting).get("model", {}) for setting in study.study.settings]
    counts = sorted({model["parameters"] for model in described if "parameters" in model})
    return " or ".join(f"{count:,}" for count in counts) + " parameters" if counts else ""


def _begun(study: PublishedStudy) -> list[str]:
    """Return the settings with something to show: a run that has ended, or what choosing came to."""
    return [setting for setting in study.study.settings if is_drawn(study, setting) or tried_text(study, setting)]


def _not_begun(study: PublishedStudy) -> str:
    """Name the settings in which no run has ended."""
    waiting = [setting for setting in study.study.settings if setting not in _begun(study)]
    names = ", ".join(escape_markdown(setting_name(setting)) for setting in waiting)
    return f"Not run yet: {names}." if waiting else ""


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
    return f"**Progress.** {ended} of {total} runs that are reported have ended{chose}: {state}."


def _differences(study: PublishedStudy, paper: str) -> str:
    said = [*study.about.differences.get(paper, ()), *differences_in_size(study, paper)]
    if not said:
        return ""
    return "**How it differs from the paper.**\n\n" + "\n".join(f"- {one}" for one in said)


def _of_setting(study: PublishedStudy, setting: str, paper: str) -> Iterator[str]:
    name = escape_markdown(setting_name(setting))
    yield f"### {name}"
    yield _own(study, setting)
    if is_drawn(study, setting):
        yield from _results(study, setting, paper)
    else:
        yield "No run that is reported has ended yet."
    yield _tried(study, setting)


def _results(study: PublishedStudy, setting: str, paper: str) -> Iterator[str]:
    """Yield the tables and pictures of a setting."""
    yield setting_table(study, setting, paper)
    measured = measured_table(study, setting)
    if measured:
        yield MEASURED
        yield measured
    name = escape_markdown(setting_name(setting))
    yield f"![Accuracy over rounds, bytes and compute: {name}]({PICTURES / picture_name(study, setting)})"
    if len(study.study.methods_in(setting)) > MOST_DRAWN:
        reference = study.statistics.reference
        yield f"Drawn are {reference}, what the papers are about, and the best others, {MOST_DRAWN} at the most."
    yield from ends_part(study, setting, paper)
    yield from barrier_parts(study, setting)


def _tried(study: PublishedStudy, setting: str) -> str:
    listed = tried_text(study, setting)
    metrics = {choice.metric for key, choice in study.table.chosen.items() if key[0] == setting and choice.metric}
    what = " or ".join(sorted(metrics)).replace("_", " ") or "nothing"
    return f"Results of the search, {what} of each point that was tried:\n\n{listed}" if listed else ""


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


def legend(studies: Sequence[PublishedStudy]) -> str:
    """Say once for a page how its tables are to be read."""
    ranges = " or ".join(sorted({interval_words(study) for study in studies}))
    times = " Times are of a machine that did other work too, unless a study says otherwise." if studies else ""
    return (
        f"**How to read the tables.** Differences are by seed; behind them stands {ranges}, or the number of pairs "
        "where not all seeds have both methods. There is no difference where a seed diverged. Bold is the best of the "
        f"table, ✗ diverged, {EDGE} is the end of a grid, beyond which nothing was tried. {MARK} is at most "
        f"{100 * NEAR:g} points above chance: nothing was learned, and what is measured of such a model says nothing "
        "of the method. λmax and λ5 are the largest and the fifth eigenvalue of the Hessian of the training loss, and "
        "LPF is the mean loss under noise on the weights; [how all is measured](../flatness.md). With three seeds "
        f"nothing is statistically significant, and intervals are too narrow: see the [summary](README.md).{times}"
    )


def _notes(study: PublishedStudy) -> Iterator[str]:
    if not study.table.metrics:
        return
    words = target_words(study)
    target = f" Target: {words}, reached in the first evaluated round that is as good." if words else ""
    yield f"{note_of(study.table)}{target}{_measured_on(study)}{_times(study)}"


def _times(study: PublishedStudy) -> str:
    if study.about.is_timed:
        return " Times are of a machine that did no other work, by seed, with their range over the seeds."
    return ""


def _measured_on(study: PublishedStudy) -> str:
    samples = study.study.report.flatness_samples
    if not study.flatness or samples is None:
        return ""
    return f" λ and what else is measured is over {samples:,} training examples, drawn at random."


def paragraph(study: PublishedStudy, judged: Sequence[JudgedClaim]) -> str:
    """Return a paragraph on a study: what was done, what came of it, and what keeps it from saying more."""
    ended, total = study.ended
    seeds = len(study.study.seeds)
    sentences = [f"{_methods(study)}, {counted_words(seeds, 'seed')} each; {ended} of {total} runs have ended."]
    chosen, choosing = study.chosen
    if choosing and chosen == choosing:
        sentences.append(study.study.select.sentence)
    sentences += [*_best(study), *_claims(study, judged)]
    return " ".join([*sentences, *study.about.limits[:1]])


def _limits(study: PublishedStudy) -> str:
    """Return how values were chosen, and what the runs do not say, as a list."""
    if not study.about.limits:
        return ""
    return "**Choices and limits.**\n\n" + "\n".join(f"- {one}" for one in study.about.limits)


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
    """Name the claims that are judged by these runs, alone or with others."""
    own = [f"`{one.claim.id}`" for one in judged if study.name in one.studies]
    if own:
        yield f"Used for {', '.join(own)}."


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
