"""IDDA in the layout of FedDrive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import flatfed as ff
from data.scenes import HEIGHT, WIDTH, write_mask, write_scene
from flatfed.core.errors import ConfigError
from flatfed.data import load
from flatfed.experiments.tasks.recipe import TaskRecipe

OPTIONS: dict[str, Any] = {"size": f"{HEIGHT}x{WIDTH}", "test_size": "4x6", "crop": "4x6"}
DOMAINS = ("T01_CN_A", "T02_CS_B", "T07_HRN_V")


def names(domain: str, number: int) -> tuple[str, str]:
    return f"{domain}/RGB/{number}_{domain}.jpg", f"{domain}/Semantic/{number}_{domain}.png"


def write_list(path: Path, users: dict[str, list[tuple[str, int]]]) -> None:
    entries = {}
    for user, members in users.items():
        pairs = [names(*member) for member in members]
        entries[user] = {"x": [x for x, _ in pairs], "y": [y for _, y in pairs]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"users": list(users), "num_samples": [0] * len(users), "user_data": entries}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write five pictures of each of three domains, larger than asked for, and lists in which the third is unseen."""
    base = tmp_path / "idda"
    for place, domain in enumerate(DOMAINS):
        for number in range(5):
            image, mask = (base / "IDDAsmall" / name for name in names(domain, number))
            write_scene(image, mask, [0, 1, 7, 10, 20, 23], 10 * place + number, (2 * HEIGHT, 2 * WIDTH))
    first, second, third = DOMAINS
    tests = {
        "test_user_diff_domain": [(third, n) for n in range(5)],
        "test_user_same_domain": [(first, 4), (second, 4)],
    }
    trains = {
        "heterogeneous": {first: [(first, n) for n in range(4)], second: [(second, n) for n in range(3)]},
        "uniform": {"client0": [(first, 0), (second, 1)], "client1": [(first, 2)]},
    }
    for lists, users in trains.items():
        write_list(base / lists / "country" / "train" / "train_clients.json", users)
        write_list(base / lists / "country" / "test" / "test_clients.json", tests)
    return tmp_path


def test_domains_are_the_clients_and_tests_are_seen_and_unseen(folder: Path) -> None:
    pool = load("idda", folder, **OPTIONS)
    assert (len(pool.train), len(pool.test), len(pool.tests["unseen"]), pool.classes) == (7, 2, 5, 16)
    assert {k: v.tolist() for k, v in pool.groups.items()} == {k: [0] * 4 + [1] * 3 for k in ("client", "domain")}
    images, masks = pool.train.batch(torch.arange(7))
    assert (images.shape, masks.shape) == ((7, 3, HEIGHT, WIDTH), (7, HEIGHT, WIDTH))
    assert set(masks.unique().tolist()) <= {255, 2, 0, 13, 10}
    assert pool.test.batch(torch.arange(2))[0].shape == (2, 3, 4, 6)


def test_uniform_clients(folder: Path) -> None:
    pool = load("idda", folder, lists="uniform", **OPTIONS)
    assert pool.groups["client"].tolist() == [0, 0, 1]
    assert pool.groups["domain"].tolist() == [0, 1, 0]


def test_values_become_sixteen_classes(folder: Path) -> None:
    values = np.array([*range(30), *[0] * (HEIGHT * WIDTH - 30)])
    write_mask(folder / "idda" / "IDDAsmall" / names(DOMAINS[0], 0)[1], values.reshape(HEIGHT, WIDTH))
    mask = load("idda", folder, **OPTIONS).train.batch(torch.tensor([0]))[1].flatten().tolist()
    road, sidewalk, building, wall, fence, pole, light, sign, vegetation, terrain, sky = range(11)
    person, rider, car, motorcycle, bicycle = range(11, 16)
    expected = [255, building, fence, 255, person, pole, road, road, sidewalk, vegetation, car, wall, sign, light]
    expected += [255, 255, bicycle, motorcycle, rider, terrain, sky, *[255] * 9]
    assert mask[:30] == expected


def test_what_is_missing_or_wrong_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"idda: .*IDDAsmall is missing"):
        load("idda", tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="heterogeneous/rainy/train holds no lists of clients"):
        load("idda", folder, scenario="rainy", **OPTIONS)
    with pytest.raises(ConfigError, match="lists must be one of 'heterogeneous', 'uniform'"):
        load("idda", folder, lists="mixed", **OPTIONS)
    tests = folder / "idda" / "heterogeneous" / "country" / "test" / "test_clients.json"
    write_list(tests, {"test_user_same_domain": [(DOMAINS[0], 4)]})
    assert load("idda", folder, **OPTIONS).tests == {}
    write_list(tests, {"someone": [(DOMAINS[0], 4)]})
    with pytest.raises(
        ConfigError, match=r"country/test: none of the test clients is called \*same_domain\*; there are someone"
    ):
        load("idda", folder, **OPTIONS)
    write_list(tests, {"test_user_same_domain": [(DOMAINS[0], 9)]})
    with pytest.raises(ConfigError, match=r"9_T01_CN_A\.jpg is missing .*; .*heterogeneous/country/test names it"):
        load("idda", folder, **OPTIONS)


def test_training_reports_both_tests_and_the_same_bits_in_workers(folder: Path) -> None:
    given: dict[str, Any] = {"partition": {"id": "natural"}, "model": "data.scenes:Tiny", "local_layers": "bn-stats"}
    task = TaskRecipe("idda", data_dir=str(folder), data_options=OPTIONS | {"memory": 0.0}, **given).build()
    settings: dict[str, Any] = {"rounds": 2, "sampling": 2, "lr": 0.1, "batch_size": 2, "eval_stats": "batch-stats"}
    runs = [ff.train(task, ff.make("fedasam"), **settings, workers=workers) for workers in (0, 2)]
    assert torch.equal(runs[0].vector, runs[1].vector)
    row = runs[0].history[-1]
    assert {"test_miou", "unseen_miou", "unseen_loss"} <= row.keys()
    assert row["unseen_class_iou"] == runs[1].history[-1]["unseen_class_iou"]
