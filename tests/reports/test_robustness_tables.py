"""Methods under corruptions side by side: what enters a mean, and how it is shown."""

from __future__ import annotations

import csv
import io
import statistics
from pathlib import Path

import pytest
from rich.console import Console

from flatfed.core.errors import ConfigError
from flatfed.reports.robustness.methods import (
    MeasuredRun,
    MethodRobustness,
    as_csv,
    caption,
    draw,
    shared,
    spread,
    tables,
)
from flatfed.reports.robustness.one_run import CorruptionCell, Robustness

NOISE = {"gaussian_noise": 0.5, "speckle_noise": 0.3, "fog": 0.4}


def one(values: dict[str, float], status: str = "finished", seed: int = 0, measure: str = "accuracy") -> MeasuredRun:
    cells = [CorruptionCell(name, 5, "generated", {measure: value}) for name, value in values.items()]
    return MeasuredRun(Path(f"run{seed}"), seed, status, 9, Robustness("m", 9, "digits", 7, {measure: 0.8}, cells))


def lines(methods: list[MethodRobustness], width: int = 200) -> list[list[str]]:
    console = Console(width=width, file=io.StringIO())
    with console.capture() as printed:
        console.print(*tables(methods, width))
    return [line.split() for line in printed.get().splitlines() if line.strip()]


def test_seeds_are_averaged_with_their_deviation() -> None:
    seeds = [one({"fog": 0.4}), one({"fog": 0.5}, seed=1), one({"fog": 0.6}, seed=2)]
    methods = [MethodRobustness("fedavg", seeds), MethodRobustness("fedsam", [one({"fog": 0.7})])]
    rows = {row[0]: row for row in lines(methods)}
    assert rows["fog"] == ["fog", "50.00", "±", "10.00", "70.00", "generated"]
    assert rows["clean"] == ["clean", "80.00", "±", "0.00", "80.00"]
    assert caption(methods) == "accuracy in %, mean ± sample standard deviation over seeds"
    assert spread([0.4, 0.6], "accuracy") == f"50.00 ± {100 * statistics.stdev([0.4, 0.6]):.2f}"
    assert spread([], "accuracy") == "–" and spread([1.5], "loss") == "1.5000"


def test_the_mean_is_the_last_row_and_over_what_all_have() -> None:
    methods = [
        MethodRobustness("fedavg", [one(NOISE)]),
        MethodRobustness("fedsam", [one({"gaussian_noise": 0.6, "fog": 0.2})]),
    ]
    actual = lines(methods)
    assert actual[-1] == ["mean", "(2", "of", "19)", "45.00", "40.00"]
    assert [row for row in actual if row[0] == "speckle_noise"] == [["speckle_noise", "30.00", "–", "generated"]]
    assert shared(methods, 5) == ["gaussian_noise", "fog"]
    assert caption(methods).endswith("; means are over the corruptions that all have")
    both = [MethodRobustness("fedavg", [one(NOISE)]), MethodRobustness("fedsam", [one(NOISE)])]
    actual = lines(both)
    assert actual[-2][:4] == ["standard", "mean", "(2", "of"] and actual[-1] == [
        "mean",
        "(3",
        "of",
        "19)",
        "40.00",
        "40.00",
    ]


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["finished", "diverged"], [0.4]),
        (["interrupted", "diverged"], [0.4]),
        (["finished", "running"], [0.4]),
        (["diverged", "failed"], [0.4, 0.6]),
    ],
)
def test_runs_that_went_wrong_do_not_enter_the_mean(statuses: list[str], expected: list[float]) -> None:
    runs = [one({"fog": value}, status) for value, status in zip((0.4, 0.6), statuses, strict=True)]
    method = MethodRobustness("fedavg", runs)
    assert method.values("fog", 5) == expected
    for run, status in zip(runs, statuses, strict=True):
        words = f"this run is {status}; measured is its last checkpoint, round 9 of 9"
        assert run.remark == ("" if status == "finished" else words)


def test_a_narrow_terminal_gets_several_tables() -> None:
    methods = [MethodRobustness(f"method-{n}", [one(NOISE), one(NOISE, seed=1)]) for n in range(6)]
    made = tables(methods, 80)
    assert len(made) > 1
    assert all(Console(width=1000).measure(table).maximum <= 80 for table in made)
    heads = [column.header for table in made for column in table.columns if str(column.header).startswith("method")]
    assert heads == [f"method-{n}" for n in range(6)]


def test_the_csv_has_a_line_for_each_run_and_corruption() -> None:
    methods = [MethodRobustness("fedavg", [one(NOISE), one(NOISE, seed=1)]), MethodRobustness("fedsam", [one(NOISE)])]
    rows = list(csv.DictReader(as_csv(methods).splitlines()))
    assert len(rows) == 3 * 4
    assert list(rows[0]) == [
        *("method", "seed", "path", "round", "corruption", "family", "severity", "accuracy", "source", "faithful")
    ]
    assert [(row["method"], row["seed"]) for row in rows[::4]] == [("fedavg", "0"), ("fedavg", "1"), ("fedsam", "0")]
    assert rows[1]["corruption"] == "gaussian_noise" and float(rows[1]["accuracy"]) == 0.5


def test_what_cannot_be_drawn() -> None:
    mixed = [MethodRobustness("a", [one(NOISE)]), MethodRobustness("b", [one(NOISE, measure="miou")])]
    with pytest.raises(ConfigError, match="measured by accuracy and miou, which one figure cannot show"):
        draw(mixed, [])
    with pytest.raises(ConfigError, match="nothing to draw"):
        draw([MethodRobustness("a", [one({})])], [])
