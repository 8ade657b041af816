"""Where BatchNorm's statistics come from in evaluation: every policy computed again in plain torch."""

from __future__ import annotations

import copy
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import flatfed as ff
from core.bench import CLASSES, INPUTS, Pairs, net, normed, pairs, seeded, task, train

POLICIES = ("running", "batch-stats", "recalibrate")
LOCAL = ("bn", "bn-stats")
AVERAGES = {"none": None, "swa": ff.SWA(start=0.25, cycle=2, lr_low=0.05), "wima": ff.WIMA(window=2)}
SMALL = ((6, 8, 3, 6), 29)  # clients and test set, both one batch
LARGE = ((300, 250, 163), 513)  # both two batches of unequal size
Batches = list[Tensor]


def deep() -> nn.Module:
    """Two BatchNorm layers, so that the second sees what the first makes of a batch, and dropout."""

    def make() -> nn.Module:
        first = [nn.Linear(INPUTS, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.5)]
        return nn.Sequential(*first, nn.Linear(6, 5), nn.BatchNorm1d(5, momentum=0.3), nn.Tanh(), nn.Linear(5, CLASSES))

    return seeded(make).double()


def problem(sizes: tuple[tuple[int, ...], int] = SMALL, model: nn.Module | None = None, **changes: Any) -> ff.Task:
    return task(model or deep(), pairs(sizes[0]), **{"test": pairs((sizes[1],), 5)[0], **changes})


def evaluated(rounds: int = 2) -> dict[str, Any]:
    return {"cohorts": [[0, 1, 2]] * rounds, "evaluate_every": 1}


def halves(n: int) -> list[tuple[int, int]]:
    """Divide n examples into the fewest parts of at most 512, each as long as the next or one shorter."""
    parts = math.ceil(n / 512)
    sizes = [n // parts + (i >= parts - n % parts) for i in range(parts)]
    assert sum(sizes) == n and max(sizes) - min(sizes) <= 1 and max(sizes) <= 512
    return [(sum(sizes[:i]), size) for i, size in enumerate(sizes)]


def figures(model: nn.Module, x: Tensor, y: Tensor, own_statistics: bool) -> tuple[float, float]:
    """Return loss and accuracy in inference mode, perhaps with BatchNorm alone in training mode."""
    model = copy.deepcopy(model).eval()
    for layer in model.modules():
        if own_statistics and isinstance(layer, nn.BatchNorm1d):
            layer.train()
    with torch.no_grad():
        outputs = torch.cat([model(x[i : i + n]) for i, n in halves(len(x))])
    return float(cross_entropy(outputs, y)), float((outputs.argmax(1) == y).double().mean())


def reported(run: ff.Run, round: int = -1) -> tuple[float, float]:
    return run.history[round]["test_loss"], run.history[round]["test_accuracy"]


def close(actual: tuple[float, float], expected: tuple[float, float]) -> bool:
    return actual == pytest.approx(expected, rel=1e-12)


class Recorder:
    """Gives inputs on as they are and keeps them: what the model saw, from outside."""

    def __init__(self) -> None:
        self.seen: Batches = []

    def __call__(self, inputs: Tensor) -> Tensor:
        self.seen.append(inputs.clone())
        return inputs

    def of_size(self, *sizes: int) -> Batches:
        return [batch for batch in self.seen if len(batch) in sizes]


def estimated(model: nn.Module, batches: Batches) -> dict[str, Tensor]:
    """Return the mean over batches of each BatchNorm input's mean and unbiased variance."""
    model, seen = copy.deepcopy(model).eval(), {}
    for name, layer in model.named_modules():
        if isinstance(layer, nn.BatchNorm1d):
            layer.train()
            layer.register_forward_pre_hook(lambda _, inputs, name=name: seen[name].append(inputs[0]))
            seen[name] = []
    with torch.no_grad():
        for batch in batches:
            model(batch)
    means = {f"{n}.running_mean": torch.stack([x.mean(0) for x in xs]).mean(0) for n, xs in seen.items()}
    return means | {f"{n}.running_var": torch.stack([x.var(0) for x in xs]).mean(0) for n, xs in seen.items()}


def same_examples(batches: Batches, clients: Pairs) -> bool:
    def counted(parts: Batches) -> Counter[tuple[float, ...]]:
        return Counter(tuple(row) for part in parts for row in part.tolist())

    return counted(batches) == counted([x for x, _ in clients])


# --- running and batch-stats ------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [SMALL, LARGE], ids=["29", "513"])
@pytest.mark.parametrize("policy", ["running", "batch-stats"])
def test_the_figures_are_those_of_the_model_evaluated_by_hand(policy: str, sizes: Any) -> None:
    run = train(problem(sizes), **evaluated(), eval_stats=policy)
    expected = figures(run.model(), *pairs((sizes[1],), 5)[0], own_statistics=policy == "batch-stats")
    other = figures(run.model(), *pairs((sizes[1],), 5)[0], own_statistics=policy == "running")
    assert close(reported(run), expected)
    assert not close(reported(run), other)


@pytest.mark.parametrize("count", [512, 513, 1025, 2])
def test_test_batches_are_few_and_of_nearly_equal_size(count: int) -> None:
    seen = Recorder()
    train(problem(((20, 20, 20), count), prepare=seen), **evaluated(1), eval_stats="batch-stats")
    batches = [batch for batch in seen.seen if len(batch) != 20]
    assert sorted(map(len, batches)) == sorted(size for _, size in halves(count))
    assert torch.equal(torch.cat(batches), pairs((count,), 5)[0][0])


@pytest.mark.parametrize("local", LOCAL)
def test_without_global_statistics_each_batch_has_its_own(local: str) -> None:
    run = train(problem(LARGE, local=local), **evaluated())
    assert close(reported(run), figures(run.model(), *pairs((513,), 5)[0], own_statistics=True))
    for layer in run.model():
        if isinstance(layer, nn.BatchNorm1d):
            assert torch.equal(layer.running_mean, torch.zeros_like(layer.running_mean))


def test_evaluation_with_batch_statistics_leaves_the_stored_ones_alone() -> None:
    own, plain = (train(problem(), **evaluated(), eval_stats=policy).model() for policy in ("batch-stats", "running"))
    assert all(torch.equal(own.state_dict()[name], tensor) for name, tensor in plain.state_dict().items())


# --- recalibrate ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [SMALL, LARGE], ids=["one batch", "two batches"])
@pytest.mark.parametrize("local", [None, *LOCAL])
def test_recalibration_is_the_mean_over_batches_of_all_examples(local: str | None, sizes: Any) -> None:
    seen, more = Recorder(), {} if local is None else {"local": local}
    run = train(problem(sizes, prepare=seen, **more), **evaluated(1), eval_stats="recalibrate")
    chosen = [size for _, size in halves(sum(sizes[0]))]
    batches = seen.of_size(*chosen)
    assert sorted(map(len, batches)) == sorted(chosen)
    assert same_examples(batches, pairs(sizes[0]))
    model = run.model()
    for name, expected in estimated(model, batches).items():
        torch.testing.assert_close(model.state_dict()[name], expected, rtol=1e-12, atol=1e-14)
    assert close(reported(run), figures(model, *pairs((sizes[1],), 5)[0], own_statistics=False))


def test_batches_are_mixed_over_the_clients() -> None:
    seen = Recorder()
    train(problem(LARGE, prepare=seen), **evaluated(1), eval_stats="recalibrate")
    owner = {tuple(row): k for k, (x, _) in enumerate(pairs(LARGE[0])) for row in x.tolist()}
    for batch in seen.of_size(356, 357):
        shares = Counter(owner[tuple(row)] for row in batch.tolist())
        assert all(abs(shares[k] / len(batch) - n / 713) < 0.1 for k, n in enumerate(LARGE[0]))


def test_of_many_examples_ten_thousand_are_drawn_once_a_run() -> None:
    sizes = ((4100, 4100, 4100), 29)
    seen = Recorder()
    run = train(problem(sizes, normed(), prepare=seen), **evaluated(2), eval_stats="recalibrate")
    batches = seen.of_size(500)
    assert len(batches) == 2 * 20
    first, second = torch.cat(batches[:20]), torch.cat(batches[20:])
    assert torch.equal(first, second)
    assert len(torch.unique(first, dim=0)) == 10_000
    model = run.model()
    for name, expected in estimated(model, batches[20:40]).items():
        torch.testing.assert_close(model.state_dict()[name], expected, rtol=1e-12, atol=1e-14)


def test_the_sample_follows_the_seed() -> None:
    samples = []
    for seed in (0, 1):
        seen = Recorder()
        train(problem(LARGE, prepare=seen), **evaluated(1), eval_stats="recalibrate", seed=seed)
        samples.append(seen.of_size(356)[0])
    assert not torch.equal(*samples)


def test_recalibration_sees_no_augmentation() -> None:
    seen = Recorder()
    shifted = problem(prepare=seen, augment=lambda inputs, generator: inputs + 100.0)
    train(shifted, **evaluated(1), eval_stats="recalibrate")
    assert same_examples(seen.of_size(23), pairs(SMALL[0]))
    assert sum(bool((batch > 90).all()) for batch in seen.seen) == 3


@pytest.mark.parametrize("name", AVERAGES)
def test_an_average_has_statistics_of_its_own(name: str) -> None:
    seen = Recorder()
    average = AVERAGES[name]
    run = train(problem(prepare=seen), **evaluated(4), eval_stats="recalibrate", average=average)
    model = run.model()
    for key, expected in estimated(model, seen.of_size(23)[-1:]).items():
        torch.testing.assert_close(model.state_dict()[key], expected, rtol=1e-12, atol=1e-14)
    flat = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    assert torch.equal(flat, run.eval_vector)
    assert torch.equal(run.eval_vector, run.vector) == (average is None)
    assert close(reported(run), figures(model, *pairs((29,), 5)[0], own_statistics=False))


def test_statistics_that_are_not_tracked_are_the_batch_s_under_every_policy() -> None:
    model = seeded(lambda: nn.Sequential(nn.Linear(INPUTS, 5), nn.BatchNorm1d(5, track_running_stats=False))).double()
    results = [
        reported(train(problem(model=model), **evaluated(), eval_stats=policy, workers=workers))
        for policy in POLICIES
        for workers in (0, 2)
        if workers == 0 or policy == "recalibrate"
    ]
    assert len(set(results)) == 1


# --- what the policy may not change -----------------------------------------------------------------------


@pytest.mark.parametrize("average", [None, ff.WIMA(window=2)], ids=["plain", "wima"])
@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedsmoo"])
def test_no_policy_changes_training(method: str, average: Any) -> None:
    def run(policy: str) -> ff.Run:
        return train(problem(), ff.make(method), **evaluated(3), eval_stats=policy, average=average, batch_size=4)

    runs = [run(policy) for policy in POLICIES]
    for other in runs[1:]:
        assert torch.equal(other.vector, runs[0].vector)
        assert [row["train_loss"] for row in other.history] == [row["train_loss"] for row in runs[0].history]
        assert [row["bytes_up"] for row in other.history] == [row["bytes_up"] for row in runs[0].history]
        assert [row["backprops"] for row in other.history] == [row["backprops"] for row in runs[0].history]
    assert len({reported(r) for r in runs}) == 3


@pytest.mark.parametrize("policy", POLICIES)
def test_workers_do_not_matter(policy: str) -> None:
    alone, pool = (
        train(problem(LARGE), **evaluated(), eval_stats=policy, batch_size=100, workers=workers) for workers in (0, 2)
    )
    assert torch.equal(alone.vector, pool.vector)
    assert [reported(alone, t) for t in (0, 1)] == [reported(pool, t) for t in (0, 1)]
    assert all(torch.equal(alone.model().state_dict()[n], t) for n, t in pool.model().state_dict().items())


@pytest.mark.parametrize("policy", POLICIES)
def test_without_batchnorm_every_policy_gives_the_same_figures(policy: str) -> None:
    plain, chosen = (train(task(net()), evaluate_every=1, eval_stats=p) for p in (None, policy))
    assert reported(chosen) == reported(plain)
    assert all(torch.equal(chosen.model().state_dict()[n], t) for n, t in plain.model().state_dict().items())


# --- the record -------------------------------------------------------------------------------------------


def recorded(path: Path) -> str:
    return str(json.loads((path / "config.json").read_text())["settings"]["eval_stats"])


@pytest.mark.parametrize(("local", "policy"), [(None, "running"), ("bn", "batch-stats"), ("bn-stats", "batch-stats")])
def test_the_default_is_written_down(local: str | None, policy: str, tmp_path: Path) -> None:
    more = {} if local is None else {"local": local}
    run = train(problem(**more), **evaluated(), out=tmp_path / "run")
    assert recorded(tmp_path / "run") == policy
    assert reported(run) == reported(train(problem(**more), **evaluated(), eval_stats=policy))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_resumed_run_keeps_its_policy(policy: str, tmp_path: Path) -> None:
    whole = train(problem(), **evaluated(4), eval_stats=policy)
    train(problem(), **evaluated(4), eval_stats=policy, rounds=2, out=tmp_path / "run")
    resumed = ff.resume(tmp_path / "run", rounds=4)
    assert recorded(tmp_path / "run") == policy
    assert [reported(resumed, t) for t in range(4)] == [reported(whole, t) for t in range(4)]
    assert all(torch.equal(resumed.model().state_dict()[n], t) for n, t in whole.model().state_dict().items())


@pytest.mark.parametrize("local", LOCAL)
def test_running_statistics_that_do_not_exist_are_refused(local: str) -> None:
    with pytest.raises(ff.ConfigError, match=r"stay on the clients, .*; take batch-stats or recalibrate .*eval_stats"):
        train(problem(local=local), eval_stats="running")


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ff.ConfigError, match=r"eval_stats must be one of 'running', 'batch-stats', 'recalibrate'"):
        train(problem(), eval_stats="batch_stats")
