"""Loss and figures of segmentation against naive ones, readers of pictures with masks, lazily decoded examples."""

from __future__ import annotations

import json
import math
import multiprocessing
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

import flatfed as ff
from data.scenes import HEIGHT, WIDTH, Image, tiny, write_mask, write_scene
from flatfed.core.errors import ConfigError, EngineError
from flatfed.core.round.federation import TIMES
from flatfed.core.task.metrics import add_up
from flatfed.data.formats.segmentation import (
    MaskLabels,
    Pairs,
    parse_size,
    read_client_lists,
    read_image,
    read_pair_list,
)
from flatfed.data.storage.lazy import LazyImages
from flatfed.data.storage.masks import MaskExamples
from flatfed.data.storage.segmentation import Segmentation, SegmentationLoss

CLASSES = 4


def batch(count: int, seed: int, ignored: float = 0.2, size: tuple[int, int] = (5, 6)) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(count, CLASSES, *size, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, CLASSES, (count, *size), generator=generator)
    targets[torch.rand(targets.shape, generator=generator) < ignored] = 255
    return scores, targets


# --- loss -----------------------------------------------------------------------------------------------------


def naive_loss(scores: np.ndarray[Any, Any], targets: np.ndarray[Any, Any], keep: float) -> float:
    """Compute the loss pixel by pixel."""
    images = []
    for image, mask in zip(scores, targets, strict=True):
        losses = []
        for i in range(mask.shape[0]):
            for j in range(mask.shape[1]):
                total = math.log(sum(math.exp(s) for s in image[:, i, j]))
                losses.append(0.0 if mask[i, j] == 255 else total - image[mask[i, j], i, j])
        count = max(1, int(keep * len(losses)))
        images.append(sum(sorted(losses, reverse=True)[:count]) / count)
    return sum(images) / len(images)


@pytest.mark.parametrize("keep", [0.01, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("ignored", [0.0, 0.3, 0.9])
def test_the_loss_is_that_of_the_hardest_pixels_of_each_image(keep: float, ignored: float) -> None:
    scores, targets = batch(3, 1, ignored)
    loss = SegmentationLoss(keep=keep)(scores, targets)
    assert float(loss) == pytest.approx(naive_loss(scores.numpy(), targets.numpy(), keep), rel=1e-12)


def test_auxiliary_outputs_add_up() -> None:
    (scores, targets), others = batch(2, 2), [batch(2, seed)[0] for seed in (3, 4)]
    parts = [naive_loss(s.numpy(), targets.numpy(), 0.25) for s in (scores, *others)]
    loss = SegmentationLoss()
    assert float(loss((scores, *others), targets)) == pytest.approx(sum(parts))
    assert float(SegmentationLoss(auxiliary=0.4)([scores, *others], targets)) == pytest.approx(
        parts[0] + 0.4 * (parts[1] + parts[2])
    )
    assert float(loss(scores, targets)) == pytest.approx(parts[0])
    assert float(SegmentationLoss(auxiliary=0.0)((scores, *others), targets)) == pytest.approx(parts[0])


def test_an_image_without_labels_contributes_nothing() -> None:
    scores, targets = batch(2, 5, 0.0)
    alone = SegmentationLoss()(scores[:1], targets[:1])
    targets[1] = 255
    scores.requires_grad_()
    loss = SegmentationLoss()(scores, targets)
    assert loss.item() == pytest.approx(alone.item() / 2)
    loss.backward()
    assert float(scores.grad[1].abs().sum()) == 0.0 and bool(scores.grad.isfinite().all())
    assert SegmentationLoss()(scores[1:], targets[1:]).item() == 0.0


def test_gradients_flow_into_the_kept_pixels_alone() -> None:
    scores, targets = batch(1, 6, 0.0)
    scores.requires_grad_()
    SegmentationLoss(keep=0.2)(scores, targets).backward()
    touched = scores.grad[0].abs().sum(dim=0) > 0
    losses = F.cross_entropy(scores.detach(), targets, reduction="none")[0]
    assert int(touched.sum()) == 6
    assert float(losses[touched].min()) > float(losses[~touched].max())


def test_the_loss_of_a_batch_is_the_mean_over_its_images_and_another_label_may_be_ignored() -> None:
    scores, targets = batch(4, 7)
    parts = [SegmentationLoss()(scores[i : i + 1], targets[i : i + 1]) for i in range(4)]
    assert float(SegmentationLoss()(scores, targets)) == pytest.approx(float(torch.stack(parts).mean()))
    other = targets.clone().masked_fill(targets == 255, -1)
    assert float(SegmentationLoss(ignore=-1)(scores, other)) == pytest.approx(float(torch.stack(parts).mean()))


@pytest.mark.parametrize("keep", [0.0, -1.0, 1.5, math.nan])
def test_a_share_outside_its_bounds(keep: float) -> None:
    with pytest.raises(ConfigError, match="keep must be above 0 and at most 1"):
        SegmentationLoss(keep=keep)


# --- figures --------------------------------------------------------------------------------------------------


def naive_figures(taken: np.ndarray[Any, Any], targets: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Count true and false positives and false negatives class by class."""
    known, shares = targets != 255, []
    for label in range(CLASSES):
        true, positive = (targets == label) & known, (taken == label) & known
        union = int((true | positive).sum())
        shares.append(int((true & positive).sum()) / union if true.any() else None)
    present = [share for share in shares if share is not None]
    mean = sum(present) / len(present)
    right = int((taken == targets)[known].sum()) / int(known.sum())
    return {"accuracy": mean, "miou": mean, "pixel_accuracy": right, "class_iou": shares}


MASKS = arrays(np.int64, (3, 2, 3), elements=st.sampled_from([*range(CLASSES), 255]))
GUESSES = arrays(np.int64, (3, 2, 3), elements=st.integers(0, CLASSES - 1))


@settings(deadline=None)
@given(targets=MASKS, taken=GUESSES, cut=st.integers(0, 3))
def test_figures_agree_with_naive_ones_over_any_division_into_batches(
    targets: np.ndarray[Any, Any], taken: np.ndarray[Any, Any], cut: int
) -> None:
    metrics = Segmentation(CLASSES)
    scores = F.one_hot(torch.from_numpy(taken), CLASSES).permute(0, 3, 1, 2).float()
    parts = [metrics.measure(scores[part], torch.from_numpy(targets)[part]) for part in (slice(cut), slice(cut, None))]
    figures = metrics.summarise(add_up(parts))
    if (targets == 255).all():
        assert figures == {}
        return
    expected = naive_figures(taken, targets)
    for name in ("accuracy", "miou", "pixel_accuracy"):
        assert figures[name] == pytest.approx(expected[name])
        assert 0.0 <= figures[name] <= 1.0
    assert figures["class_iou"] == [None if s is None else pytest.approx(s) for s in expected["class_iou"]]


def test_a_perfect_and_a_useless_guess() -> None:
    targets = torch.tensor([[[0, 1, 255], [2, 2, 255]]])
    scores = F.one_hot(targets.clamp(max=3), CLASSES).permute(0, 3, 1, 2).float()
    metrics = Segmentation(CLASSES)
    figures = metrics.summarise(metrics.measure(scores, targets))
    assert (figures["miou"], figures["pixel_accuracy"]) == (1.0, 1.0)
    assert figures["class_iou"] == [1.0, 1.0, 1.0, None]
    useless = metrics.summarise(metrics.measure((scores.roll(1, dims=1), scores), targets))
    assert (useless["miou"], useless["pixel_accuracy"]) == (0.0, 0.0)


def test_a_label_that_is_no_class() -> None:
    with pytest.raises(ConfigError, match=r"labels outside 0\.\.3, besides 255"):
        Segmentation(CLASSES).measure(torch.zeros(1, CLASSES, 1, 2), torch.tensor([[[0, 4]]]))


def test_loss_and_figures_pickle_and_compare() -> None:
    for thing in (SegmentationLoss(keep=0.5), Segmentation(19)):
        assert pickle.loads(pickle.dumps(thing)) == thing


# --- reading --------------------------------------------------------------------------------------------------

LABELS = MaskLabels({0: 0, 1: 1, 2: 2, 3: 3, 9: 255})


@pytest.fixture
def scenes(tmp_path: Path) -> tuple[list[Path], list[Path]]:
    """Write five pictures with their masks."""
    images, masks = ([tmp_path / kind / f"{i}.png" for i in range(5)] for kind in ("x", "y"))
    for number, pair in enumerate(zip(images, masks, strict=True)):
        write_scene(*pair, [0, 1, 2, 3, 9], number)
    return images, masks


def test_pictures_and_masks_are_read(scenes: tuple[list[Path], list[Path]]) -> None:
    pairs = Pairs.found(*scenes, LABELS)
    assert (len(pairs), pairs.size) == (5, (HEIGHT, WIDTH))
    for index in range(5):
        image, mask = pairs(index)
        raw = np.asarray(Image.open(scenes[1][index]))
        assert torch.equal(image, torch.from_numpy(np.array(Image.open(scenes[0][index]))).permute(2, 0, 1))
        assert np.array_equal(mask.numpy(), np.where(raw == 9, 255, raw))
        assert (image.dtype, mask.dtype) == (torch.uint8, torch.uint8)


def test_they_are_resized_where_asked_for(scenes: tuple[list[Path], list[Path]]) -> None:
    image, mask = Pairs.found(*scenes, LABELS, (4, 5))(0)
    assert (image.shape, mask.shape) == ((3, 4, 5), (4, 5))
    raw = np.asarray(Image.open(scenes[1][0]))
    assert set(mask.unique().tolist()) <= {255 if value == 9 else int(value) for value in np.unique(raw)}
    assert int(mask[0, 0]) in (int(raw[0, 0]), 255) and int(mask[-1, 0]) in (int(raw[-1, 0]), 255)


def test_values_without_a_class(scenes: tuple[list[Path], list[Path]]) -> None:
    write_mask(scenes[1][0], np.full((HEIGHT, WIDTH), 7))
    with pytest.raises(ConfigError, match=r"y/0\.png holds the label 7, which the data does not have"):
        Pairs.found(*scenes, LABELS)(0)
    lenient = MaskLabels(LABELS.classes, strict=False)
    assert lenient.read(scenes[1][0]).unique().tolist() == [255]


def test_files_that_are_missing_or_damaged(scenes: tuple[list[Path], list[Path]], tmp_path: Path) -> None:
    images, masks = scenes
    whole = images[1].read_bytes()
    images[1].write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConfigError, match=r"x/1\.png cannot be read as an image"):
        Pairs.found(images, masks, LABELS)(1)
    images[1].write_text("no picture")
    with pytest.raises(ConfigError, match=r"x/1\.png cannot be read as an image"):
        read_image(images[1])
    with pytest.raises(ConfigError, match=r"none\.png is missing"):
        read_image(tmp_path / "none.png")
    with pytest.raises(ConfigError, match=r"x/2\.png is no mask: .* not the mode RGB"):
        LABELS.read(images[2])
    write_mask(masks[3], np.zeros((HEIGHT, WIDTH + 1)))
    with pytest.raises(ConfigError, match=r"y/3\.png has 8x11 pixels .* the first picture 8x10"):
        Pairs.found(images, masks, LABELS)(3)
    images[0].unlink()
    masks[4].unlink()
    with pytest.raises(ConfigError, match=r"x/0\.png is missing \(2 files are\); the data are not complete"):
        Pairs.found(images, masks, LABELS)
    with pytest.raises(ConfigError, match=r"x/0\.png is missing \(2 files are\); /lists/train\.txt names it"):
        Pairs.found(images, masks, LABELS, named_in=Path("/lists/train.txt"))


def test_sizes_are_written_with_an_x() -> None:
    assert parse_size("data.size", "512x928") == (512, 928)
    assert parse_size("data.size", "") is None
    assert parse_size("data.size", None) is None
    for wrong in ("512", "512x", "x3", "0x5", "1.5x2", 512, "-1x2", "9" * 5000 + "x5"):
        with pytest.raises(ConfigError, match=r"data\.size must be HEIGHTxWIDTH"):
            parse_size("data.size", wrong)


def test_lists_of_pairs(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("/SegNet/CamVid/train/a.png /SegNet/CamVid/trainannot/a.png\n\nb.png c.png\n")
    assert read_pair_list(path, Path("/data")) == (
        [Path("/data/train/a.png"), Path("/data/b.png")],
        [Path("/data/trainannot/a.png"), Path("/data/c.png")],
    )
    path.write_text("a b\na b c\n")
    with pytest.raises(ConfigError, match=r"train\.txt, line 2: a picture and a mask are expected, not 3 paths"):
        read_pair_list(path, tmp_path)
    path.write_text("a b\n\n/c/a d\na e\n")
    with pytest.raises(ConfigError, match=r"train\.txt, line 4: a is there already, on line 1"):
        read_pair_list(path, tmp_path)
    path.write_text("/a b\n")
    assert read_pair_list(path, tmp_path) == ([tmp_path / "a"], [tmp_path / "b"])
    for wrong in ("/", "../a", "/.."):
        path.write_text(f"a b\nc {wrong}\n")
        with pytest.raises(ConfigError, match=rf"train\.txt, line 2: {wrong} is no path of a picture or mask"):
            read_pair_list(path, tmp_path)
    path.write_text("\n")
    with pytest.raises(ConfigError, match=r"train\.txt lists no pictures"):
        read_pair_list(path, tmp_path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"train\.txt cannot be read: byte 1 is not UTF-8"):
        read_pair_list(path, tmp_path)
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory$"):
        read_pair_list(tmp_path, tmp_path)
    with pytest.raises(ConfigError, match=r"other\.txt is missing"):
        read_pair_list(tmp_path / "other.txt", tmp_path)


LISTS: dict[str, tuple[Any, str]] = {
    "json": ("{", r"a\.json is not JSON"),
    "deep": ("[" * 100_000, r"a\.json is not JSON"),
    "digits": ('{"user_data": ' + "9" * 5000 + "}", r"a\.json is not JSON"),
    "absolute": ({"user_data": {"u": {"x": ["/etc/a"], "y": ["a"]}}}, r"a\.json: '/etc/a' of 'u' leads out of the"),
    "dots": ({"user_data": {"u": {"x": ["a"], "y": ["b/../../a"]}}}, r"a\.json: 'b/\.\./\.\./a' of 'u' leads out"),
    "users": ({"users": []}, r"a\.json names no clients"),
    "list": ([], r"a\.json names no clients"),
    "entry": ({"user_data": {"u": ["a"]}}, r"a\.json: 'x' of 'u' must be a list of file names"),
    "name": ({"user_data": {"u": {"x": ["a"], "y": [1]}}}, r"a\.json: 'y' of 'u' must be a list of file names"),
    "length": ({"user_data": {"u": {"x": ["a"], "y": []}}}, r"a\.json: 'u' has 1 pictures and 0 masks"),
    "none": ({"user_data": {"u": {"x": [], "y": []}}}, r"a\.json: 'u' has 0 pictures and 0 masks"),
}


@pytest.mark.parametrize("name", LISTS)
def test_wrong_lists_of_clients(name: str, tmp_path: Path) -> None:
    content, message = LISTS[name]
    (tmp_path / "a.json").write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ConfigError, match=message):
        read_client_lists(tmp_path, tmp_path, tmp_path)


def test_lists_of_clients(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no lists of clients"):
        read_client_lists(tmp_path, tmp_path, tmp_path)
    for number, names in enumerate((["v", "u"], ["w"])):
        users = {name: {"x": [f"{name}1", f"{name}2"], "y": [f"{name}3", f"{name}4"]} for name in names}
        (tmp_path / f"{number}.json").write_text(json.dumps({"users": names, "user_data": users}))
    clients = read_client_lists(tmp_path, Path("/x"), Path("/y"))
    assert [client.name for client in clients] == ["u", "v", "w"]
    assert (clients[0].images, clients[0].masks) == ([Path("/x/u1"), Path("/x/u2")], [Path("/y/u3"), Path("/y/u4")])
    (tmp_path / "2.json").write_text(json.dumps({"user_data": {"w": {"x": ["a"], "y": ["b"]}}}))
    with pytest.raises(ConfigError, match=r"2\.json: the client 'w' is there twice"):
        read_client_lists(tmp_path, tmp_path, tmp_path)


def test_without_pillow(scenes: tuple[list[Path], list[Path]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(ConfigError, match=r"pip install 'flatfed\[data\]'"):
        read_image(scenes[0][0])


# --- lazily decoded examples ----------------------------------------------------------------------------------

BYTES = 4 * HEIGHT * WIDTH


class Counted:
    """A reader that counts."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs, self.read = pairs, list[int]()

    def __call__(self, index: int) -> tuple[Tensor, Tensor]:
        self.read.append(index)
        return self.pairs(index)


def test_the_examples_used_last_are_kept(scenes: tuple[list[Path], list[Path]]) -> None:
    counted = Counted(Pairs.found(*scenes, LABELS))
    lazy = LazyImages(counted, 5, cache=2 * BYTES + 1)
    for index in (0, 1, 0, 2, 0, 1):
        image, mask = lazy.batch(torch.tensor([index]))
        assert torch.equal(image[0], counted.pairs(index)[0])
        assert mask.dtype == torch.int64 and torch.equal(mask[0], counted.pairs(index)[1].long())
        assert lazy.bytes_kept <= 2 * BYTES
    assert counted.read == [0, 1, 2, 1]  # 2 drove out 1, and 1 then 2
    assert len(lazy) == 5


@pytest.mark.parametrize("cache", [0, BYTES - 1])
def test_without_room_nothing_is_kept(cache: int, scenes: tuple[list[Path], list[Path]]) -> None:
    counted = Counted(Pairs.found(*scenes, LABELS))
    lazy = LazyImages(counted, 5, cache=cache)
    lazy.batch(torch.tensor([0, 0]))
    assert counted.read == [0, 0] and lazy.bytes_kept == 0
    with pytest.raises(ConfigError, match="cache must be at least 0 bytes, not -1"):
        LazyImages(counted, 5, cache=-1)


def test_a_copy_begins_with_an_empty_cache(scenes: tuple[list[Path], list[Path]]) -> None:
    lazy = LazyImages(Pairs.found(*scenes, LABELS), 5)
    first = lazy.batch(torch.arange(5))
    again = pickle.loads(pickle.dumps(lazy))
    assert (lazy.bytes_kept, again.bytes_kept) == (5 * BYTES, 0)
    assert all(torch.equal(a, b) for a, b in zip(first, again.batch(torch.arange(5)), strict=True))
    assert [part.shape for part in lazy.batch(torch.arange(0))] == [(0, 3, HEIGHT, WIDTH), (0, HEIGHT, WIDTH)]


def _forked(lazy: LazyImages, answer: Any) -> None:
    kept = lazy.bytes_kept
    answer.put((kept, lazy.batch(torch.arange(5))[1].sum().item()))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_is_not_held_up_by_a_thread_of_its_parent(scenes: tuple[list[Path], list[Path]]) -> None:
    lazy = LazyImages(Pairs.found(*scenes, LABELS), 5)
    expected = lazy.batch(torch.arange(5))[1].sum().item()
    context = multiprocessing.get_context("fork")
    answer = context.SimpleQueue()
    with lazy._cache._lock:  # as if another thread were at it
        child = context.Process(target=_forked, args=(lazy, answer))
        child.start()
        child.join(timeout=300)
    assert child.exitcode == 0
    assert answer.get() == (0, expected)


def test_threads_share_a_cache(scenes: tuple[list[Path], list[Path]]) -> None:
    lazy = LazyImages(Pairs.found(*scenes, LABELS), 5, cache=2 * BYTES)
    expected, wrong = lazy.batch(torch.arange(5)), list[int]()

    def use(seed: int) -> None:
        order = torch.randint(0, 5, (200,), generator=torch.Generator().manual_seed(seed))
        actual = lazy.batch(order)
        wrong.extend(i for i in range(2) if not torch.equal(actual[i], expected[i][order]))

    threads = [threading.Thread(target=use, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and lazy.bytes_kept == 2 * BYTES


def test_examples_of_different_sizes_do_not_make_a_batch() -> None:
    lazy = LazyImages(lambda i: (torch.zeros(3, 2, 2 + i), torch.zeros(2, 2 + i)), 2)
    with pytest.raises(ConfigError, match=r"example 1 has the shape \(3, 2, 3\), example 0 \(3, 2, 2\)"):
        lazy.batch(torch.tensor([0, 1]))


# --- training -------------------------------------------------------------------------------------------------


def problem(scenes: tuple[list[Path], list[Path]], lazy: bool = True, **changes: Any) -> ff.Task:
    pairs = Pairs.found(*scenes, LABELS)
    both = [torch.stack(part) for part in zip(*(pairs(i) for i in range(5)), strict=True)]
    examples = LazyImages(pairs, 5, cache=2 * BYTES) if lazy else ff.Partition(*both, [range(5)]).pool
    pool = MaskExamples(examples, (HEIGHT, WIDTH))
    settings: dict[str, Any] = {
        "clients": ff.Partition.over(pool, [[0, 1, 2], [3, 4]]),
        "test": pool,
        "tests": {"val": pool},
        "loss": SegmentationLoss(),
        "metrics": Segmentation(CLASSES),
        "prepare": scaled,
    }
    return ff.Task(tiny(CLASSES), **(settings | changes))


def scaled(images: Tensor) -> Tensor:
    return images.float() / 255


SETTINGS: dict[str, Any] = {"rounds": 3, "sampling": 2, "lr": 0.1, "batch_size": 2, "evaluate_every": 1}


@pytest.mark.parametrize("id", ["fedavg", "fedasam", "scaffold", "fedgloss"])
@pytest.mark.parametrize("local", [None, "bn-stats"])
def test_masks_train_to_the_same_bits_in_memory_from_files_and_in_workers(
    id: str, local: str | None, scenes: tuple[list[Path], list[Path]]
) -> None:
    extra = {} if local is None else {"local": local}
    method, stats = ff.make(id), "running" if local is None else "batch-stats"
    ways = [(False, 0), (True, 0), (True, 2)]
    runs = [
        ff.train(problem(scenes, lazy, **extra), method, **SETTINGS, eval_stats=stats, workers=workers)
        for lazy, workers in ways
    ]
    for other in runs[1:]:
        assert torch.equal(runs[0].vector, other.vector)
        for row, same in zip(runs[0].history, other.history, strict=True):
            assert {k: v for k, v in row.items() if k not in TIMES} == {k: v for k, v in same.items() if k not in TIMES}
    row = runs[0].history[-1]
    assert row["test_accuracy"] == row["test_miou"] == row["val_miou"]
    assert {"test_pixel_accuracy", "test_class_iou", "val_class_iou", "test_loss"} <= row.keys()
    assert "test_class_accuracy" not in row
    assert runs[0].summary["accuracy_final"] == row["test_miou"]


def test_the_figures_of_a_run_are_those_of_its_model(scenes: tuple[list[Path], list[Path]]) -> None:
    task = problem(scenes)
    run = ff.train(task, ff.make("fedavg"), **SETTINGS, eval_stats="batch-stats", workers=0)
    model = tiny(CLASSES)
    torch.nn.utils.vector_to_parameters(run.vector, model.parameters())
    model.eval()
    model.norm.train()
    images, masks = task.test.batch(torch.arange(5))
    with torch.no_grad():
        scores = model(scaled(images))
    expected = naive_figures(scores.argmax(dim=1).numpy(), masks.numpy())
    row = run.history[-1]
    assert row["test_miou"] == pytest.approx(expected["miou"])
    assert row["test_pixel_accuracy"] == pytest.approx(expected["pixel_accuracy"])
    loss = naive_loss(scores.double().numpy(), masks.numpy(), 0.25)
    assert row["test_loss"] == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_picture_that_goes_bad_ends_the_run_with_its_name(
    workers: int, scenes: tuple[list[Path], list[Path]]
) -> None:
    task = problem(scenes)
    scenes[0][4].write_text("no picture")
    with pytest.raises((ConfigError, EngineError), match=r"x/4\.png cannot be read as an image"):
        ff.train(task, ff.make("fedavg"), **SETTINGS, workers=workers)
