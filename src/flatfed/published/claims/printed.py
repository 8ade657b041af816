"""The published numbers of a claim: what the rules say of them tests how the claim is written down."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

from flatfed.core.errors import ConfigError
from flatfed.published.claims.claim import Claim, Setting
from flatfed.published.claims.claim_file import settings
from flatfed.published.claims.intervals import Key, PrintedNumbers
from flatfed.published.claims.judging import WORST, Verdict, judge_numbers, undecided
from flatfed.published.method_names import name_of
from flatfed.published.numbers import PublishedValue, papers, values

PRINTED_AS: dict[str, tuple[str, ...]] = {
    "accuracy": ("accuracy_pct",),
    "miou": ("miou_pct",),
    "lambda_max": ("lambda_max",),
    "lambda_ratio": ("lambda_max_over_lambda_5",),
    "lambda_local": ("lambda_max_local",),
    "lambda_global": ("lambda_max_global",),
    "lambda_global_over_local": ("lambda_max_global", "lambda_max_local"),
    "lpf": ("lpf",),
    "discrepancy": ("delta_f",),
    "rounds_to_target": ("rounds_to_target",),
    "bytes_to_target": ("comm_cost_rel", "model_transmissions_to_target"),
    "bytes_per_round": ("comm_cost_rel_per_round", "model_transmissions_per_round_total"),
    "backprops": ("client_compute_rel",),
    "client_seconds": ("client_time_s",),
}
"""What a metric is called in the tables; a metric that is not here is in none."""

DIVIDED = ("lambda_global_over_local",)
"""Metrics that are the first of two printed numbers divided by the second."""

VARIANTS: dict[str, tuple[str, ...]] = {
    "admm=false": ("admm=no",),
    "regularise=false": ("no_dynamic_regulariser",),
    "lam=0": ("ablation", "momentum=yes", "sam=yes", "weighted=no"),
    "control=false,lam=0": ("ablation", "momentum=no", "sam=yes", "weighted=no"),
    "rho=0,lam=0": ("ablation", "momentum=yes", "sam=no", "weighted=no"),
    "control=false,rho=0,lam=0": ("ablation", "momentum=no", "sam=no", "weighted=no"),
}
"""What the brackets of a variant say, as the extras under which tables have it; others have the same words there."""

NO_MATTER = ("static", "c=adaptive", "bar_label", "admm=yes", "local_model", "target_lost_in_text", "swa")
"""Extras that say nothing further: how a number was read, or what the method's spelling says already."""

NO_MATTER_NAMES = ("class", "server_opt", "best_of")
START = "swa_start_round="
WITHOUT_ADMM = ("fedavg", "fedsam")


def printed_numbers(claim: Claim) -> dict[Key, tuple[float, float | None]]:
    """Return the printed means and deviations of a claim's methods in its settings, as far as tables hold them."""
    found: dict[Key, tuple[float, float | None]] = {}
    for setting in claim.every_setting:
        for quantity in claim.quantities:
            number = _number(claim, settings()[setting], quantity)
            if number is not None:
                found[setting, quantity] = number
    return found


def printed_values(paper: str, setting: Setting, method: str, metric: str) -> list[PublishedValue]:
    """Return what a paper printed of a method in a setting: each number once, whatever table it stands in."""
    name, extras = _variant(method)
    wanted = {*setting.extras, *extras}
    names = PRINTED_AS.get(metric, ())
    rows = [row for row in values() if row.paper == paper and row.metric in names and _is_in(row, setting)]
    fitting = [row for row in rows if name_of(row) == name and _extras(row) == wanted]
    return list({row.printed: row for row in reversed(fitting)}.values())[::-1]


def judge_printed(claim: Claim) -> Verdict:
    """Judge a claim by the numbers that its own paper printed."""
    numbers = printed_numbers(claim)
    if not numbers:
        return undecided(claim, "no table holds its numbers")
    return judge_numbers(claim, PrintedNumbers(numbers, WORST.get(claim.metric, math.nan)))


def _number(claim: Claim, setting: Setting, quantity: str) -> tuple[float, float | None] | None:
    metric, method = claim.metric_and_method(quantity)
    names = PRINTED_AS.get(metric, ())
    if metric not in DIVIDED:
        return _one(claim, names, setting, method)
    above, below = (_one(claim, (name,), setting, method) for name in names)
    if above is None or below is None:
        return None
    return above[0] / below[0], None


def _one(claim: Claim, metrics: tuple[str, ...], setting: Setting, method: str) -> tuple[float, float | None] | None:
    rows = list(_rows(claim, metrics, setting, method))
    found = dict.fromkeys((_value(row), row.std) for row in rows)
    if not found:
        return None
    # NaN is unequal to itself.
    if len({str(number) for number in found}) > 1:
        raise ConfigError(
            f"{claim.id}: {method} in {setting.name} has several printed numbers; say more of the setting"
        )
    return next(iter(found))


def _rows(claim: Claim, metrics: tuple[str, ...], setting: Setting, method: str) -> Iterator[PublishedValue]:
    name, extras = _variant(method)
    wanted = {*setting.extras, *extras}
    paper = claim.paper if claim.paper in papers() else ""
    for row in _in_tables(claim.tables):
        if paper and row.paper != paper:
            continue
        if row.metric in metrics and _is_in(row, setting) and name_of(row) == name and _extras(row) == wanted:
            yield row


@cache
def _in_tables(tables: tuple[str, ...]) -> list[PublishedValue]:
    """Return the values of some tables, of whichever paper."""
    return [row for row in values() if row.table in tables]


def _variant(method: str) -> tuple[str, tuple[str, ...]]:
    """Return a method without its brackets, and the extras that they are in the tables."""
    before, _, rest = method.partition("(")
    inside, _, after = rest.partition(")")
    if not inside:
        return method, ()
    return before + after, VARIANTS.get(inside, tuple(inside.split(",")))


def _is_in(row: PublishedValue, setting: Setting) -> bool:
    """Say whether a row has what a setting states."""
    stated = vars(setting)
    names = [name for name, value in stated.items() if name not in ("name", "extras") and value is not None]
    return all(getattr(row, name) == stated[name] for name in names)


def _extras(row: PublishedValue) -> set[str]:
    said = {word for word in row.extras if word not in NO_MATTER and word.partition("=")[0] not in NO_MATTER_NAMES}
    if row.algorithm in WITHOUT_ADMM:
        said.discard("admm=no")
    start = next((word for word in said if word.startswith(START)), "")
    if start and row.rounds:
        # As a share of the rounds; the cycle is the usual one of the data set.
        share = int(start.removeprefix(START)) / row.rounds
        return {f"start={share:g}"}
    return said


def _value(row: PublishedValue) -> float:
    if row.value is not None:
        return row.value
    return math.inf if row.status == "not_reached" else math.nan
