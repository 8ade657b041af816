"""Predictions as JSON and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from flatfed.core.task.task import Task
from flatfed.experiments.predicting.predictions import Prediction


def as_json(task: Task, predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    """Return the predictions, ready for JSON."""
    return [_entry(task, prediction) for prediction in predictions]


def _entry(task: Task, prediction: Prediction) -> dict[str, Any]:
    if prediction.number is None:
        return {"input": prediction.name, "outputs": list(prediction.outputs)}
    by_name = {task.class_name(number): value for number, value in enumerate(prediction.outputs)}
    return {
        "input": prediction.name,
        "class": prediction.number,
        "class_name": prediction.label,
        "probability": prediction.probability,
        "probabilities": by_name,
    }


def as_csv(task: Task, predictions: Sequence[Prediction]) -> str:
    """Return a row for each prediction: input, class, probability, and a column for each class."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    count = len(predictions[0].outputs) if predictions else 0
    if predictions and predictions[0].number is None:
        writer.writerow(["input", *(f"output {number}" for number in range(count))])
        writer.writerows([one.name, *map(repr, one.outputs)] for one in predictions)
        return text.getvalue()
    writer.writerow(["input", "class", "probability", *map(task.class_name, range(count))])
    for one in predictions:
        writer.writerow([one.name, one.label, repr(one.probability), *map(repr, one.outputs)])
    return text.getvalue()
