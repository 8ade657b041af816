"""Corruptions: each generator against its definition, keyed draws, and the published files."""

from __future__ import annotations

import colorsys
import importlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from flatfed.core.errors import ConfigError
from flatfed.core.task.examples import TensorExamples
from flatfed.data.corruptions import (
    SEVERITIES,
    STANDARD,
    CorruptedExamples,
    Corruption,
    blur,
    corrupt,
    corruptions,
    digital,
    droplets,
    find,
    has_published,
    libraries,
    published,
    sampling,
    weather,
    white_of,
)
from flatfed.data.corruptions.draws import Draws
from flatfed.data.directory import DataDirectory
from flatfed.data.storage.pool import Normalise

scipy = pytest.importorskip("scipy.ndimage")
pytest.importorskip("PIL")

GENERATED = [name for name, about in corruptions().items() if about.generate is not None]
REAL = [name for name in ("cifar10", "cifar100") if has_published(name, "gaussian_noise")]


def pictures(count: int = 12, channels: int = 3, side: int = 32) -> Any:
    """Smooth coloured pictures with edges, as bytes N x height x width x channels."""
    rng = np.random.default_rng(1)
    coarse = rng.uniform(0, 255, (count, side // 4, side // 4, channels))
    fine = scipy.gaussian_filter(coarse.repeat(4, axis=1).repeat(4, axis=2), (0, 1, 1, 0))
    return np.clip(fine, 0, 255).astype(np.uint8)


def made(name: str, severity: int, images: Any, seed: int = 0) -> Any:
    return corrupt(images, name, severity, Draws.keyed(seed, name, severity, range(len(images))))


def level(name: str, severity: int) -> Any:
    return find(name).levels[severity - 1]


class Given(Draws):
    """Draws that are handed out as given."""

    def __init__(self, *arrays: Any) -> None:
        self._arrays = list(arrays)

    def normal(self, *_: Any) -> Any:
        return self._arrays.pop(0)

    uniform = integers = poisson = normal


# The catalogue.


def test_the_nineteen_of_the_benchmark_are_there_in_its_order() -> None:
    assert len(corruptions()) == 19
    assert tuple(corruptions())[:15] == STANDARD
    assert len(GENERATED) == 18
    assert all(len(find(name).levels) == 5 for name in GENERATED)
    assert {about.family for about in corruptions().values()} == {"noise", "blur", "weather", "digital"}


def test_each_says_what_it_is_and_whether_it_is_faithful() -> None:
    for about in corruptions().values():
        assert about.about
        assert about.faithful != bool(about.why)


def test_frost_cannot_be_made() -> None:
    with pytest.raises(ConfigError, match=r"frost: made from photographs of frost.*frost\.npy"):
        made("frost", 1, pictures())


@pytest.mark.parametrize(("name", "match"), [("gaussian_nois", "did you mean 'gaussian_noise'"), ("rain", "unknown")])
def test_an_unknown_corruption_is_reported_the_nearest(name: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        find(name)


@pytest.mark.parametrize("severity", [0, 6])
def test_there_are_five_severities(severity: int) -> None:
    with pytest.raises(ConfigError, match="severity must be 1 to 5"):
        made("contrast", severity, pictures())


@pytest.mark.parametrize(
    ("name", "shape", "match"),
    [
        ("saturate", (1, 28, 28), "the images are grey"),
        ("motion_blur", (1, 8, 8), "at least 16 x 16"),
        ("snow", (3, 32, 8), "at least 16 x 16"),
        ("contrast", (4, 32, 32), "grey or RGB images, not for 4 channels"),
    ],
)
def test_images_that_do_not_suit_are_refused(name: str, shape: tuple[int, int, int], match: str) -> None:
    assert match in str(find(name).unfit(*shape))
    with pytest.raises(ConfigError, match=match):
        made(name, 1, np.zeros((2, *shape[1:], shape[0]), np.uint8))


def test_a_generator_that_is_only_similar_says_so() -> None:
    similar = Corruption("rain", "weather", (1, 2, 3, 4, 5), None, faithful=False, why="drops are round")
    assert similar.about == "drops are round"


# All generators.


@pytest.mark.parametrize("name", GENERATED)
def test_an_image_depends_on_its_own_index_alone(name: str) -> None:
    images = torch.from_numpy(pictures().transpose(0, 3, 1, 2).copy())
    examples = CorruptedExamples(TensorExamples(images, torch.arange(12)), name, 3)
    inputs, targets = examples.batch(torch.arange(12))
    assert inputs.dtype == torch.uint8
    assert inputs.shape == images.shape
    assert torch.equal(targets, torch.arange(12))
    some, which = examples.batch(torch.tensor([7, 2, 7]))
    assert torch.equal(some, inputs[[7, 2, 7]])
    assert which.tolist() == [7, 2, 7]
    again = pickle.loads(pickle.dumps(examples)).batch(torch.tensor([2]))[0]
    assert torch.equal(again[0], inputs[2])
    assert not torch.equal(inputs, images)


@pytest.mark.parametrize("name", GENERATED)
@pytest.mark.parametrize(("channels", "side"), [(1, 8), (1, 28), (3, 64)])
def test_other_images_than_cifar_are_corrupted_too(name: str, channels: int, side: int) -> None:
    images = pictures(3, channels, side)
    if find(name).unfit(channels, side, side):
        pytest.skip("does not suit")
    actual = made(name, 4, images)
    assert actual.shape == images.shape
    assert actual.dtype == np.uint8


@pytest.mark.parametrize("name", sorted(set(GENERATED) - {"saturate", "elastic_transform", "spatter", "glass_blur"}))
def test_a_higher_severity_changes_more(name: str) -> None:
    images = pictures(30).astype(np.int64)
    changes = [np.abs(made(name, s, images.astype(np.uint8)) - images).mean() for s in (1, 3, 5)]
    assert 0 < changes[0] < changes[1] < changes[2] < 120


@pytest.mark.parametrize("name", ["gaussian_noise", "snow", "fog", "motion_blur", "elastic_transform", "glass_blur"])
def test_severities_and_seeds_are_drawn_apart(name: str) -> None:
    images = np.repeat(pictures(1), 2, axis=0)
    actual = made(name, 5, images)
    assert not np.array_equal(actual[0], actual[1])
    assert not np.array_equal(actual, made(name, 5, images, seed=1))


@pytest.mark.parametrize("name", GENERATED)
def test_images_that_are_not_square(name: str) -> None:
    images = pictures(2)[:, :, :20]
    assert made(name, 5, images).shape == images.shape


# Noise, by its moments.


def flat(value: int, count: int = 40) -> Any:
    return np.full((count, 32, 32, 3), value, np.uint8)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_noise_has_the_stated_size(severity: int) -> None:
    grey = 128 / 255
    expected = {
        "gaussian_noise": level("gaussian_noise", severity),
        "speckle_noise": grey * level("speckle_noise", severity),
        "shot_noise": (grey / level("shot_noise", severity)) ** 0.5,
    }
    for name, deviation in expected.items():
        values = made(name, severity, flat(128)) / 255
        assert abs(values.std() - deviation) < 0.02 * deviation + 0.001
        assert abs(values.mean() - grey) < 0.004  # half a level is cut off


@pytest.mark.parametrize("severity", SEVERITIES)
def test_impulses_are_black_or_white_equally_often(severity: int) -> None:
    values = made("impulse_noise", severity, flat(100))
    share = level("impulse_noise", severity)
    assert abs((values == 255).mean() - share / 2) < 0.1 * share
    assert abs((values == 0).mean() - share / 2) < 0.1 * share
    kept = values[(values != 0) & (values != 255)]
    assert set(np.unique(kept)) <= {99, 100}  # 100 / 255 * 255 may be cut off


# Blurs and geometry, against slow or independent computations.


@pytest.mark.parametrize("factor", [1.0, 1.01, 1.06, 1.25, 1.75, 2.25])
@pytest.mark.parametrize("length", [16, 28, 32])
def test_the_zoom_is_that_of_scipy(factor: float, length: int) -> None:
    line = np.random.default_rng(0).normal(size=length)
    part = int(np.ceil(length / factor))
    first = (length - part) // 2
    longer = scipy.zoom(line[first : first + part], factor, order=1)
    skipped = (len(longer) - length) // 2
    expected = longer[skipped : skipped + length]
    np.testing.assert_allclose(sampling.zoom_matrix(length, factor) @ line, expected, atol=1e-12)


def test_zoom_blur_is_a_mean_of_zoomed_images() -> None:
    x = pictures(2) / 255
    factors = np.arange(1.0, 1.06, 0.01)
    total = x.copy()
    for factor in factors:
        matrix = sampling.zoom_matrix(32, factor)
        total += np.einsum("ij,njkc,lk->nilc", matrix, x, matrix)
    actual = blur.zoom_blur(x, 1.06, Given())
    np.testing.assert_allclose(actual, total / (len(factors) + 1), atol=1e-12)


@pytest.mark.parametrize(("about_centres", "mode"), [(True, "mirror"), (False, "reflect")])
def test_reading_between_pixels_is_that_of_scipy(about_centres: bool, mode: str) -> None:
    rng = np.random.default_rng(0)
    x, rows, columns = rng.uniform(size=(2, 9, 7, 3)), rng.uniform(-5, 13, (2, 9, 7)), rng.uniform(-4, 10, (2, 9, 7))
    actual = sampling.bilinear(x, rows, columns, about_centres)
    for image, row, column, made_ in zip(x, rows, columns, actual, strict=True):
        for channel in range(3):
            expected = scipy.map_coordinates(image[..., channel], [row, column], order=1, mode=mode)
            np.testing.assert_allclose(made_[..., channel], expected, atol=1e-9)


def test_an_affine_map_takes_its_three_corners_where_they_shall_go() -> None:
    rows, columns = np.mgrid[:32, :32].astype(np.float64)
    x = np.stack([columns, rows], axis=-1)[None]
    shifts = np.array([[[2.0, -1.0], [0.5, 1.5], [-1.0, 0.25]]])
    actual = digital.affine(x, shifts)
    corners = np.array([[26, 26], [26, 6], [6, 6]]) + shifts[0]
    for place, source in zip(corners, [[26, 26], [26, 6], [6, 6]], strict=True):
        read = [scipy.map_coordinates(actual[0, ..., c], place[::-1, None], order=1)[0] for c in (0, 1)]
        np.testing.assert_allclose(read, source, atol=1e-9)
    np.testing.assert_allclose(digital.affine(x, np.zeros((1, 3, 2))), x, atol=1e-9)


def test_a_disc_is_as_wide_as_it_says() -> None:
    wide, cross, point = blur.disc(1.5, 1e-3), blur.disc(1.0, 1e-3), blur.disc(0.3, 0.4)
    assert np.count_nonzero(wide > 1e-12) == 9
    assert np.count_nonzero(cross > 1e-12) == 5
    assert np.count_nonzero(point > 1e-12) == 9
    for kernel in (wide, cross, point):
        assert abs(kernel.sum() - 1.0) < 1e-12
    middle = len(point) // 2
    bell = np.exp(-1 / (2 * 0.4**2))
    assert abs(point[middle, middle + 1] / point[middle, middle] - bell) < 1e-12


def test_pixels_are_jumbled_as_by_exchanges_in_place_that_overwrite() -> None:
    levels = np.random.default_rng(0).integers(0, 256, (3, 9, 8, 3)).astype(np.uint8)
    steps = np.random.default_rng(1).integers(-1, 1, (3, 2, 7, 6))
    expected = levels.copy()
    for n in range(3):
        for h in range(8, 1, -1):
            for w in range(7, 1, -1):
                expected[n, h, w] = expected[n, h + steps[n, 1, h - 2, w - 2], w + steps[n, 0, h - 2, w - 2]]
    assert np.array_equal(blur.jumbled(levels, Given(steps)), expected)


def test_a_streak_is_half_a_gaussian_from_the_pixel_on() -> None:
    x = np.zeros((3, 9, 9, 1))
    x[:, 4, 4] = 1.0
    actual = blur.streaked(x, 2, 1.5, np.array([0.0, 90.0, 45.0]))[..., 0]
    weights = np.exp(-(np.arange(5) ** 2) / 4.5)
    weights /= weights.sum()
    np.testing.assert_allclose(actual[0, 4, :5], weights[::-1], atol=1e-12)  # reads from the right
    np.testing.assert_allclose(actual[1, :5, 4], weights[::-1], atol=1e-12)  # reads from below
    np.testing.assert_allclose(actual[2, 3, 3], weights[1] + weights[2], atol=1e-12)  # both round to one pixel
    np.testing.assert_allclose(blur.streaked(np.ones((2, 9, 9, 1)), 4, 2.0, np.array([10.0, -77.0])), 1.0)


def test_clouds_fill_the_range_and_fit_any_image() -> None:
    for shape in ((32, 32), (28, 20), (8, 8), (33, 5)):
        actual = weather.cloud(*shape, decay=2.0, draws=Draws.keyed(0, "fog", 1, range(4)))
        assert actual.shape == (4, *shape)
        assert actual.min() >= 0.0
        assert actual.max() <= 1.0
    smooth, rough = (weather.cloud(32, 32, d, Draws.keyed(0, "fog", 1, range(9))) for d in (3.0, 1.75))
    assert np.abs(np.diff(smooth, axis=1)).mean() < np.abs(np.diff(rough, axis=1)).mean()


def test_fog_keeps_the_brightest_value() -> None:
    x = np.full((1, 32, 32, 3), 0.8)
    actual = weather.fog(x, (1.0, 2.0), Draws.keyed(0, "fog", 4, [0]))
    assert abs(actual.max() - 0.8 * 1.8 / 1.8) < 1e-12
    assert abs(actual.min() - 0.8 * 0.8 / 1.8) < 1e-12


@pytest.mark.parametrize("name", ["brightness", "saturate"])
@pytest.mark.parametrize("severity", SEVERITIES)
def test_colours_change_in_hue_saturation_and_value(name: str, severity: int) -> None:
    x = np.random.default_rng(0).uniform(size=(1, 6, 6, 3))
    x[0, 0, :3] = [[0.0, 0.0, 0.0], [0.4, 0.4, 0.4], [1.0, 0.5, 0.5]]
    module = weather if name == "brightness" else digital
    actual = getattr(module, name)(x, level(name, severity), Given())
    for before, after in zip(x.reshape(-1, 3), actual.reshape(-1, 3), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*before)
        if name == "brightness":
            value = min(value + level(name, severity), 1.0)
        else:
            factor, more = level(name, severity)
            saturation = min(saturation * factor + more, 1.0)
        np.testing.assert_allclose(after, colorsys.hsv_to_rgb(hue, saturation, value), atol=1e-12)


def test_contrast_draws_towards_the_mean_of_each_channel() -> None:
    x = pictures(2) / 255
    actual = digital.contrast(x, 0.3, Given())
    np.testing.assert_allclose(actual.mean(axis=(1, 2)), x.mean(axis=(1, 2)))
    np.testing.assert_allclose(actual.std(axis=(1, 2)), 0.3 * x.std(axis=(1, 2)))


def test_pixelation_and_jpeg_are_those_of_pillow() -> None:
    image_module = importlib.import_module("PIL.Image")
    images = pictures(2)
    small = image_module.fromarray(images[1]).resize((20, 20), image_module.Resampling.BOX)
    expected = np.asarray(small.resize((32, 32), image_module.Resampling.BOX))
    assert np.array_equal(made("pixelate", 5, images)[1], expected)
    errors = [np.abs(made("jpeg_compression", s, images).astype(int) - images).mean() for s in (1, 5)]
    assert 0 < errors[0] < errors[1] < 25


# Drops of water.


def test_edges_go_around_a_bright_square() -> None:
    image = np.zeros((2, 16, 16), np.uint8)
    image[0, 4:11, 5:12] = 200
    actual = droplets.edges(image)
    assert not actual[1].any()
    assert actual[0].any()
    assert not actual[0, 6:9, 7:10].any()
    assert not actual[0, :3].any()
    assert scipy.label(actual[0], structure=np.ones((3, 3)))[1] == 1
    assert scipy.binary_fill_holes(actual[0])[7, 8]


def test_weak_edges_count_only_where_they_touch_strong_ones() -> None:
    image = np.zeros((2, 16, 24), np.uint8)
    image[:, :, 12:] = 25  # a step of 25: a gradient of 100, between the thresholds
    image[1, 8:, 12:] = 90
    actual = droplets.edges(image)
    assert not actual[0].any()
    assert actual[1, :6, 10:14].any()


def test_distances_are_the_shortest_ways_of_three_moves() -> None:
    marked = np.random.default_rng(0).uniform(size=(3, 15, 18)) < 0.02
    marked[2] = False
    actual = droplets.distances(marked)
    for n, row, column in np.ndindex(*actual.shape):
        ways = [20.0]
        for r, c in np.argwhere(marked[n]):
            short, long = sorted((abs(r - row), abs(c - column)))
            knights, straight, diagonal = (
                (short, long - 2 * short, 0) if 2 * short <= long else (long - short, 0, 2 * short - long)
            )
            ways.append(2.1969 * knights + straight + 1.4 * diagonal)
        assert abs(actual[n, row, column] - min(ways)) < 1e-9


def test_levels_are_spread_evenly() -> None:
    images = np.zeros((2, 4, 4), np.uint8)
    images[0].flat[:] = np.repeat([3, 5, 9, 10], 4)
    images[1] = 7
    actual = droplets.equalised(images)
    assert actual[0].ravel().tolist() == np.repeat([0, 85, 170, 255], 4).tolist()
    assert (actual[1] == 7).all()


def test_no_water_leaves_the_image_alone() -> None:
    assert not droplets.droplets(np.zeros((2, 16, 16), np.uint8)).any()
    x = pictures(2) / 255
    np.testing.assert_array_equal(weather.spatter(x, level("spatter", 1), Given(np.zeros((2, 32, 32)))), x)


# Test sets.


def test_white_need_not_be_255() -> None:
    images = torch.from_numpy(pictures(8, channels=1).transpose(0, 3, 1, 2).copy())
    sixteenths = (images.float() / 255 * 16).round().byte()
    bright = CorruptedExamples(TensorExamples(sixteenths, torch.zeros(8, dtype=torch.int64)), "contrast", 1, white=16.0)
    inputs, _ = bright.batch(torch.arange(8))
    assert inputs.dtype == torch.float32
    assert 0.0 <= float(inputs.min()) < float(inputs.max()) <= 16.0
    mean = sixteenths.float().mean(dim=(1, 2, 3), keepdim=True)
    torch.testing.assert_close(inputs, (sixteenths - mean) * 0.75 + mean, atol=0.15, rtol=0.0)
    shares = CorruptedExamples(TensorExamples(images.double() / 255, torch.zeros(8)), "contrast", 1, white=1.0)
    plain = CorruptedExamples(TensorExamples(images, torch.zeros(8)), "contrast", 1)
    actual = shares.batch(torch.arange(8))[0]
    assert actual.dtype == torch.float64
    torch.testing.assert_close(actual * 255, plain.batch(torch.arange(8))[0].double())


def test_white_is_found_out() -> None:
    images = torch.from_numpy(pictures(4).transpose(0, 3, 1, 2).copy())
    targets = torch.zeros(4, dtype=torch.int64)
    assert white_of(TensorExamples(images, targets), None) == 255.0
    assert white_of(TensorExamples(images, targets), Normalise((0.5,), (0.5,), scale=16.0)) == 16.0
    assert white_of(TensorExamples(images.float() / 255, targets), None) == 1.0
    with pytest.raises(ConfigError, match="neither bytes nor numbers from 0 to 1"):
        white_of(TensorExamples(images.float() - 100, targets), None)
    with pytest.raises(ConfigError, match="corruptions are for images"):
        white_of(TensorExamples(torch.zeros(4, 7), targets), None)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(libraries.importlib, "import_module", nothing)
    with pytest.raises(ConfigError, match=r"needs SciPy; pip install 'flatfed\[data\]'"):
        made("gaussian_blur", 1, pictures())
    with pytest.raises(ConfigError, match="needs Pillow"):
        made("jpeg_compression", 1, pictures())


# Published files.


def write_published(folder: Path, names: tuple[str, ...] = ("frost", "fog"), count: int = 6) -> Any:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    labels = np.tile(rng.integers(0, 10, count), 5).astype(np.uint8)
    np.save(folder / "labels.npy", labels)
    files = {name: rng.integers(0, 256, (5 * count, 32, 32, 3)).astype(np.uint8) for name in names}
    for name, images in files.items():
        np.save(folder / f"{name}.npy", images)
    return files, labels


def test_published_files_hold_the_severities_one_after_another(tmp_path: Path) -> None:
    files, labels = write_published(tmp_path / "CIFAR-10-C")
    assert has_published("cifar10", "frost", tmp_path)
    assert not has_published("cifar10", "snow", tmp_path)
    assert not has_published("cifar100", "frost", tmp_path)
    assert not has_published("digits", "frost", tmp_path)
    for severity in SEVERITIES:
        examples = published("cifar10", "frost", severity, tmp_path)
        assert len(examples) == 6
        copy = pickle.loads(pickle.dumps(examples))
        inputs, targets = copy.batch(torch.tensor([5, 0]))
        assert inputs.dtype == torch.uint8
        assert targets.dtype == torch.int64
        rows = [(severity - 1) * 6 + 5, (severity - 1) * 6]
        assert np.array_equal(inputs.numpy(), files["frost"][rows].transpose(0, 3, 1, 2))
        assert targets.tolist() == labels[rows].tolist()
    assert len(pickle.dumps(examples)) < 2_000  # the path, not the images


def damage(folder: Path, kind: str) -> None:
    file = folder / "fog.npy"
    match kind:
        case "labels missing":
            (folder / "labels.npy").unlink()
        case "truncated":
            file.write_bytes(file.read_bytes()[:1000])
        case "no array":
            file.write_bytes(b"not a NumPy file")
        case "junk in an archive":
            file.write_bytes(b"PK\3\4" + bytes(100))
        case "several arrays":
            with file.open("wb") as stream:
                np.savez(stream, a=np.zeros(3))
        case "no images":
            np.save(file, np.zeros((0, 32, 32, 3), np.uint8))
            np.save(folder / "labels.npy", np.zeros(0, np.uint8))
        case "floats":
            np.save(file, np.zeros((30, 32, 32, 3)))
        case "four severities":
            np.save(file, np.zeros((24, 32, 32, 3), np.uint8))
        case "labels too few":
            np.save(folder / "labels.npy", np.zeros(7, np.uint8))
        case "labels out of range":
            np.save(folder / "labels.npy", np.full(30, 10, np.uint8))
        case "pickled":
            np.save(file, np.array([{"evil": 1}], dtype=object), allow_pickle=True)


@pytest.mark.parametrize(
    ("kind", "file", "match"),
    [
        ("labels missing", "labels.npy", "is missing"),
        ("truncated", "fog.npy", "is truncated or damaged"),
        ("no array", "fog.npy", "is no NumPy file"),
        ("junk in an archive", "fog.npy", "is truncated or damaged"),
        ("several arrays", "fog.npy", "is not a single NumPy array"),
        ("no images", "fog.npy", "five times the test set"),
        ("floats", "fog.npy", "float64"),
        ("four severities", "fog.npy", "five times the test set"),
        ("labels too few", "labels.npy", "a whole number for each of the 30 images"),
        ("labels out of range", "labels.npy", r"labels outside 0\.\.9"),
        ("pickled", "fog.npy", "it holds Python objects, which are not opened"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, kind: str, file: str, match: str) -> None:
    folder = tmp_path / "CIFAR-10-C"
    write_published(folder)
    damage(folder, kind)
    with pytest.raises(ConfigError, match=match) as caught:
        published("cifar10", "fog", 1, tmp_path)
    assert str(folder / file) in str(caught.value)


def test_only_two_data_sets_have_published_corruptions(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cifar10 and cifar100, not of digits"):
        published("digits", "fog", 1, tmp_path)


@pytest.mark.skipif(not REAL, reason=f"no CIFAR-10-C or CIFAR-100-C in {DataDirectory().path}")
@pytest.mark.parametrize("dataset", REAL)
def test_the_real_files(dataset: str) -> None:
    for name in corruptions():
        if has_published(dataset, name):
            examples = published(dataset, name, 5)
            assert len(examples) == 10_000
            assert examples.batch(torch.tensor([9_999]))[0].shape == (1, 3, 32, 32)
