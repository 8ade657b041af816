"""Batches too small to have statistics of their own: refused before training where it matters, left out elsewhere."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import flatfed as ff
from core.bench import normed, pairs, seeded, task, train

THREE = pairs((3,), 5)[0]


def test_a_cut_that_leaves_one_example_is_refused() -> None:
    with pytest.raises(ff.ConfigError, match=r"the test set: a batch of one example .* another test_batch"):
        train(task(normed(), test=THREE, test_batch=2), eval_stats="batch-stats")
    train(task(normed(), test=THREE, test_batch=3), eval_stats="batch-stats", evaluate_every=1)


def test_one_picture_has_statistics_where_its_pixels_do() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2))

    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(5, 1, 3, 3, generator=generator, dtype=torch.float64), torch.tensor([0, 1, 0, 1, 0])
    problem = ff.Task(seeded(make).double(), [(x, y)] * 2, test=(x, y), test_batch=1)
    run = train(problem, eval_stats="batch-stats", evaluate_every=1)
    assert run.history[-1]["test_loss"] > 0


def test_a_client_with_one_example_has_no_figures() -> None:
    clients = [*pairs((5, 4)), pairs((1,), 3)[0]]
    run = train(task(normed(), clients), cohorts=[[0, 1]] * 2, eval_stats="batch-stats")
    figures = run.client_metrics()
    assert [("loss" in entry, entry["samples"]) for entry in figures] == [(True, 5), (True, 4), (False, 1)]
