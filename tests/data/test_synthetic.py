"""Synthetic data: like those of a named data set in everything that a model or a partition sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from cli.command import flatfed
from flatfed.core.errors import ConfigError
from flatfed.core.task.metrics import SEGMENTATION
from flatfed.data import datasets, load, source
from flatfed.data.catalogue import find, usual_partition
from flatfed.data.sources.made_up.drawn_examples import ExampleMaker
from flatfed.data.sources.made_up.originals import ORIGINALS
from flatfed.data.sources.made_up.synthetic import Like
from flatfed.data.storage.pool import Pool, fingerprint

OWN = {"client-csv", "hugging-face", "image-folder", "table", "texts"}
"""Data of the user's own, which can be like anything."""


def made(like: str, **options: Any) -> Pool:
    small = {"train": 40, "test": 20} | ({} if like == "dbpedia14" else {"size": 16})
    return load("synthetic", like=like, **(small | options))


def test_every_published_data_set_has_synthetic_data_like_it() -> None:
    modules = {name for name in datasets() if find(name).load.__module__.startswith("flatfed.")}
    assert modules - OWN - {"synthetic"} == set(ORIGINALS) == set(get_args(Like))


@pytest.mark.parametrize("like", ORIGINALS)
def test_classes_and_clients_are_those_of_the_original(like: str) -> None:
    original, expected = ORIGINALS[like], find(like).expected
    assert bool(original.owner) == (find(like).partition == "natural")
    assert usual_partition("synthetic", {"like": like}) == find(like).partition
    if expected is None:
        return
    assert original.classes == expected.classes
    groups = dict(expected.groups)
    if original.owner:
        assert groups.pop(original.owner) == original.owners
    assert groups.items() <= original.groups.items()


def test_digits_are_as_the_real_ones_are() -> None:
    real, synthetic = load("digits"), load("synthetic", like="digits")
    inputs, targets = (pool.train.batch(torch.arange(2)) for pool in (real, synthetic))
    assert inputs[0].shape == targets[0].shape and inputs[0].dtype == targets[0].dtype
    assert real.facts == synthetic.facts and real.classes == synthetic.classes
    assert real.default_model == synthetic.default_model and real.class_names == synthetic.class_names


@pytest.mark.parametrize("like", ORIGINALS)
def test_it_is_named_synthetic_and_decided_by_its_seed_alone(like: str) -> None:
    torch.manual_seed(1)
    first = made(like)
    torch.manual_seed(2)
    assert fingerprint(first) == fingerprint(made(like))
    assert fingerprint(first) != fingerprint(made(like, seed=1))
    assert first.name == f"synthetic like {like}"
    assert len(first.train) == 40 and len(first.test) == 20
    assert list(first.tests) == list(ORIGINALS[like].tests)


@pytest.mark.parametrize("like", [name for name, original in ORIGINALS.items() if original.owner])
def test_every_client_by_nature_has_examples(like: str) -> None:
    pool, original = made(like), ORIGINALS[like]
    owners = next(iter(pool.groups.values()))
    assert set(owners.tolist()) == set(range(min(10, original.owners)))


def test_clients_and_the_test_domain_can_be_chosen() -> None:
    users = made("landmarks-user-160k", clients=7).groups["user"]
    assert len(users.unique()) == 7
    art, product = made("officehome"), made("officehome", target="Product")
    assert torch.equal(art.train.batch(torch.arange(40))[0], product.train.batch(torch.arange(40))[0])
    assert not torch.equal(art.test.batch(torch.arange(20))[0], product.test.batch(torch.arange(20))[0])


def test_pictures_keep_the_form_of_the_original() -> None:
    assert load("synthetic", train=2, test=2).train.batch(torch.arange(2))[0].shape == (2, 3, 32, 32)
    inputs, masks = made("cityscapes").train.batch(torch.arange(2))
    assert inputs.shape == (2, 3, 16, 32) and masks.shape == (2, 16, 32) and masks.dtype == torch.int64
    assert made("cityscapes").metrics.shown is SEGMENTATION
    texts = made("dbpedia14").train.batch(torch.arange(40))[0]
    assert texts.shape == (40, 128) and int(texts.min()) >= 0 and int(texts.max()) < 30_000


@pytest.mark.parametrize("like", ["cifar10", "digits", "dbpedia14"])
def test_the_nearest_class_mean_finds_most_classes(like: str) -> None:
    pool = load("synthetic", like=like, train=400, test=100)
    means, test = _class_means(pool), _features(pool, pool.test)
    _, targets = pool.test.batch(torch.arange(100))
    taken = torch.cdist(test, means).argmin(dim=1)
    assert float((taken == targets).double().mean()) > 0.8


def _class_means(pool: Pool) -> torch.Tensor:
    features = _features(pool, pool.train)
    return torch.stack([features[pool.labels == label].mean(dim=0) for label in range(pool.classes)])


def _features(pool: Pool, examples: Any) -> torch.Tensor:
    """Return pixels, or for texts how often each word occurs."""
    inputs, _ = examples.batch(torch.arange(len(examples)))
    if "vocabulary" not in pool.facts:
        return inputs.flatten(1).float()
    counts = torch.zeros(len(inputs), pool.facts["vocabulary"])
    counts.scatter_add_(1, inputs.long(), torch.ones(inputs.shape))
    counts[:, 0] = 0
    return counts


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"like": "cifar11"}, "cifar10"),
        ({"like": "cifar10", "clients": 5}, "no clients by nature"),
        ({"like": "pacs", "clients": 5}, "3 clients by nature"),
        ({"like": "officehome", "target": "Artt"}, "Art"),
        ({"like": "idda", "train": 4, "size": 16}, "data.train"),
    ],
)
def test_what_cannot_be_is_a_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load("synthetic", **options)


def test_a_run_says_that_its_data_are_synthetic(tmp_path: Path) -> None:
    done = flatfed(
        *("run", "synthetic", "fedavg", "--set", "data.like=mnist-writers", "--set", "data.size=8", "--rounds", "1"),
        *("--model", "logreg", "--out", str(tmp_path / "run")),
    )
    assert done.code == 0
    assert "synthetic(like=mnist-writers" in done.err + done.out
    assert '"dataset": "synthetic"' in (tmp_path / "run" / "config.json").read_text()
    assert '"id": "natural"' in (tmp_path / "run" / "config.json").read_text()


def test_a_list_says_it_too() -> None:
    assert datasets()["synthetic"].startswith("Synthetic data")


def test_another_data_set_may_follow_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from flatfed.data.catalogue import registry

    monkeypatch.setattr(registry, "_sources", dict(registry._sources))
    source("follower", follows="model_of")(lambda model_of="": load("digits"))
    assert usual_partition("follower", {"model_of": "pacs"}) == "natural"
    assert usual_partition("follower", {"model_of": "no such"}) == "dirichlet"
    assert usual_partition("follower") == "dirichlet"


def test_an_owner_has_one_tint_in_every_part() -> None:
    drawing = ExampleMaker(ORIGINALS["mnist-writers"], (1, 8, 8), seed=0, owners=20)
    assert torch.equal(drawing.tints(torch.arange(5)), drawing.tints(torch.arange(20))[:5])
