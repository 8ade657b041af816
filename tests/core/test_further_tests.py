"""`Task(tests=...)`: further test sets with figures of their own, accuracy by class, and the size of test batches."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import flatfed as ff
from core.bench import CLASSES, SIZES, net, normed, pairs, same_run, task, train
from flatfed.core.round.federation import TIMES
from records import rewrite
from runs.bench import in_new_process

ALL = list(range(len(SIZES)))
SEEN, UNSEEN, RARE = (pairs((n,), seed)[0] for n, seed in ((9, 5), (13, 6), (4, 7)))
FIGURES = ("loss", "accuracy", "class_accuracy")


def problem(**changes: Any) -> ff.Task:
    return task(**{"tests": {"unseen": UNSEEN, "rare": RARE}, **changes})


def figures_of(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {figure: row[f"{name}_{figure}"] for figure in FIGURES}


def by_hand(run: ff.Run, x: Tensor, y: Tensor) -> dict[str, Any]:
    """Return the figures of a run's model in plain torch."""
    with torch.no_grad():
        outputs = run.model().eval()(x)
    answers, truth = outputs.argmax(1).tolist(), y.tolist()
    right = [a == t for a, t in zip(answers, truth, strict=True)]
    shares: list[float | None] = []
    for label in range(CLASSES):
        mine = [r for r, t in zip(right, truth, strict=True) if t == label]
        shares.append(sum(mine) / len(mine) if mine else None)
    known = [r for r, t in zip(right, truth, strict=True) if t >= 0]
    loss = pytest.approx(float(cross_entropy(outputs, y)), rel=1e-12)
    return {"loss": loss, "accuracy": sum(known) / len(known), "class_accuracy": shares}


def without_seconds(run: ff.Run) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in TIMES} for row in run.history]


# --- figures ----------------------------------------------------------------------------------------------


def test_every_set_has_its_figures_under_its_name() -> None:
    run = train(problem(), evaluate_every=1)
    for name, (x, y) in {"test": SEEN, "unseen": UNSEEN, "rare": RARE}.items():
        assert figures_of(run.history[-1], name) == by_hand(run, x, y), name
    losses = [run.history[-1][f"{name}_loss"] for name in ("test", "unseen", "rare")]
    assert len(set(losses)) == 3
    assert all(f"{name}_{figure}" in row for row in run.history for name in ("unseen", "rare") for figure in FIGURES)


def test_they_are_measured_in_the_rounds_that_are_evaluated() -> None:
    run = train(problem(), cohorts=[ALL] * 5, evaluate_every=2, evaluate_last=0)
    assert [row["round"] for row in run.history if "unseen_loss" in row] == [1, 3, 4]
    assert [row["round"] for row in run.history if "test_loss" in row] == [1, 3, 4]


def test_they_change_nothing_else() -> None:
    plain, more = train(task(), evaluate_every=1), train(problem(), evaluate_every=1)
    assert same_run(plain, more, len(SIZES))
    without = dict.fromkeys(TIMES)
    assert (more.summary | without).items() >= (plain.summary | without).items()
    for a, b in zip(without_seconds(plain), without_seconds(more), strict=True):
        assert b.items() >= a.items()
        assert {name.partition("_")[0] for name in b.keys() - a.keys()} == {"unseen", "rare"}


def test_a_further_set_may_be_the_only_one() -> None:
    run = train(problem(test=None))
    assert not [name for name in run.history[-1] if name.startswith("test")]
    assert figures_of(run.history[-1], "unseen") == by_hand(run, *UNSEEN)
    assert run.summary["accuracy_final"] is None


def test_a_further_set_may_be_a_dataset() -> None:
    given = train(problem(tests={"unseen": TensorDataset(*UNSEEN)}))
    assert figures_of(given.history[-1], "unseen") == figures_of(train(problem()).history[-1], "unseen")


def test_preparation_is_for_every_set_and_augmentation_for_none() -> None:
    run = train(problem(prepare=tripled, augment=lambda inputs, generator: inputs + 100))
    for name, (x, y) in {"test": SEEN, "unseen": UNSEEN}.items():
        assert figures_of(run.history[-1], name) == by_hand(run, 3 * x, y)


def tripled(inputs: Tensor) -> Tensor:
    return 3 * inputs


def test_a_regression_has_a_loss_alone() -> None:
    def squared(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.mean(1) - targets).square().mean()

    clients = [(x, y.double()) for x, y in pairs()]
    tests = {name: (x, y.double()) for name, (x, y) in {"test": SEEN, "unseen": UNSEEN}.items()}
    run = train(task(clients=clients, test=tests.pop("test"), tests=tests, loss=squared))
    assert "unseen_loss" in run.history[-1]
    assert "unseen_accuracy" not in run.history[-1] and "unseen_class_accuracy" not in run.history[-1]


# --- accuracy by class ------------------------------------------------------------------------------------


def test_a_class_without_examples_has_no_accuracy(tmp_path: Path) -> None:
    x, y = UNSEEN
    kept = y != 1
    run = train(problem(tests={"unseen": (x[kept], y[kept])}), out=tmp_path / "run")
    row = run.history[-1]
    assert figures_of(row, "unseen") == by_hand(run, x[kept], y[kept])
    assert row["unseen_class_accuracy"][1] is None
    assert row["test_class_accuracy"] == by_hand(run, *SEEN)["class_accuracy"]
    [*_, line] = (tmp_path / "run/history.jsonl").read_text().splitlines()
    assert json.loads(line)["unseen_class_accuracy"] == row["unseen_class_accuracy"]


def test_the_last_class_may_be_the_missing_one() -> None:
    x, y = UNSEEN
    kept = y < CLASSES - 1
    run = train(problem(tests={"unseen": (x[kept], y[kept])}))
    shares = run.history[-1]["unseen_class_accuracy"]
    assert len(shares) == CLASSES
    assert shares == by_hand(run, x[kept], y[kept])["class_accuracy"]
    assert shares[-1] is None and None not in shares[:-1]


def test_negative_targets_are_not_counted() -> None:
    x, y = UNSEEN
    hidden = y.clone()
    hidden[::3] = -100
    run = train(problem(tests={"unseen": (x, hidden), "known": (x[hidden >= 0], y[hidden >= 0]), "whole": (x, y)}))
    row = run.history[-1]
    assert figures_of(row, "unseen") == by_hand(run, x, hidden)
    assert row["unseen_accuracy"] == row["known_accuracy"]
    assert row["unseen_class_accuracy"] == row["known_class_accuracy"]
    assert row["unseen_loss"] == pytest.approx(row["known_loss"], rel=1e-12)
    assert row["unseen_loss"] != pytest.approx(row["whole_loss"], rel=1e-3)


def test_a_target_for_each_pixel() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 2, 3, 3, generator=generator, dtype=torch.float64)
    y = torch.randint(0, CLASSES - 1, (4, 3, 3), generator=generator)
    y[0, 0], y[2, 1, 1] = -100, -100
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = torch.nn.Conv2d(2, CLASSES, 3, padding=1).double()
    run = train(ff.Task(model, [(x, y)], tests={"unseen": (x, y)}), cohorts=[[0]])
    with torch.no_grad():
        right = run.model()(x).argmax(1) == y
    row = run.history[-1]
    assert row["unseen_accuracy"] == float(right.sum()) / int((y >= 0).sum())
    known = [float(right[y == c].double().mean()) for c in range(CLASSES - 1)]
    assert row["unseen_class_accuracy"] == [pytest.approx(share, rel=1e-12) for share in known] + [None]


# --- refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["test", "train", "model", "update", "global", "class", "un seen", "un-seen", "", "2nd", "a.b", "a/b"]
)
@pytest.mark.parametrize("test", [None, SEEN], ids=["alone", "besides"])
def test_names_that_cannot_be(name: str, test: Any) -> None:
    with pytest.raises(ff.ConfigError, match="cannot be called") as refused:
        task(test=test, tests={name: UNSEEN})
    assert repr(name) in str(refused.value)


@pytest.mark.parametrize("name", ["unseen", "tests", "test2", "Unseen_1", "domäne"])
def test_names_that_can(name: str) -> None:
    assert f"{name}_accuracy" in train(task(tests={name: UNSEEN}), cohorts=[[0]]).history[-1]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ((UNSEEN[0][:0], UNSEEN[1][:0]), "the unseen set is empty"),
        ((UNSEEN[0], UNSEEN[1][:3]), "unseen: 13 inputs but 3 targets"),
        ("unseen.csv", "unseen must be a pair of tensors"),
        (None, "unseen must be a pair of tensors"),
    ],
    ids=["empty", "uneven", "text", "none"],
)
def test_sets_that_cannot_be(given: Any, reason: str) -> None:
    with pytest.raises(ff.ConfigError, match=reason):
        task(tests={"unseen": given})


def test_one_example_has_no_batch_statistics() -> None:
    one = (UNSEEN[0][:1], UNSEEN[1][:1])
    with pytest.raises(ff.ConfigError, match="the unseen set: a batch of one example"):
        train(task(normed(), tests={"unseen": one}), eval_stats="batch-stats")


# --- the size of test batches -----------------------------------------------------------------------------


@pytest.mark.parametrize("model", [net, normed])
def test_with_running_statistics_the_size_of_test_batches_changes_nothing(model: Any) -> None:
    whole = train(problem(model=model()), evaluate_every=1)
    for size in (1, 4, 13):
        run = train(problem(model=model(), test_batch=size), evaluate_every=1)
        assert same_run(run, whole, len(SIZES))
        for a, b in zip(run.history, whole.history, strict=True):
            for name in ("test", "unseen", "rare"):
                loss = pytest.approx(b[f"{name}_loss"], rel=1e-12)
                assert figures_of(a, name) == figures_of(b, name) | {"loss": loss}


def test_no_test_batch_is_larger_than_asked_for() -> None:
    shown: list[int] = []

    def noting(inputs: Tensor) -> Tensor:
        shown.append(len(inputs))
        return inputs

    train(problem(prepare=noting, test_batch=4, clients=pairs((20,))), cohorts=[[0]])
    assert sorted(shown) == [3, 3, 3, 3, 3, 3, 4, 4, 20]


def test_with_batch_statistics_it_says_which_examples_go_together() -> None:
    settings = {"evaluate_every": 1, "eval_stats": "batch-stats"}
    whole, halves = (train(problem(model=normed(), test_batch=size), **settings) for size in (512, 7))
    assert torch.equal(whole.vector, halves.vector)
    assert whole.history[-1]["unseen_loss"] != halves.history[-1]["unseen_loss"]
    model = halves.model().train()
    x, y = UNSEEN
    with torch.no_grad():
        outputs = torch.cat([model(x[:6]), model(x[6:])])
    assert halves.history[-1]["unseen_loss"] == pytest.approx(float(cross_entropy(outputs, y)), rel=1e-12)


@pytest.mark.parametrize("size", [0, -1])
def test_a_test_batch_has_an_example(size: int) -> None:
    with pytest.raises(ff.ConfigError, match=f"test_batch must be a whole number of at least 1, not {size}"):
        task(test_batch=size)


# --- workers and directories ------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["running", "batch-stats", "recalibrate"])
def test_workers_do_not_matter(policy: str) -> None:
    runs = [
        train(problem(model=normed(), test_batch=4), evaluate_every=1, eval_stats=policy, workers=workers)
        for workers in (0, 2)
    ]
    assert same_run(*runs, len(SIZES))
    assert without_seconds(runs[0]) == without_seconds(runs[1])
    assert "unseen_class_accuracy" in runs[1].history[-1]


@dataclass(frozen=True)
class Blur:
    """A batch_transform augmentation with something to remember."""

    share: float

    def __call__(self, inputs: Tensor, targets: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        noise = torch.rand(inputs.shape, generator=generator, dtype=inputs.dtype)
        return torch.lerp(inputs, noise, self.share), targets


WITH_ALL = {"batch_transform": Blur(0.3), "test_batch": 5}
HOW = {"cohorts": [ALL] * 3, "batch_size": 3, "evaluate_every": 1, "eval_stats": "batch-stats"}
RESUME = """
import json, sys
import flatfed as ff
from flatfed.core.round.federation import TIMES
run = ff.resume(sys.argv[1], 3)
print(json.dumps([{n: v for n, v in row.items() if n not in TIMES} for row in run.history]))
"""


def test_a_directory_alone_keeps_further_tests_joint_and_test_batch(tmp_path: Path) -> None:
    whole = train(problem(model=normed(), **WITH_ALL), **HOW)
    train(problem(model=normed(), **WITH_ALL), **HOW, rounds=2, out=tmp_path / "run")
    recipe = json.loads((tmp_path / "run/config.json").read_text())["task"]
    assert recipe["kind"] == "tensors"
    assert (recipe["test_batch"], recipe["batch_transform"]["fields"]) == (5, {"share": 0.3})
    assert recipe["tests"] == {"unseen": {"count": 13}, "rare": {"count": 4}}
    done = in_new_process("-c", RESUME, str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == without_seconds(whole)
    for change in ({"batch_transform": None}, {"test_batch": 512}):  # each of them shows in the figures
        other = train(problem(model=normed(), **(WITH_ALL | change)), **HOW)
        assert other.history[-1]["unseen_loss"] != whole.history[-1]["unseen_loss"]


def test_a_directory_without_them_is_a_task_without_them(tmp_path: Path) -> None:
    train(task(), out=tmp_path / "run")
    config = json.loads((tmp_path / "run/config.json").read_text())
    for name in ("tests", "batch_transform", "test_batch"):
        del config["task"][name]
    elsewhere = shutil.copytree(tmp_path / "run", tmp_path / "elsewhere")
    rewrite(elsewhere / "config.json", config)
    assert ff.load_run(elsewhere).metrics() == train(task()).metrics()
