"""Which method to try first for a need, in sentences that are made of the published results alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.evidence.sections.method_rankings import ABOVE_CHANCE, FEWEST, Need, RankedSetting, rankings
from flatfed.studies.evidence.sections.setting_words import data_words

FEW = 2
"""Settings that are named one by one: to count them would say less."""
COUNTED = (
    f"Counted are settings in which at least {FEWEST} methods were trained, with all of their seeds. "
    f"For costs the target must be at least {100 * ABOVE_CHANCE:g} points above chance."
)
"""What `answers` mean by counted, for the page on which they stand."""
NOTHING_COUNTS = "No setting that speaks of it is counted yet."


@dataclass(frozen=True)
class Lead:
    """How often a method leads: it is the best of a setting, or not separated from the best.

    Attributes:
        method: as all studies spell it.
        trained: settings in which it was trained.
        leads: those of them in which it leads.
        best: those in which it alone is the best.
    """

    method: str
    trained: int
    leads: int
    best: int

    @property
    def order(self) -> tuple[int, int, int]:
        """What decides who is named: leading often; if equal, of fewer settings; if equal, being the best often."""
        return self.leads, -self.trained, self.best


def answers(studies: Sequence[PublishedStudy]) -> list[str]:
    """Return one answer for each need, as Markdown without links: `Few rounds: ...`.

    Every name and number in it is of the published results. Where no setting is counted, the answer says so. What
    counted means is to stand beside: `COUNTED`.
    """
    return answers_of(rankings(studies))


def answers_of(ranked: Mapping[Need, Sequence[RankedSetting]]) -> list[str]:
    """Return the same of settings that are ranked already."""
    return [f"{need.title}: {' '.join(advice(settings)[:FEW])}" for need, settings in ranked.items()]


def advice(settings: Sequence[RankedSetting]) -> list[str]:
    """Return one to three sentences on who leads in those settings that count."""
    counted = [one for one in settings if one.counts and not one.is_near_chance]
    if not counted:
        return [NOTHING_COUNTS]
    if len(counted) <= FEW:
        return [_of_one(one, counted) for one in counted]
    first = leaders(counted)
    others = [one for one in counted if one.trained.isdisjoint(_names(first))]
    sentences = [_first(first, counted)]
    if others:
        second = leaders(others)
        sentences += [_elsewhere(first, second), *_of_both(first, second, counted)]
    return sentences


def leaders(settings: Sequence[RankedSetting]) -> list[Lead]:
    """Return the methods that lead most often; those between which nothing decides, all of them."""
    trained = Counter(method for one in settings for method in one.trained)
    leads = Counter(method for one in settings for method in one.methods_of([*one.best, *one.close]))
    best = Counter(one.method_of(one.best[0].variant) for one in settings if len(one.best) == 1)
    found = [Lead(method, trained[method], leads[method], best[method]) for method in sorted(trained)]
    highest = max(one.order for one in found)
    return [one for one in found if one.order == highest]


def _names(leads: Sequence[Lead]) -> list[str]:
    return [one.method for one in leads]


def _of_one(one: RankedSetting, counted: Sequence[RankedSetting]) -> str:
    """Say who leads in a single setting; its study is named where another setting has the same words."""
    words = data_words(one.study, one.setting)
    alike = [other for other in counted if data_words(other.study, other.setting) == words]
    where = words if len(alike) == 1 else f"{words} ({one.study.name})"
    best, close = one.methods_of(one.best), one.methods_of(one.close)
    verb = "is" if len(best) == 1 else "are equal and"
    others = f"; not separated from the best: {listed(close)}" if close else ""
    return f"With {where}, {listed(best)} {verb} the best{others}."


def _first(leads: Sequence[Lead], counted: Sequence[RankedSetting]) -> str:
    """Say who leads most often, and what these were not tried on."""
    text = _led(leads)
    if len(leads) > 1:
        return f"No single method stands out: {text}."
    own = [one for one in counted if leads[0].method in one.trained]
    is_untried = any(one.has_one_class for one in counted) and not any(one.has_one_class for one in own)
    return f"{text}, none of them with one class per client." if is_untried else f"{text}."


def _led(leads: Sequence[Lead]) -> str:
    """Say how often methods lead; those that are named together have the same numbers."""
    one = leads[0]
    what = "the best" if one.best == one.leads else "the best or not separated from the best"
    verb, were = ("is", "it was") if len(leads) == 1 else ("are each", "they were")
    where = "the only counted setting" if one.trained == 1 else f"{one.leads} of the {one.trained} counted settings"
    return f"{listed(_names(leads))} {verb} {what} in {where} in which {were} trained"


def _elsewhere(first: Sequence[Lead], second: Sequence[Lead]) -> str:
    """Say who leads in the settings in which none of the first was trained."""
    where = "it was not" if len(first) == 1 else "none of these was"
    return f"Where {where}, {_led(second)}."


def _of_both(first: Sequence[Lead], second: Sequence[Lead], counted: Sequence[RankedSetting]) -> list[str]:
    """Say which of two methods is better where both were trained; nothing where more than two are named."""
    if len(first) > 1 or len(second) > 1:
        return []
    one, other = first[0].method, second[0].method
    both = [setting for setting in counted if setting.trained.issuperset((one, other))]
    if not both:
        return ["No counted setting has both."]
    if len(both) == 1:
        return [f"In the only counted setting with both, {_better(both[0], one, other)} is better."]
    ahead = sum(setting.place_of(one) < setting.place_of(other) for setting in both)
    return [f"In {ahead} of the {len(both)} counted settings with both, `{one}` is better."]


def _better(setting: RankedSetting, one: str, other: str) -> str:
    places = {method: setting.place_of(method) for method in (one, other)}
    if places[one] == places[other]:
        return "neither"
    return f"`{min(places, key=places.__getitem__)}`"


def listed(names: Sequence[str]) -> str:
    """Return names as people list them: `a`, `b` and `c`."""
    quoted = [f"`{name}`" for name in names]
    return " and ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))
