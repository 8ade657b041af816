"""Values at given rounds and the improvement over a baseline: columns, CSV and JSON."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from flatfed.core.errors import ConfigError
from flatfed.reports.results.result import Result
from flatfed.reports.results.results import collect
from flatfed.reports.tables.columns import columns
from flatfed.reports.tables.extras import Extras, Target
from flatfed.reports.tables.table import aggregates, as_csv, caption, cells, headings, notes, records
from reports.disk import write_run


@pytest.fixture
def results(tmp_path: Path) -> list[Result]:
    return collect(
        [
            write_run(tmp_path / "a0", "fedavg", 0, (0.2, 0.4, None, 0.5)),
            write_run(tmp_path / "a1", "fedavg", 1, (0.4, 0.4, None, 0.5)),
            write_run(tmp_path / "b0", "fedsam", 0, (0.3, 0.6, 0.5, 0.7)),
        ]
    )


def test_the_metric_at_rounds(results: list[Result]) -> None:
    extras = Extras(at=(1, 3))
    made = columns(results, extras)
    assert headings(results, extras)[4:6] == ["at 1", "at 3"]
    assert [cells(result, made)[4:6] for result in results] == [["30.00 ± 14.14", "–"], ["30.00", "50.00"]]
    assert notes(results, extras) == ["at 3: there is no evaluation of fedavg after that round"]
    assert notes(results, Extras(at=(9,))) == ["at 9: there is no evaluation after that round"]
    assert "at n: after n rounds" in caption(results, extras)


def test_the_metric_at_rounds_for_machines(results: list[Result]) -> None:
    extras = Extras(at=(1, 3))
    lines = list(csv.DictReader(io.StringIO(as_csv(results, extras))))
    assert [(line["at_1"], line["at_3"]) for line in lines] == [("0.2", ""), ("0.4", ""), ("0.3", "0.5")]
    fedavg, fedsam = aggregates(results, extras)
    assert fedavg["at_1"] == pytest.approx(0.3) and fedavg["at_1_std"] == pytest.approx(0.02**0.5)
    assert (fedavg["at_3"], fedsam["at_3"], fedsam["at_3_std"]) == (None, 0.5, None)


def test_the_improvement_is_in_points_and_in_per_cent_of_the_baseline(results: list[Result]) -> None:
    extras = Extras(baseline="fedavg")
    made = columns(results, extras)
    assert [" ".join(head.split()) for head in headings(results, extras)[4:6]] == [
        "points over fedavg",
        "% over fedavg",
    ]
    assert [cells(result, made)[4:6] for result in results] == [["+0.00", "+0.00"], ["+10.00", "+20.00"]]
    fedavg, fedsam = aggregates(results, extras)
    assert (fedavg["improvement"], fedsam["baseline"]) == (0.0, "fedavg")
    assert fedsam["improvement"] == pytest.approx(0.1) and fedsam["improvement_relative"] == pytest.approx(0.2)
    assert [record["improvement"] for record in records(results, extras)] == [0.0, 0.0, pytest.approx(0.1)]


def test_a_baseline_without_a_value(tmp_path: Path) -> None:
    bad = write_run(tmp_path / "a", "fedavg", accuracies=(0.1,), status="diverged", rounds=3)
    actual = collect([bad, write_run(tmp_path / "b", "fedsam")])
    made = columns(actual, Extras(baseline="fedavg"))
    assert [cells(result, made)[4:6] for result in actual] == [["–", "–"], ["–", "–"]]


def test_an_unknown_baseline_is_refused(results: list[Result]) -> None:
    with pytest.raises(ConfigError, match=r"baseline: unknown method here 'fedavgg'; did you mean 'fedavg'"):
        columns(results, Extras(baseline="fedavgg"))


def test_nothing_is_shown_that_was_not_asked_for(results: list[Result]) -> None:
    names = {name for record in (*records(results), *aggregates(results)) for name in record}
    assert not {"improvement", "baseline"} & names and not [name for name in names if name.startswith("at_")]


def test_they_survive_a_file() -> None:
    extras = Extras((5, 10), (Target.parse("0.75"), Target.parse("fedavg:best")), "fedavg")
    assert Extras.from_dict(extras.to_dict()) == extras
    assert Extras.from_dict({}) == Extras()
