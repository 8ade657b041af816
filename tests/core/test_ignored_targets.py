"""Targets that a loss ignores: the mean loss is over those that count, however the test set is cut into batches."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

import flatfed as ff
from core.bench import CLASSES, pairs, task, train

X, Y = pairs((12,), 5)[0]


def ignoring(*positions: int) -> torch.Tensor:
    targets = Y.clone()
    targets[list(positions)] = -100
    return targets


@pytest.mark.parametrize("test_batch", [1, 2, 5, 12, 512])
def test_the_loss_does_not_depend_on_the_batches(test_batch: int) -> None:
    targets = ignoring(0, 1, 4, 11)
    run = train(task(test=(X, targets), test_batch=test_batch), evaluate_every=1)
    with torch.no_grad():
        outputs = run.model()(X)
    assert run.history[-1]["test_loss"] == pytest.approx(float(cross_entropy(outputs, targets)), rel=1e-12)
    counted = targets >= 0
    right = (outputs.argmax(1) == targets)[counted]
    assert run.history[-1]["test_accuracy"] == pytest.approx(float(right.double().mean()))
    assert run.status == "finished"


def test_a_set_without_a_single_target_has_no_figures() -> None:
    run = train(task(tests={"blank": (X, ignoring(*range(12)))}), evaluate_every=1)
    assert run.status == "finished"
    assert not [name for name in run.history[-1] if name.startswith("blank")]


@pytest.mark.parametrize("name", ["test_class", "unseen_class"])
def test_names_that_would_mix_up_are_refused(name: str) -> None:
    with pytest.raises(ff.ConfigError, match="would mix up"):
        task(tests={"unseen": (X, Y), name: (X, Y)})


@pytest.mark.parametrize(("tests", "words"), [([(X, Y)], "by name"), ({1: (X, Y)}, "cannot be called 1")])
def test_further_sets_have_names(tests: object, words: str) -> None:
    with pytest.raises(ff.ConfigError, match=words):
        task(tests=tests)


@pytest.mark.parametrize("size", [True, 2.0, "8"])
def test_a_test_batch_is_a_whole_number(size: object) -> None:
    with pytest.raises(ff.ConfigError, match="test_batch must be a whole number"):
        task(test_batch=size)


def test_metrics_may_count_for_themselves() -> None:
    class Halves:
        def measure(self, outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"counted": torch.tensor(2.0 * len(targets))}

        def summarise(self, totals: dict[str, torch.Tensor]) -> dict[str, float]:
            return {"counted": float(totals["counted"])}

    run = train(task(test=(X, Y), metrics=Halves(), test_batch=5), evaluate_every=1)
    with torch.no_grad():
        outputs = run.model()(X)
    assert outputs.shape == (12, CLASSES)
    assert run.history[-1]["test_counted"] == 24
    assert run.history[-1]["test_loss"] == pytest.approx(float(cross_entropy(outputs, Y)), rel=1e-12)
