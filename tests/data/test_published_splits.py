"""Partitions of the real CIFAR labels, beside the splits that the authors published."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from flatfed.data import PAM, Dirichlet, FromFile, LongTail, Pathological, describe
from flatfed.data.directory import DataDirectory
from flatfed.data.partition import Ints, class_counts

HERE = DataDirectory().path
SPLITS = HERE / "cifar-fed-splits.npz"
NEEDED = [SPLITS, HERE / "cifar-10-batches-bin" / "data_batch_1.bin", HERE / "cifar-100-binary" / "train.bin"]
pytestmark = pytest.mark.skipif(
    not all(path.is_file() for path in NEEDED),
    reason=f"needs {', '.join(str(path) for path in NEEDED if not path.is_file())}",
)

PUBLISHED = {
    ("cifar10", "0.00"): (1.0, 1, 1),
    ("cifar10", "0.05"): (1.32, 1, 3),
    ("cifar10", "0.10"): (1.54, 1, 4),
    ("cifar10", "0.20"): (2.19, 1, 5),
    ("cifar10", "0.50"): (3.57, 1, 7),
    ("cifar10", "1.00"): (4.78, 1, 9),
    ("cifar10", "10.00"): (9.28, 3, 10),
    ("cifar10", "100.00"): (9.90, 6, 10),
    ("cifar100", "0.00"): (1.0, 1, 1),
    ("cifar100", "0.50"): (5.13, 2, 13),
    ("cifar100", "1000.00"): (98.82, 42, 100),
}


@functools.cache
def labels_of(dataset: str, coarse: bool = False) -> Ints:
    if dataset == "cifar10":
        files = [HERE / "cifar-10-batches-bin" / f"data_batch_{i}.bin" for i in range(1, 6)]
        return np.concatenate([np.fromfile(f, np.uint8).reshape(-1, 3073)[:, 0] for f in files]).astype(np.int64)
    rows = np.fromfile(HERE / "cifar-100-binary" / "train.bin", np.uint8).reshape(-1, 3074)
    return rows[:, 0 if coarse else 1].astype(np.int64)


def published(dataset: str, alpha: str) -> list[Ints]:
    rule = FromFile(path=str(SPLITS), key=f"{dataset}_alpha_{alpha}")
    return rule.divide(labels_of(dataset), {}, None, seed=0)


@pytest.mark.parametrize(("dataset", "alpha"), PUBLISHED)
def test_the_published_splits_are_read(dataset: str, alpha: str) -> None:
    actual = describe(published(dataset, alpha), labels_of(dataset))
    mean, least, most = PUBLISHED[dataset, alpha]
    assert actual["classes_per_client"] == {"mean": pytest.approx(mean, abs=0.005), "min": least, "max": most}
    assert actual["clients"] == 100
    assert actual["unused"] == (dataset == "cifar10")
    assert actual["samples_per_client"]["max"] == 500


def features(parts: list[Ints], labels: Ints) -> list[float]:
    """Return mean and deviation of the classes per client and of the share of a client's largest class."""
    table = class_counts(parts, labels)
    held, largest = (table > 0).sum(axis=1), table.max(axis=1) / table.sum(axis=1)
    return [held.mean(), held.std(), largest.mean(), largest.std()]


@pytest.mark.parametrize(("dataset", "alpha"), PUBLISHED)
def test_a_published_split_could_be_one_of_ours(dataset: str, alpha: str) -> None:
    """Each feature of the file lies within 3.5 deviations of what 16 seeds of the rule have."""
    labels = labels_of(dataset)
    ours = [features(Dirichlet(alpha=float(alpha)).split(labels, 100, seed), labels) for seed in range(16)]
    distance = np.abs(features(published(dataset, alpha), labels) - np.mean(ours, axis=0))
    assert np.all(distance <= 3.5 * np.std(ours, axis=0) + 0.002)


def test_pathological_splits_of_the_papers() -> None:
    for dataset, gamma in (("cifar10", 6), ("cifar10", 3), ("cifar100", 20), ("cifar100", 10)):
        labels = labels_of(dataset)
        actual = describe(Pathological(classes_per_client=gamma).split(labels, 100, seed=0), labels)
        assert actual["classes_per_client"] == {"mean": gamma, "min": gamma, "max": gamma}
        assert actual["unused"] == 0


def test_cifar100_pam() -> None:
    fine, coarse = labels_of("cifar100"), labels_of("cifar100", coarse=True)
    parts = PAM().divide(fine, {"coarse": coarse}, None, seed=0)
    assert (len(parts), {len(part) for part in parts}) == (500, {100})
    assert 19 < describe(parts, fine)["classes_per_client"]["mean"] < 24


def test_cifar_long_tail() -> None:
    assert describe(LongTail().split(labels_of("cifar10"), 100, seed=0), labels_of("cifar10"))["samples"] == 12_400
