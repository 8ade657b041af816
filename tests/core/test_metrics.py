"""What a task's metrics return: plain numbers and lists for the history, and how each number is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import flatfed as ff
from core.bench import task, train
from flatfed.core.task.metrics import metric_values


class Fixed:
    """Metrics with one number, whatever the model says."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def measure(self, outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"n": torch.tensor(float(len(targets)))}

    def summarise(self, totals: Any) -> dict[str, Any]:
        return {"fixed": self.value}


TOTALS = {"loss": torch.tensor(2.0), "counted": torch.tensor(4.0)}
TABLE = [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (0.5, 0.5),
        (3, 3),
        (None, None),
        (True, 1.0),
        (torch.tensor(0.5), 0.5),
        (torch.tensor(0.5, requires_grad=True), 0.5),
        (torch.tensor(7), 7),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.int64(7), 7),
        (np.array(0.5), 0.5),
        (torch.tensor([0.5, 1.0]), [0.5, 1.0]),
        (np.array(TABLE), TABLE),
        ([torch.tensor(0.5), None, np.float32(2)], [0.5, None, 2.0]),
        ((0.5, float("nan")), [0.5, None]),
        (torch.tensor([1.0, float("inf")]), [1.0, None]),
    ],
)
def test_numbers_become_plain(value: Any, plain: Any) -> None:
    actual = metric_values(Fixed(value), TOTALS)
    assert actual == {"loss": 0.5, "fixed": plain}
    assert type(actual["fixed"]) is type(plain)
    assert json.loads(json.dumps(actual)) == actual


@pytest.mark.parametrize("value", ["0.5", {"a": 1.0}, torch.tensor(1j), [0.5, "x"], object()])
def test_anything_else_is_an_error_that_names_the_metric(value: Any) -> None:
    with pytest.raises(ff.ConfigError, match=r"the metric 'fixed' is a .*; summarise must return numbers"):
        metric_values(Fixed(value), TOTALS)


def test_summarise_returns_numbers_by_name() -> None:
    class Bare(Fixed):
        def summarise(self, totals: Any) -> Any:
            return 0.5

    with pytest.raises(ff.ConfigError, match=r"summarise of Bare must return numbers by name, not 0\.5"):
        metric_values(Bare(None), TOTALS)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_tensor_reaches_the_history_and_the_directory(workers: int, tmp_path: Path) -> None:
    run = train(task(metrics=Fixed(torch.tensor(0.25))), out=tmp_path / "run", workers=workers)
    assert run.history[-1]["test_fixed"] == 0.25
    assert json.loads((tmp_path / "run/history.jsonl").read_text().splitlines()[-1])["test_fixed"] == 0.25
    assert run.summary["test_fixed_final"] == 0.25


def test_how_numbers_are_shown_is_recorded(tmp_path: Path) -> None:
    metrics = Fixed(1.5)
    metrics.shown = {"fixed": ff.Shown("a number", "m", higher_is_better=False), "other": None}  # type: ignore[attr-defined]
    train(task(metrics=metrics), out=tmp_path / "run")
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["metrics"] == {"fixed": {"label": "a number", "unit": "m", "higher_is_better": False}, "other": None}
    assert config["test_sets"] == ["test"]


@pytest.mark.parametrize("shown", [["fixed"], {"fixed": "%"}, {"fixed": True}])
def test_a_bad_declaration_is_refused_before_anything_is_trained(shown: Any) -> None:
    metrics = Fixed(1.0)
    metrics.shown = shown  # type: ignore[attr-defined]
    with pytest.raises(ff.ConfigError, match=r"Fixed\.shown must be numbers by name"):
        task(metrics=metrics)


@pytest.mark.parametrize("given", [{"label": 1}, {"unit": None}, {"higher_is_better": "yes"}])
def test_shown_checks_its_fields(given: dict[str, Any]) -> None:
    with pytest.raises(ff.ConfigError, match="Shown"):
        ff.Shown(**given)
