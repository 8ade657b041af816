"""The page on which method to try first: answers, and for each need the settings that speak of it."""

from __future__ import annotations

from collections.abc import Sequence

from flatfed.reports.tables.grid import NOTHING, markdown_table, rule
from flatfed.reports.tables.pivot import escape_markdown
from flatfed.studies.evidence.choosing_advice import COUNTED, advice, answers_of
from flatfed.studies.evidence.counted_words import counted_words
from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.evidence.sections.chance import chance_of
from flatfed.studies.evidence.sections.method_rankings import (
    ABOVE_CHANCE,
    Need,
    Ranked,
    RankedSetting,
    rankings,
)
from flatfed.studies.evidence.sections.setting_table import target_words
from flatfed.studies.evidence.sections.setting_words import data_words, network_words, rate_words, setting_words
from flatfed.studies.evidence.sections.study_section import SEEDS

SHOWN = 3
TITLE = """# Which method when

What to try first. Every name and number is made from the published results."""
HOW = f"""{COUNTED} The tables show the others too.

## How to read this page

- **Runs are small.** Networks are small, and rounds are few; the [settings](#settings) stand at the end. What a study
  cannot say stands on the [pages of the papers](README.md).
- **Who is named.** A method is named only when all of its own seeds have ended, at least {SEEDS}, and none diverged.
  A dash says that no other can be named; a setting without any does not stand here.
- **The best** has the best mean. Methods with equal means are all named.
- **Not separated from the best.** Methods are compared by seed: the interval of the differences to the best holds zero.
  With three seeds one pair of equal methods in four is separated by chance.
- **Answers** name the method that is most often the best or not separated from the best. If several are, they name the
  one that was trained in fewer settings, and then the one that is most often the best.
- **Costs** are counted up to a target: the mean of the study's reference, or a number that the study names. A run has
  reached it in the first evaluated round that is as good. So costs are known to the grid of evaluations only. A cost is
  named only if all seeds reached the target, and the reported mean is as good as the target too. With one class per
  client accuracy jumps from round to round: the first such round may be luck, and costs say little.
- **Learning rates.** A learning rate that was set for some methods favours them. The settings say where it was searched
  for each method.
- **SWA** can be added to any method. Here a method with SWA is compared with others without it."""
HEADS = ["study", "setting", "methods", "chance", "best", "then", "not separated from the best"]
COST_HEADS = ["study", "setting", "methods", "target", "best", "then", "not separated from the best"]
SETTING_HEADS = ["study", "setting", "network", "learning rate", "methods"]
SETTINGS = """## Settings

Two settings of the same data may have different networks, learning rates and rounds. Methods are those whose seeds have
all ended; forms of one method are one."""
NOTHING_YET = "No study that speaks of it has two methods yet, one of which can be named."


def choosing_page(studies: Sequence[PublishedStudy]) -> str:
    """Return the page."""
    ranked = rankings(studies)
    parts = [TITLE, "\n".join(f"- {answer}" for answer in answers_of(ranked)), HOW]
    for need, settings in ranked.items():
        parts += [f"## {need.title}", " ".join(advice(settings)), need.why]
        parts += [_table(need, settings), _left_out(need, settings)]
    parts.append(_settings([one for settings in ranked.values() for one in settings]))
    return "\n\n".join(filter(None, parts)) + "\n"


def _table(need: Need, settings: Sequence[RankedSetting]) -> str:
    """Return the table of a need, without the settings whose targets are too near chance."""
    rows = [_row(one) for one in settings if not one.is_near_chance]
    heads = COST_HEADS if need.cost else HEADS
    return _words_table(heads, rows) if rows else NOTHING_YET


def _words_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return markdown_table(heads, [rule(words=head != "methods") for head in heads], rows)


def _row(one: RankedSetting) -> list[str]:
    compared_with = _chance(one) if one.target is None else _target(one)
    close = "; ".join(escape_markdown(other.variant) for other in one.close) or "none"
    return [*_place(one), str(len(one.families)), compared_with, *named_best(one), close]


def _place(one: RankedSetting) -> list[str]:
    """Return the study with a link to its file, and the setting in words; its name too where words are not enough."""
    link = f"[{one.study.name}](../../studies/{one.study.name}/study.yaml)"
    words = setting_words(one.study, one.setting)
    alike = [other for other in one.study.study.settings if setting_words(one.study, other) == words]
    name = "" if len(alike) == 1 else f" ({escape_markdown(one.setting)})"
    return [link, words + name]


def _chance(one: RankedSetting) -> str:
    """Return the accuracy of guessing, beside which small accuracies are to be read."""
    chance = chance_of(one.study, one.setting)
    return NOTHING if chance is None else f"{100 * chance:g} %"


def _target(one: RankedSetting) -> str:
    """Say what was to be reached: `37.53 %`, or `the mean of fedavg: 37.53 %`."""
    goal, words = one.target.goal if one.target else NOTHING, target_words(one.study)
    return goal if goal == words else f"{words}: {goal}"


def named_best(one: RankedSetting) -> list[str]:
    """Return the best, with all that are equal to it, and those that come then, with all that are equal to the last."""
    others = one.ranked[len(one.best) :]
    last = [other.mean for other in others[: SHOWN - 1]][-1:]
    then = [other for place, other in enumerate(others) if place < SHOWN - 1 or other.mean in last]
    return ["; ".join(f"**{_named(best)}**" for best in one.best), "; ".join(map(_named, then)) or NOTHING]


def _named(one: Ranked) -> str:
    return f"{escape_markdown(one.variant)}: {one.text}"


def _left_out(need: Need, settings: Sequence[RankedSetting]) -> str:
    """Say which settings are not in the table of a cost; nothing where all are."""
    left = [one for one in settings if one.is_near_chance]
    if not left:
        return ""
    listed = "; ".join(f"{one.study.name} ({data_words(one.study, one.setting)}; {_near_chance(one)})" for one in left)
    return (
        f"Left out: {counted_words(len(left), 'setting')} with a target less than {100 * ABOVE_CHANCE:g} points above "
        f"chance, which one lucky evaluation passes: {listed}."
    )


def _near_chance(one: RankedSetting) -> str:
    goal = one.target.goal if one.target else NOTHING
    return f"target {goal}, chance {_chance(one)}"


def _settings(shown: Sequence[RankedSetting]) -> str:
    """Return the table of all settings that stand in other tables, each once."""
    settings = {(one.study.name, one.setting): one for one in shown}
    rows = [_setting_row(settings[key]) for key in sorted(settings)]
    return f"{SETTINGS}\n\n{_words_table(SETTING_HEADS, rows)}" if rows else ""


def _setting_row(one: RankedSetting) -> list[str]:
    study, setting = one.study, one.setting
    methods = str(len(one.families)) if one.counts else f"{len(one.families)}, not counted"
    return [*_place(one), network_words(study, setting), rate_words(study, setting), methods]
