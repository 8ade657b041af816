"""The data sets `officehome` and `pacs`: domains as clients, one of them held out for the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from data.pictures import write_classes
from data.training import same_bits
from flatfed.core.errors import ConfigError
from flatfed.data import catalogue, load
from flatfed.data.directory import DataDirectory
from flatfed.data.storage.lazy import LazyImages
from flatfed.experiments.tasks.recipe import TaskRecipe
from flatfed.models import models

SMALL: dict[str, Any] = {"size": 16, "crop": 12}
SETS = {
    "officehome": ("OfficeHomeDataset_10072016", ["Art", "Clipart", "Product", "Real World"]),
    "pacs": ("PACS", ["art_painting", "cartoon", "photo", "sketch"]),
}
CLASSES = {"dog": 20, "house": 10, "tree": 11}


def write(root: Path, name: str = "pacs", folder: str | None = None) -> Path:
    """Write four domains of 41 images each."""
    place, domains = SETS[name]
    for number, domain in enumerate(domains):
        write_classes(root / (folder or place) / domain, CLASSES, seed=10_000 * number, ending=".jpg")
    return root


def files(examples: Any) -> list[str]:
    assert isinstance(examples, LazyImages)
    return list(examples.decode.files)  # type: ignore[attr-defined]


def domains_of(examples: Any) -> list[str]:
    return [Path(file).parts[-3] for file in files(examples)]


@pytest.mark.parametrize("name", SETS)
def test_one_domain_is_the_test_and_the_others_are_clients(tmp_path: Path, name: str) -> None:
    root, domains = write(tmp_path, name), SETS[name][1]
    for target in domains:
        pool = load(name, root, target=target, memory=0, **SMALL)
        others = [domain for domain in domains if domain != target]
        assert set(domains_of(pool.test)) == {target} and len(pool.test) == 41
        assert [others[d] for d in pool.groups["domain"].tolist()] == domains_of(pool.train)
        assert (len(pool.train), len(pool.tests["seen"])) == (3 * 37, 3 * 4)
        assert pool.classes == 3 and dict(pool.facts) == {"in_channels": 3, "image_size": 12}
    assert pool.default_model in models() and catalogue.find(name).partition == "natural"


def test_the_seen_test_is_a_tenth_of_each_class_and_domain(tmp_path: Path) -> None:
    pool = load("pacs", write(tmp_path), memory=0, **SMALL)
    kinds = [tuple(Path(file).parts[-3:-1]) for file in files(pool.tests["seen"])]
    counts = {kind: kinds.count(kind) for kind in kinds}
    expected = {(d, c): round(0.1 * n) for d in SETS["pacs"][1][1:] for c, n in CLASSES.items()}
    assert counts == expected
    everything = [*files(pool.train), *files(pool.tests["seen"]), *files(pool.test)]
    assert len(everything) == len(set(everything)) == 4 * 41
    again = load("pacs", tmp_path, memory=0, target="photo", **SMALL)
    shared = {f for f in files(again.tests["seen"]) if "/photo/" not in f and "/art_painting/" not in f}
    assert shared == {f for f in files(pool.tests["seen"]) if "/photo/" not in f}


@pytest.mark.parametrize("split", [2, 7])
def test_a_domain_is_divided_among_several_clients(tmp_path: Path, split: int) -> None:
    pool = load("pacs", write(tmp_path), memory=0, split=split, **SMALL)
    assert list(pool.groups) == ["client", "domain"]
    clients, domains = pool.groups["client"], pool.groups["domain"]
    sizes = clients.bincount()
    assert len(sizes) == 3 * split and int(sizes.max() - sizes.min()) <= 1
    assert torch.equal(clients // split, domains)
    recipe = TaskRecipe("pacs", None, {"id": "natural"}, data_dir=str(tmp_path), data_options={**SMALL, "split": split})
    assert len(recipe.parts()) == 3 * split
    by_domain = {"id": "natural", "by": "domain"}
    recipe = TaskRecipe("pacs", None, by_domain, data_dir=str(tmp_path), data_options={**SMALL, "split": split})
    assert [len(part) for part in recipe.parts()] == [37, 37, 37]


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("name", SETS)
def test_a_share_of_each_class_and_domain_is_trained_on(tmp_path: Path, name: str, share: float) -> None:
    root = write(tmp_path, name)
    whole = load(name, root, memory=0, **SMALL)
    pool = load(name, root, memory=0, share=share, **SMALL)
    kinds = [Path(file).parts[-3:-1] for file in files(pool.train)]
    left = {c: n - round(0.1 * n) for c, n in CLASSES.items()}
    expected = {(d, c): max(1, round(share * n)) for d in SETS[name][1][1:] for c, n in left.items()}
    assert {kind: kinds.count(kind) for kind in kinds} == expected
    assert set(files(pool.train)) <= set(files(whole.train))
    assert files(pool.test) == files(whole.test) and files(pool.tests["seen"]) == files(whole.tests["seen"])
    assert files(load(name, root, memory=0, share=share, **SMALL).train) == files(pool.train)
    if share == 1.0:
        assert files(pool.train) == files(whole.train)


def test_a_share_is_the_same_for_every_seed_and_is_divided_among_the_clients(tmp_path: Path) -> None:
    given = {**SMALL, "memory": 0, "share": 0.5, "split": 3}
    recipes = [
        TaskRecipe("pacs", None, {"id": "natural"}, seed=seed, data_dir=str(write(tmp_path)), data_options=given)
        for seed in (0, 1)
    ]
    parts = [[part.tolist() for part in recipe.parts()] for recipe in recipes]
    assert parts[0] == parts[1]
    sizes = [len(part) for part in parts[0]]
    assert len(sizes) == 9 and max(sizes) - min(sizes) <= 1 and sum(sizes) == len(recipes[0].pool().train)


def test_a_class_is_never_lost(tmp_path: Path) -> None:
    for domain in SETS["pacs"][1]:
        write_classes(tmp_path / "PACS" / domain, {"dog": 2, "house": 12})
    pool = load("pacs", tmp_path, memory=0, share=0.01, **SMALL)
    assert sorted(pool.labels.tolist()) == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("name", "folder"),
    [("officehome", "OfficeHome"), ("officehome", "office_home"), ("pacs", "PACS/kfold"), ("pacs", "pacs")],
)
def test_other_names_of_the_folder_are_known(tmp_path: Path, name: str, folder: str) -> None:
    assert load(name, write(tmp_path, name, folder), **SMALL).classes == 3


def test_names_of_domains_may_be_spelled_otherwise(tmp_path: Path) -> None:
    root = write(tmp_path, "officehome")
    (root / "OfficeHomeDataset_10072016" / "Real World").rename(root / "OfficeHomeDataset_10072016" / "RealWorld")
    for target in ("Real World", "real-world", "RealWorld", "real_world"):
        assert set(domains_of(load("officehome", root, target=target, memory=0, **SMALL).test)) == {"RealWorld"}
    with pytest.raises(ConfigError, match="unknown domain 'Cliparts'; did you mean 'Clipart'"):
        load("officehome", root, target="Cliparts")


def test_bad_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"pacs: .*PACS/kfold or .* is missing"):
        load("pacs", tmp_path)
    place = write(tmp_path) / "PACS"
    (place / "photo").rename(tmp_path / "photo")
    with pytest.raises(ConfigError, match=r"PACS/photo is missing; there must be a folder for each of art_painting, "):
        load("pacs", tmp_path)
    (place / "photo").mkdir()
    with pytest.raises(ConfigError, match=r"PACS/photo has no folders; it must have one for each class"):
        load("pacs", tmp_path)
    (place / "photo").rmdir()
    (tmp_path / "photo").rename(place / "photo")
    (place / "photo" / "dog").rename(tmp_path / "dog")
    with pytest.raises(ConfigError, match=r"PACS/photo has no folder for the class 'dog'; 3 classes are expected"):
        load("pacs", tmp_path)
    (place / "photo" / "dog").mkdir()
    with pytest.raises(ConfigError, match=r"photo/dog has no images"):
        load("pacs", tmp_path)
    (tmp_path / "dog" / "000.jpg").rename(place / "photo" / "dog" / "000.jpg")
    (place / "photo" / "dog" / "000.jpg").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"photo/dog/000\.jpg cannot be read as an image"):
        load("pacs", tmp_path, **SMALL)


def test_one_image_of_each_class_is_too_few(tmp_path: Path) -> None:
    for domain in SETS["pacs"][1]:
        write_classes(tmp_path / "PACS" / domain, dict.fromkeys(CLASSES, 1))
    with pytest.raises(ConfigError, match=r"PACS has one image of each class and domain; there must be more"):
        load("pacs", tmp_path, **SMALL)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"split": 0}, "data.split must be at least 1"),
        ({"split": 50}, "pacs: 50 clients cannot share the 37 images of cartoon"),
        ({"target": 3}, "data.target must be text"),
        ({"share": 0.0}, "data.share must be greater than 0"),
        ({"share": 1.5}, "data.share must be .*at most 1"),
        ({"share": 0.1, "split": 6}, "pacs: 6 clients cannot share the 4 images of cartoon"),
        ({"crop": 20}, "crop must be at most size, 16, not 20"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        load("pacs", write(tmp_path), **{**SMALL, **options})


@pytest.mark.parametrize("memory", [1.0, 1e-5])
def test_domains_train_with_the_same_bits_on_workers(tmp_path: Path, memory: float) -> None:
    recipe = TaskRecipe(
        "pacs",
        partition={"id": "natural"},
        model="cnn-small",
        data_dir=str(write(tmp_path)),
        data_options={**SMALL, "memory": memory},
    )
    run = same_bits(recipe)
    assert {"test_accuracy", "seen_accuracy"} <= set(run.history[-1])


@pytest.mark.parametrize(("name", "images", "classes"), [("officehome", 15_588, 65), ("pacs", 9_991, 7)])
def test_the_official_sets_have_the_published_numbers(name: str, images: int, classes: int) -> None:
    folders = {"officehome": ("OfficeHomeDataset_10072016", "OfficeHome"), "pacs": ("PACS",)}[name]
    if not any((DataDirectory().path / folder).exists() for folder in folders):
        pytest.skip(f"{name} is not in the data directory")
    pool = load(name, memory=0)
    assert (len(pool.train) + len(pool.test) + len(pool.tests["seen"]), pool.classes) == (images, classes)
