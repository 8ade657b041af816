"""Which numbers a history holds of its test sets: declared ones, those of older runs, and their summaries."""

from __future__ import annotations

from typing import Any

import pytest

from flatfed.core.task.metrics import SEGMENTATION, Shown
from flatfed.runs.metrics import metrics_of, primary_of, summarise

COST = {"bytes_down": 1, "bytes_up": 1, "backprops": 1, "seconds": 1.0}


def rows(*values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"round": round, "train_loss": 1.0, **COST, **value} for round, value in enumerate(values)]


def config(shown: dict[str, Shown | None], *tests: str) -> dict[str, Any]:
    return {"metrics": {n: how and how.to_dict() for n, how in shown.items()}, "test_sets": list(tests)}


def names(history: list[dict[str, Any]], about: dict[str, Any] | None = None) -> list[str]:
    return [metric.column for metric in metrics_of(history, about)]


def test_of_a_classification_accuracy_is_primary() -> None:
    history = rows({"test_loss": 1.0, "test_accuracy": 0.5, "test_class_accuracy": [0.5]})
    assert names(history) == ["test_accuracy", "test_loss"]
    primary = primary_of(metrics_of(history))
    assert (primary.title, primary.axis, primary.stem) == ("test accuracy in %", "test accuracy (%)", "accuracy")


def test_of_a_regression_the_loss_is() -> None:
    primary = primary_of(metrics_of(rows({"test_loss": 1.0})))
    assert (primary.title, primary.shown.higher_is_better) == ("test loss", False)


def test_of_a_users_metrics_the_first_is() -> None:
    history = rows({"test_loss": 1.0, "test_f_one": 0.5, "test_accuracy": 0.9})
    about = config({}, "test")
    assert names(history, about) == ["test_f_one", "test_accuracy", "test_loss"]
    primary = primary_of(metrics_of(history, about))
    assert (primary.title, primary.shown.higher_is_better) == ("test f one", None)


def test_a_declaration_goes_before_the_order_of_summarise() -> None:
    history = rows({"test_loss": 1.0, "test_a": 0.5, "test_b": 0.5})
    about = config({"b": Shown("B", "m", higher_is_better=False), "a": None}, "test")
    assert names(history, about) == ["test_b", "test_a", "test_loss"]
    assert [metric.hidden for metric in metrics_of(history, about)] == [False, True, False]
    assert primary_of(metrics_of(history, about)).title == "test B in m"


@pytest.mark.parametrize("about", [None, config(dict(SEGMENTATION), "test", "unseen")], ids=["older", "declared"])
def test_of_segmentation_it_is_miou_also_in_older_runs(about: dict[str, Any] | None) -> None:
    one = {"loss": 1.0, "accuracy": 0.4, "miou": 0.4, "pixel_accuracy": 0.8, "class_iou": [0.4]}
    history = rows({f"{test}_{name}": value for test in ("test", "unseen") for name, value in one.items()})
    metrics = metrics_of(history, about)
    assert primary_of(metrics).title == "test mIoU in %"
    assert [m.column for m in metrics if m.hidden] == ["test_accuracy", "unseen_accuracy"]
    assert {"unseen_miou", "unseen_pixel_accuracy", "unseen_loss"} <= {m.column for m in metrics}


def test_before_the_first_evaluation_it_is_the_one_that_was_promised() -> None:
    assert primary_of([], config({"mae": Shown("MAE")}, "test")).title == "test MAE"
    assert primary_of([], None).title == "test accuracy in %"


def test_every_test_set_and_metric_is_summarised() -> None:
    values = [{"test_loss": 1.0, "test_mae": m, "unseen_loss": 2.0, "unseen_mae": 2 * m} for m in (3.0, 1.0, 2.0)]
    about = config({"mae": Shown(higher_is_better=False)}, "test", "unseen")
    actual = summarise(rows(*values), 3, 2, about)
    assert [actual[f"test_mae_{kind}"] for kind in ("final", "last_mean", "best")] == [2.0, 1.5, 1.0]
    assert [actual[f"unseen_mae_{kind}"] for kind in ("final", "last_mean", "best")] == [4.0, 3.0, 2.0]
    assert (actual["unseen_loss_last_mean"], actual["last_count"], actual["accuracy_final"]) == (2.0, 2, None)


def test_without_a_direction_there_is_no_best() -> None:
    assert summarise(rows({"test_loss": 1.0, "test_x": 3.0}), 1, 1)["test_x_best"] is None


def test_a_weight_average_is_summarised_beside_the_global_model() -> None:
    values = [{"test_loss": 1.0, "test_accuracy": a, "global_accuracy": a / 2} for a in (0.2, 0.8, 0.6)]
    for about in (None, config({}, "test")):
        actual = summarise(rows(*values), 3, 2, about)
        assert [actual[f"global_accuracy_{kind}"] for kind in ("final", "last_mean", "best")] == [0.3, 0.35, 0.4]
        assert actual["accuracy_final"] == 0.6
        assert [m.hidden for m in metrics_of(rows(*values), about) if m.test == "global"] == [True]


def test_seconds_of_clients_are_averaged_where_they_are_known() -> None:
    assert summarise(rows({"client_seconds": 1.0}, {"client_seconds": 3.0}), 2, 1)["client_seconds"] == 2.0
    assert "client_seconds" not in summarise(rows({}), 1, 1)
