"""Measured values beside published ones: which metric belongs to which, and in which unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flatfed.published.wording import value_text
from flatfed.reports.page.page_tables import published_table
from flatfed.reports.results.result import OneRun, Result
from flatfed.reports.tables import beside_published as beside

DIRICHLET = {"id": "dirichlet", "alpha": 0.0, "prior": "uniform", "size_sigma": 0.0}
SETTINGS = {"rounds": 20000, "local_epochs": 1, "lr": 0.01, "batch_size": 64, "weight_decay": 4e-4, "momentum": 0.0}


def result(
    method: str, data: dict[str, Any], metrics: dict[str, Any], row: dict[str, float], summary: dict[str, float]
) -> Result:
    """Return a finished run of a method, with one row of a history."""
    config = {
        "method": method,
        "algorithm": {"id": method},
        "average": None,
        "sampler": {"id": "uniform", "count": 5},
        "settings": SETTINGS | {"seed": 0},
        "task": {"kind": "catalogue", "dataset": data["name"]},
        "setting": {
            "data": {"options": data.get("options", {})},
            "clients": {"count": data["clients"]},
            "partition": data["partition"],
            "model": {"name": data["model"], "options": {}},
        },
        "metrics": metrics,
        "test_sets": data.get("tests", ["test"]),
    }
    run = OneRun(Path(method), config, {"status": "finished", "last_count": 1} | summary, [{"round": 0} | row])
    return Result(method, [run])


ACCURACY = {"accuracy": {"label": "accuracy", "unit": "%", "higher_is_better": True}}
CIFAR100 = {"name": "cifar100", "clients": 100, "partition": DIRICHLET, "model": "cnn"}


def on_cifar100(**summary: float) -> Result:
    return result("fedavg", CIFAR100, ACCURACY, {"test_accuracy": 0.3}, {"accuracy_last_mean": 0.3} | summary)


def by_metric(found: dict[str, list[beside.Beside]], method: str) -> dict[str, set[str]]:
    """Return what was published of each metric."""
    printed: dict[str, set[str]] = {}
    for line in found[method]:
        printed.setdefault(line.match.value.metric, set()).add(line.match.value.printed)
    return printed


def test_shares_are_shown_in_per_cent() -> None:
    (line, *_) = beside.beside_published([on_cifar100()])["fedavg"]
    assert line.measured == (pytest.approx(30.0), None)
    assert line.match.value.metric == "accuracy_pct"


def test_flatness_stands_beside_flatness_where_it_was_measured() -> None:
    without = by_metric(beside.beside_published([on_cifar100()]), "fedavg")
    assert without.keys() == {"accuracy_pct"}
    both = by_metric(beside.beside_published([on_cifar100(lambda_max=80.0, lambda_ratio=1.5)]), "fedavg")
    assert both.keys() == {"accuracy_pct", "lambda_max", "lambda_max_over_lambda_5"}
    # FedGloSS, Table 8; FedGF, Table 2; FedSAM, Table 1, with one local epoch and with two.
    assert {"93.46", "110.62"} <= both["lambda_max"]


def test_several_metrics_have_a_column() -> None:
    results = [on_cifar100(lambda_max=80.0)]
    shown = beside.terminal_table(results)
    assert shown is not None
    assert [column.header for column in shown.columns][:3] == ["method", "metric", "measured"]
    alone = beside.terminal_table([on_cifar100()])
    assert alone is not None
    assert [column.header for column in alone.columns][:2] == ["method", "measured"]


def test_seen_and_unseen_domains_are_not_confused() -> None:
    idda = {
        "name": "idda",
        "options": {"scenario": "rainy", "lists": "heterogeneous"},
        "clients": 69,
        "partition": {"id": "natural", "by": ""},
        "model": "bisenetv2",
        "tests": ["test", "unseen"],
    }
    miou = {"miou": {"label": "mIoU", "unit": "%", "higher_is_better": True}}
    row = {"test_miou": 0.4, "unseen_miou": 0.2}
    summary = {"test_miou_last_mean": 0.4, "unseen_miou_last_mean": 0.2}
    found = beside.beside_published([result("fedsam", idda, miou, row, summary)])["fedsam"]
    pairs = {(line.match.value.extras[-1], line.measured and round(line.measured[0])) for line in found}
    assert pairs == {("test=seen", 40), ("test=unseen", 20)}
    assert "39.65" in {line.match.value.printed for line in found if "test=seen" in line.match.value.extras}


def test_a_run_that_has_not_been_evaluated_has_no_measured_value() -> None:
    begun = result("fedavg", CIFAR100, ACCURACY, {"test_accuracy": 0.3}, {})
    lines = beside.beside_published([begun])["fedavg"]
    assert lines
    assert all(line.measured is None for line in lines)
    assert all(record["measured"] is None for record in beside.as_json([begun])["fedavg"])


def test_the_nearest_comes_first() -> None:
    lines = beside.beside_published([on_cifar100()])["fedavg"]
    counts = [len(line.match.differences) + len(line.match.unstated) for line in lines]
    assert counts == sorted(counts)
    assert counts[0] == 0


def test_a_page_shows_the_same_values_a_line_for_each_number() -> None:
    found = on_cifar100(accuracy_last_mean=0.4)
    table = published_table([found])
    assert table is not None
    lines = [[cell["text"] for cell in row] for row in table["rows"]]
    values = beside.beside_published([found])[found.method]
    assert {line[3] for line in lines} == {value_text(one.match.value) for one in values}
    assert len({tuple(line) for line in lines}) == len(lines)
    assert all(line[0] == found.method for line in lines)
