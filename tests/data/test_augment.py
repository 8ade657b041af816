"""Augmentations: what each does to pixels and targets, per image or per batch, from its generator alone."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

import flatfed as ff
from flatfed.core.errors import ConfigError
from flatfed.data import augment
from flatfed.data.augment import (
    BatchCrop,
    BatchFlip,
    BatchTransformChain,
    Chain,
    Crop,
    Cutout,
    Flip,
    HorizontalFlipPair,
    LineageCrop,
    Mixup,
    RandomResizedCrop,
    ScaleCrop,
    named,
)
from flatfed.data.augment.crops import cropped
from flatfed.data.augment.flips import flipped

FACTS = {"classes": 10, "in_channels": 3, "image_size": 8}
RAW = [Crop(2), Flip(), BatchCrop(2), BatchFlip(), RandomResizedCrop(6), Chain((Crop(1), Flip()))]
JOINT = [Mixup(10), Cutout(3), LineageCrop(), BatchTransformChain((LineageCrop(), Cutout(2), Mixup(10)))]
MASKS = [ScaleCrop((6, 9)), HorizontalFlipPair(), BatchTransformChain((ScaleCrop((6, 9)), HorizontalFlipPair()))]


def seeded(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


def images(count: int = 40, channels: int = 3, height: int = 8, width: int = 8) -> Tensor:
    return torch.randint(1, 256, (count, channels, height, width), generator=seeded(7)).to(torch.uint8)


def floats(count: int = 40, height: int = 8, width: int = 8) -> Tensor:
    return torch.randn(count, 3, height, width, generator=seeded(8)) + 5.0


def classes(count: int = 40) -> Tensor:
    return torch.randint(0, 10, (count,), generator=seeded(9))


def masks(count: int = 40, height: int = 8, width: int = 8) -> Tensor:
    return torch.randint(0, 11, (count, height, width), generator=seeded(10))


# What all have in common.


@pytest.mark.parametrize("step", [*RAW, *JOINT, *MASKS], ids=repr)
def test_an_augmentation_draws_from_its_generator_alone_and_leaves_its_inputs(step: Any) -> None:
    inputs = images() if step in RAW else floats()
    targets = [] if step in RAW else [masks() if step in MASKS else classes()]
    before, state = [inputs.clone(), *(t.clone() for t in targets)], torch.get_rng_state()
    first, again, other = (step(inputs, *targets, seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(before, [inputs, *targets], strict=True))
    pairs = [(first, again)] if step in RAW else list(zip(first, again, strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    changed = [other] if step in RAW else list(other)
    assert isinstance(step, BatchFlip) or any(not torch.equal(a, b) for (a, _), b in zip(pairs, changed, strict=True))
    assert changed[0].dtype == inputs.dtype


@pytest.mark.parametrize("step", [*RAW, *JOINT, *MASKS], ids=repr)
def test_an_augmentation_is_a_value(step: Any) -> None:
    assert pickle.loads(pickle.dumps(step)) == step
    assert hash(step) == hash(pickle.loads(pickle.dumps(step)))
    with pytest.raises(AttributeError):
        step.padding = 3


@pytest.mark.parametrize("step", [Crop(2), Flip(), BatchCrop(2), BatchFlip()], ids=repr)
def test_raw_augmentations_also_take_floats(step: Any) -> None:
    assert torch.equal(step(images(), seeded()).float(), step(images().float(), seeded()))


# Crops and flips of raw images.


def windows(image: Tensor, padding: int) -> list[Tensor]:
    """Every crop of one image, the slow way."""
    height, width = image.shape[1:]
    padded = torch.zeros(len(image), height + 2 * padding, width + 2 * padding, dtype=image.dtype)
    padded[:, padding : padding + height, padding : padding + width] = image
    places = range(2 * padding + 1)
    return [padded[:, top : top + height, left : left + width] for top in places for left in places]


def test_a_crop_is_a_window_of_the_zero_padded_image_chosen_for_each_image() -> None:
    inputs = images(300, height=5, width=7)
    actual = Crop(2)(inputs, seeded())
    places = [
        next(i for i, window in enumerate(windows(a, 2)) if torch.equal(window, b))
        for a, b in zip(inputs, actual, strict=True)
    ]
    assert set(places) == set(range(25))  # 300 draws miss none of 25 but once in 10,000 seeds


@pytest.mark.parametrize("padding", [0, 1, 3])
def test_a_crop_has_the_bits_that_its_draws_say(padding: int) -> None:
    inputs = images(40, height=5, width=7)
    tops, lefts = torch.randint(0, 2 * padding + 1, (2, 40), generator=seeded(5)).tolist()
    side = 2 * padding + 1
    expected = [
        windows(image, padding)[top * side + left] for image, top, left in zip(inputs, tops, lefts, strict=True)
    ]
    assert torch.equal(Crop(padding)(inputs, seeded(5)), torch.stack(expected))


@pytest.mark.parametrize("step", MASKS)
def test_what_is_for_masks_leaves_classes_alone(step: Any) -> None:
    with pytest.raises(ConfigError, match=r"is for images with masks, .* not for a class of each image"):
        step(floats(4), torch.arange(4), seeded())


def test_no_padding_changes_nothing() -> None:
    for step in (Crop(0), BatchCrop(0)):
        assert torch.equal(step(images(), seeded()), images())


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
@pytest.mark.parametrize("count", [0, 1, 5])
def test_crops_and_flips_are_the_same_in_every_type_and_layout(dtype: torch.dtype, count: int) -> None:
    images = torch.randint(0, 256, (count, 3, 8, 8), generator=torch.Generator().manual_seed(0)).to(dtype)
    tops, lefts = torch.arange(count) % 5, torch.arange(count) * 2 % 5
    padded = torch.nn.functional.pad(images, [2] * 4)
    windows = [padded[row, :, row % 5 : row % 5 + 8, row * 2 % 5 : row * 2 % 5 + 8] for row in range(count)]
    chosen = torch.arange(count) % 2 == 0
    turned = [image.flip(-1) if is_chosen else image for image, is_chosen in zip(images, chosen, strict=True)]
    for batch in (images, images.contiguous(memory_format=torch.channels_last), images.mT.contiguous().mT):
        assert torch.equal(cropped(batch, 2, tops, lefts), torch.stack(windows) if windows else images)
        assert torch.equal(flipped(batch, chosen), torch.stack(turned) if turned else images)


def test_gradients_go_through_crops_and_flips() -> None:
    images = torch.ones(2, 1, 4, 4, requires_grad=True)
    moved = cropped(images, 1, torch.tensor([0, 1]), torch.tensor([0, 1]))
    flipped(moved, torch.tensor([True, False])).sum().backward()
    assert images.grad is not None
    assert images.grad.sum(dim=(1, 2, 3)).tolist() == [9.0, 16.0]


def test_a_batch_is_cropped_alike() -> None:
    inputs, seen = images(6, height=5, width=7), set()
    for seed in range(200):
        actual = BatchCrop(1)(inputs, seeded(seed))
        pairs = list(zip(inputs, actual, strict=True))
        (place,) = [i for i in range(9) if all(torch.equal(windows(a, 1)[i], b) for a, b in pairs)]
        seen.add(place)
    assert seen == set(range(9))


def test_a_flip_is_tossed_for_each_image() -> None:
    inputs = images(400)
    actual = Flip()(inputs, seeded())
    turned = torch.tensor([torch.equal(a.flip(-1), b) for a, b in zip(inputs, actual, strict=True)])
    same = torch.tensor([torch.equal(a, b) for a, b in zip(inputs, actual, strict=True)])
    assert (turned ^ same).all()
    assert 150 < int(turned.sum()) < 250
    assert torch.equal(Flip(p=1.0)(inputs, seeded()), inputs.flip(-1))
    assert torch.equal(Flip(p=0.0)(inputs, seeded()), inputs)


def test_a_batch_is_flipped_as_a_whole() -> None:
    inputs = images()
    actual = [BatchFlip()(inputs, seeded(seed)) for seed in range(60)]
    turned = sum(torch.equal(batch, inputs.flip(-1)) for batch in actual)
    assert turned + sum(torch.equal(batch, inputs) for batch in actual) == 60
    assert 15 < turned < 45


def test_the_lineage_crop_refuses_masks() -> None:
    with pytest.raises(ConfigError, match=r"LineageCrop moves an image and not its mask; use .*scale-crop.*flip-pair"):
        LineageCrop()(torch.zeros(2, 3, 8, 8), torch.zeros(2, 8, 8, dtype=torch.int64), Generator())


def test_the_lineage_crop_leaves_half_of_the_images_where_they_are_and_pads_with_zero() -> None:
    inputs, targets = floats(2000), classes(2000)
    actual, same = LineageCrop(padding=2, flip=0.0)(inputs, targets, seeded())
    assert same is targets
    still = (actual == inputs).flatten(1).all(dim=1).float().mean()
    assert abs(float(still) - (0.5 + 0.5 / 25)) < 0.04
    assert bool((actual == 0.0).any())  # normalised images here are far from 0
    flipped, _ = LineageCrop(crop=0.0, flip=1.0)(inputs, targets, seeded())
    assert torch.equal(flipped, inputs.flip(-1))
    for image, crop in zip(inputs[:50], actual[:50], strict=True):
        assert any(torch.equal(window, crop) for window in windows(image, 2))


def test_a_resized_crop_is_its_box_resized() -> None:
    inputs, step = images(60, height=20, width=30), RandomResizedCrop(9)
    actual, boxes = step(inputs, seeded(3)), step.boxes(inputs, seeded(3))
    assert actual.shape == (60, 3, 9, 9)
    assert actual.dtype == torch.uint8
    for image, (top, left, height, width), made in zip(inputs, boxes, actual, strict=True):
        assert 0 <= top <= 20 - height
        assert 0 <= left <= 30 - width
        assert 0.05 * 600 <= height * width <= 600
        assert 0.6 < width / height < 1.7  # 3/4 to 4/3, up to rounding
        box = image[None, :, top : top + height, left : left + width].float()
        assert torch.equal(made, F.interpolate(box, (9, 9), mode="bilinear", antialias=True)[0].round().byte())
    assert len(set(boxes)) > 50


def test_a_resized_crop_of_everything_is_the_image() -> None:
    step = RandomResizedCrop(8, scale=(1.0, 1.0), ratio=(1.0, 1.0))
    assert torch.equal(step(images(), seeded()), images())
    assert torch.equal(step(floats(), seeded()), floats())


def test_where_no_box_fits_the_central_one_is_taken() -> None:
    step = RandomResizedCrop(4, scale=(1.0, 1.0), ratio=(1.0, 1.0))
    assert step.boxes(images(2, height=10, width=6), seeded()) == [(2, 0, 6, 6)] * 2
    assert step.boxes(images(1, height=6, width=10), seeded()) == [(0, 2, 6, 6)]


# Prepared batches with their targets.


def test_mixup_is_the_sum_of_two_cross_entropies() -> None:
    inputs, targets = floats(), classes()
    mixed, shares = Mixup(10)(inputs, targets, seeded(4))
    generator = seeded(4)
    lam = augment.mixing.beta(1.0, generator)
    order = torch.randperm(40, generator=generator)
    torch.testing.assert_close(mixed, lam * inputs + (1 - lam) * inputs[order])
    torch.testing.assert_close(shares.sum(dim=1), torch.ones(40))
    outputs = torch.randn(40, 10, generator=seeded(5))
    expected = lam * F.cross_entropy(outputs, targets) + (1 - lam) * F.cross_entropy(outputs, targets[order])
    torch.testing.assert_close(F.cross_entropy(outputs, shares), expected)


@pytest.mark.parametrize(("alpha", "variance"), [(1.0, 1 / 12), (0.2, 0.25 / 1.4), (4.0, 0.25 / 9)])
def test_the_mix_follows_a_beta_distribution(alpha: float, variance: float) -> None:
    generator = seeded()
    draws = torch.tensor([augment.mixing.beta(alpha, generator) for _ in range(4000)])
    assert 0.0 <= float(draws.min()) <= float(draws.max()) <= 1.0
    assert abs(float(draws.mean()) - 0.5) < 0.03
    assert abs(float(draws.var()) - variance) < 0.01


def test_mixup_takes_shares_and_keeps_double_precision() -> None:
    shares = torch.softmax(torch.randn(40, 10, generator=seeded(1), dtype=torch.float64), dim=1)
    mixed, actual = Mixup(10)(floats().double(), shares, seeded())
    assert mixed.dtype == actual.dtype == torch.float64
    torch.testing.assert_close(actual.sum(dim=1), torch.ones(40, dtype=torch.float64))


@pytest.mark.parametrize("size", [1, 4, 5, 20])
def test_cutout_zeroes_one_square_that_the_borders_cut_off(size: int) -> None:
    inputs, targets = floats(200, height=9, width=12), classes(200)
    actual, same = Cutout(size)(inputs, targets, seeded())
    assert same is targets
    gone = actual == 0.0
    assert torch.equal(actual[~gone], inputs[~gone])
    assert torch.equal(gone[:, 0], gone[:, 2])
    for image in gone[:, 0]:
        rows, columns = image.any(dim=1).nonzero().flatten(), image.any(dim=0).nonzero().flatten()
        for places, length in ((rows, 9), (columns, 12)):
            assert 1 <= len(places) <= min(size, length)
            assert len(places) == size or int(places[0]) == 0 or int(places[-1]) == length - 1
        assert int(image.sum()) == len(rows) * len(columns)
    if size == 1:
        assert len({tuple(image.nonzero()[0].tolist()) for image in gone[:, 0]}) > 60


def test_scaling_keeps_image_and_mask_together() -> None:
    # Blocks so large that, inside them, interpolation changes nothing: the mask must be readable from the image.
    labels = torch.randint(0, 11, (30, 3, 4), generator=seeded(1))
    mask = labels.repeat_interleave(16, dim=1).repeat_interleave(16, dim=2)
    inputs = (mask.unsqueeze(1) + 1.0).repeat(1, 3, 1, 1)
    actual, target = ScaleCrop((32, 40))(inputs, mask, seeded(2))
    assert actual.shape == (30, 3, 32, 40)
    assert target.shape == (30, 32, 40)
    outside = target == 255
    assert bool(outside.any())
    assert bool((actual[:, 0][outside] == 0.0).all())
    assert bool((actual[:, 0][~outside] > 0.0).all())
    agree = (actual[:, 0] - 1.0 - target).abs() < 1e-4
    assert float(agree[~outside].float().mean()) > 0.7  # the rest lies on borders of blocks
    assert set(target.unique().tolist()) <= {*range(11), 255}


def test_a_scale_of_one_is_a_crop() -> None:
    inputs, mask = floats(20, height=9, width=9), masks(20, height=9, width=9)
    actual, target = ScaleCrop((9, 9), scale=(1.0, 1.0))(inputs, mask, seeded())
    assert torch.equal(actual, inputs)
    assert torch.equal(target, mask)
    actual, target = ScaleCrop((4, 15), scale=(1.0, 1.0), ignore=99)(inputs, mask, seeded())
    for image, small, labels, crop in zip(inputs, actual, mask, target, strict=True):
        (columns,) = {tuple(row.nonzero().flatten().tolist()) for row in crop != 99}
        left = columns[0]
        assert columns == tuple(range(left, left + 9))
        tops = [t for t in range(6) if torch.equal(labels[t : t + 4], crop[:, left : left + 9])]
        assert any(torch.equal(image[:, t : t + 4], small[:, :, left : left + 9]) for t in tops)


@pytest.mark.parametrize("shape", [[4, 4], [16, 16], [13, 5]])
def test_a_mask_is_scaled_by_its_nearest_pixel(shape: list[int]) -> None:
    mask = masks(1)[0]
    expected = F.interpolate(mask[None, None].float(), shape, mode="nearest-exact")[0, 0].long()
    assert torch.equal(augment.segmentation._nearest(mask, shape), expected)


def test_image_and_mask_are_flipped_together() -> None:
    inputs, mask = floats(), masks()
    actual, target = HorizontalFlipPair()(inputs, mask, seeded())
    turned = [torch.equal(a.flip(-1), b) for a, b in zip(inputs, actual, strict=True)]
    assert turned == [torch.equal(a.flip(-1), b) for a, b in zip(mask, target, strict=True)]
    assert 5 < sum(turned) < 35


def test_chains_go_from_the_first_to_the_last() -> None:
    generator = seeded(6)
    expected = Flip()(Crop(2)(images(), generator), generator)
    assert torch.equal(Chain((Crop(2), Flip()))(images(), seeded(6)), expected)
    generator = seeded(6)
    inputs, targets = Mixup(10)(*Cutout(3)(floats(), classes(), generator), generator)
    actual = BatchTransformChain((Cutout(3), Mixup(10)))(floats(), classes(), seeded(6))
    assert torch.equal(actual[0], inputs)
    assert torch.equal(actual[1], targets)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Crop(-1), "Crop: padding must be a whole number of at least 0, not -1"),
        (lambda: Flip(1.5), "Flip: p must lie between 0 and 1, not 1.5"),
        (lambda: BatchCrop(0.5), "BatchCrop: padding"),  # type: ignore[arg-type]
        (lambda: RandomResizedCrop(0), "RandomResizedCrop: size"),
        (lambda: RandomResizedCrop(4, scale=(1.0, 0.5)), "RandomResizedCrop: scale must be two positive numbers"),
        (lambda: ScaleCrop((0, 4)), "ScaleCrop: height"),
        (lambda: Mixup(10, alpha=0.0), "Mixup: alpha must be positive"),
        (lambda: Cutout(0), "Cutout: size"),
        (lambda: LineageCrop(flip=-0.1), "LineageCrop: flip"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


# Names.


@pytest.mark.parametrize(
    ("text", "raw", "batch_transform"),
    [
        ("crop-flip", Chain((Crop(4), Flip())), None),
        ("crop-flip,cutout", Chain((Crop(4), Flip())), Cutout(4)),
        (" crop(2) , flip ", Chain((Crop(2), Flip())), None),
        ("cutout(8)", None, Cutout(8)),
        ("cutout(size=8),mixup(0.4)", None, BatchTransformChain((Cutout(8), Mixup(10, 0.4)))),
        ("mixup,crop-flip(padding=1, p=0.25)", Chain((Crop(1), Flip(0.25))), Mixup(10)),
        ("batch-crop-flip", Chain((BatchCrop(4), BatchFlip())), None),
        ("lineage-crop", None, LineageCrop()),
        ("resized-crop", RandomResizedCrop(8), None),
        ("scale-crop(512,1024),flip-pair", None, BatchTransformChain((ScaleCrop((512, 1024)), HorizontalFlipPair()))),
        ("none", None, None),
        ("", None, None),
    ],
)
def test_names_make_both_stages(text: str, raw: Any, batch_transform: Any) -> None:
    assert named(text, FACTS) == (raw, batch_transform)
    assert text in ("scale-crop(512,1024),flip-pair", "mixup,crop-flip(padding=1, p=0.25)") or named(
        text.split(","), FACTS
    ) == (raw, batch_transform)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cutuot", "unknown augmentation 'cutuot'; did you mean 'cutout'"),
        ("crop flip", "written like crop-flip,cutout"),
        ("cutout(8", "written like"),
        ("cutout(big)", "augmentation cutout: 'big' is not a number"),
        ("cutout(8,9)", "augmentation cutout takes size"),
        ("mixup(beta=2)", "augmentation mixup: unknown argument 'beta'"),
        ("cutout(0)", "Cutout: size must be a whole number of at least 1"),
    ],
)
def test_a_name_that_cannot_be_used_is_explained(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        named(text, FACTS)


def test_data_without_a_fact_are_reported_so() -> None:
    with pytest.raises(ConfigError, match="augmentation cutout: the data has no image_size"):
        named("cutout", {"classes": 10, "vocabulary": 100})


def test_every_name_has_a_description_and_can_be_made() -> None:
    for name, about in augment.augmentations().items():
        assert about
        assert named(name, FACTS) != (None, None)


# In training: one draw for every pass of a step.

SEEN: list[tuple[Tensor, Tensor]] = []


class Recorder(nn.Module):
    """A linear model that writes down what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3 * 8 * 8, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        SEEN.append((inputs.clone(), self.layer.weight.detach().clone()))
        actual: Tensor = self.layer(inputs.flatten(1))
        return actual


def as_floats(inputs: Tensor) -> Tensor:
    return inputs.float() / 255 - 0.5


@pytest.mark.parametrize("method", ["fedsam", "fedasam"])
def test_both_passes_of_sam_see_the_same_pixels(method: str) -> None:
    SEEN.clear()
    raw, batch_transform = named("crop-flip,cutout(3),mixup", FACTS)
    task = ff.Task(
        Recorder(), [(images(24), classes(24))], prepare=as_floats, augment=raw, batch_transform=batch_transform
    )
    run = ff.train(task, ff.make(method), rounds=2, sampling=1, lr=0.1, batch_size=8, workers=0, vectorised=False)
    assert sum(row["backprops"] for row in run.history) == len(SEEN) == 12
    for first, second in zip(SEEN[::2], SEEN[1::2], strict=True):
        assert torch.equal(first[0], second[0])
        assert not torch.equal(first[1], second[1])
    assert len({batch.sum().item() for batch, _ in SEEN[::2]}) == 6


def test_training_with_every_stage_does_not_depend_on_workers() -> None:
    raw, batch_transform = named("crop-flip,lineage-crop,cutout(2),mixup", FACTS)
    clients = [(images(24), classes(24)), (images(17), classes(17))]
    task = ff.Task(Recorder(), clients, prepare=as_floats, augment=raw, batch_transform=batch_transform)
    runs = [
        ff.train(task, ff.make("fedsam"), rounds=2, sampling=2, lr=0.1, batch_size=8, workers=workers)
        for workers in (0, 2)
    ]
    assert torch.equal(runs[0].vector, runs[1].vector)
