"""Checks of data sets: what is right, what is noted, what is wrong; and which data sets are in place."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data.declared import declare
from data.pictures import write_classes, write_picture
from data.test_camvid import write_camvid
from data.test_dbpedia14 import write_dbpedia
from data.web import idx, md5, mnist_files, write_mnist
from flatfed.core.errors import ConfigError
from flatfed.data import Pool, catalogue, load
from flatfed.data.acquiring.checks import _expected, check
from flatfed.data.acquiring.findings import NOTE, OK, WRONG, Finding
from flatfed.data.acquiring.moments import moments
from flatfed.data.acquiring.places import place
from flatfed.data.catalogue import Expected, Moments, Official, find, registry
from flatfed.data.directory import DataDirectory, MissingData

FOLDER = "MNIST/raw"


def official_of(name: str) -> Official:
    official = find(name).official
    assert official is not None
    return official


def expected_of(name: str) -> Expected:
    expected = find(name).expected
    assert expected is not None
    return expected


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let MNIST be a small one, of which as much is known as of the real one."""
    files = mnist_files()
    layout = {f"{FOLDER}/{name}": md5(content) for name, content in files.items()}
    official = replace(official_of("mnist"), layouts=(layout,))
    images = [
        np.frombuffer(files[f"{part}-images-idx3-ubyte"], np.uint8, offset=16) / 255 for part in ("train", "t10k")
    ]
    known = [Moments((float(part.mean()),), (float(part.std()),), 1e-9) for part in images]
    declare(monkeypatch, "mnist", official=official, expected=Expected(40, 20, 10, (4,) * 10, {}, *known))


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    assert len({finding.what for finding in findings}) == len(findings)
    return {finding.what: finding for finding in findings}


def states(findings: list[Finding]) -> dict[str, str]:
    """Return what is not as it should be."""
    return {finding.what: finding.state for finding in findings if finding.state != OK}


# --- what is known of a data set ------------------------------------------------------------------------------


@pytest.mark.parametrize("zipped", [False, True])
def test_what_is_right(zipped: bool, tmp_path: Path) -> None:
    write_mnist(tmp_path / FOLDER, zipped)
    findings = check("mnist", tmp_path)
    assert states(findings) == {}
    found = by_name(findings)
    assert found["checksums"] == Finding("checksums", "4 official", "4 official")
    assert found["train examples"] == Finding("train examples", "40", "40")
    assert found["test examples"] == Finding("test examples", "20", "20")
    assert found["classes"] == Finding("classes", "10", "10")
    assert found["train examples per class"] == Finding("train examples per class", "4", "4")
    assert found["train inputs"].found == "1x28x28 uint8, 0 to 255"
    assert {"train mean", "train std", "test mean", "test std"} <= set(found)


def change(root: Path, file: str, index: int) -> None:
    path = root / FOLDER / file
    content = bytearray(path.read_bytes())
    content[index] ^= 1
    path.write_bytes(content)


def test_a_pixel_that_is_one_off_is_found(tmp_path: Path) -> None:
    write_mnist(tmp_path / FOLDER)
    change(tmp_path, "train-images-idx3-ubyte", 5000)
    findings = check("mnist", tmp_path)
    assert states(findings) == {"checksums": NOTE, "train mean": WRONG, "train std": WRONG}
    assert by_name(findings)["checksums"].found == "3 official, not train-images-idx3-ubyte"
    assert "off by" in by_name(findings)["train mean"].found


def test_a_wrong_label_is_found(tmp_path: Path) -> None:
    write_mnist(tmp_path / FOLDER)
    change(tmp_path, "train-labels-idx1-ubyte", 9)
    assert states(check("mnist", tmp_path)) == {"checksums": NOTE, "train examples per class": WRONG}


def test_another_order_is_noted_only(tmp_path: Path) -> None:
    write_mnist(tmp_path / FOLDER)
    for file, width in (("t10k-images-idx3-ubyte", 784), ("t10k-labels-idx1-ubyte", 1)):
        path = tmp_path / FOLDER / file
        header, content = path.read_bytes()[: -20 * width], path.read_bytes()[-20 * width :]
        path.write_bytes(header + np.frombuffer(content, np.uint8).reshape(20, width)[::-1].tobytes())
    findings = check("mnist", tmp_path)
    assert states(findings) == {"checksums": NOTE}
    assert by_name(findings)["checksums"].expected == "4 official"


def test_other_counts_are_found(tmp_path: Path) -> None:
    write_mnist(tmp_path / FOLDER, train=41, test=19)
    wrong = states(check("mnist", tmp_path))
    assert {"train examples", "test examples", "train examples per class", "train mean"} <= set(wrong)
    assert by_name(check("mnist", tmp_path))["train examples"] == Finding("train examples", "41", "40", WRONG)


def test_a_class_too_few_is_found(tmp_path: Path) -> None:
    write_mnist(tmp_path / FOLDER)
    (tmp_path / FOLDER / "train-labels-idx1-ubyte").write_bytes(idx((np.arange(40) % 9).astype(np.uint8)))
    assert by_name(check("mnist", tmp_path))["classes"] == Finding("classes", "9", "10", WRONG)


@pytest.mark.parametrize("zipped", [False, True])
def test_damage_is_a_check_that_failed(zipped: bool, tmp_path: Path) -> None:
    write_mnist(tmp_path / FOLDER, zipped)
    path = tmp_path / FOLDER / f"t10k-images-idx3-ubyte{'.gz' if zipped else ''}"
    path.write_bytes(path.read_bytes()[:-50])
    found = by_name(check("mnist", tmp_path))
    assert found["reading it"].state == WRONG
    assert f"{path} is truncated" in found["reading it"].found
    assert found["checksums"].found == "3 official, not t10k-images-idx3-ubyte"


def test_a_missing_file_is_a_check_that_failed(tmp_path: Path) -> None:
    write_mnist(tmp_path / FOLDER)
    (tmp_path / FOLDER / "t10k-labels-idx1-ubyte").unlink()
    found = by_name(check("mnist", tmp_path))
    assert found["files"] == Finding("files", f"{FOLDER}/t10k-labels-idx1-ubyte missing", "4", WRONG)
    assert found["reading it"].state == WRONG


def test_a_data_set_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is missing; get it with `flatfed data get mnist`"):
        check("mnist", tmp_path)
    with pytest.raises(ConfigError, match="unknown data set 'mnits'; did you mean 'mnist'"):
        check("mnits", tmp_path)


@pytest.mark.parametrize("name", ["camvid", "cityscapes", "dbpedia14", "idda", "landmarks-user-160k", "pacs"])
def test_what_no_command_downloads_is_fetched_by_hand(name: str, tmp_path: Path) -> None:
    with pytest.raises(MissingData) as refused:
        check(name, tmp_path)
    assert refused.value.dataset == name
    text, home = str(refused.value), official_of(name).home
    assert text.startswith(f"{name}: {tmp_path}/")
    assert f" is missing; fetch the official files from {home} and put them there, or name the folder" in text
    assert "data get" not in text
    assert "\n" not in text


# --- published sets of photographs ----------------------------------------------------------------------------


DOMAINS = {
    "officehome": ("OfficeHome", ["Art", "Clipart", "Product", "Real World"], 15_588, 65),
    "pacs": ("PACS", ["art_painting", "cartoon", "photo", "sketch"], 9_991, 7),
}


@pytest.mark.parametrize(
    ("name", "target"), [("officehome", {}), ("officehome", {"target": "Product"}), ("pacs", {"target": "photo"})]
)
def test_counts_of_domains(name: str, target: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, domains, images, classes = DOMAINS[name]
    for number, domain in enumerate(domains):
        write_classes(tmp_path / folder / domain, {"dog": 10 + number, "house": 10})
    options = {**target, "size": 8, "crop": 8}
    found = by_name(check(name, tmp_path, options))
    assert found["examples in all"] == Finding("examples in all", "86", f"{images:,}", WRONG)
    assert found["groups by domain"] == Finding("groups by domain", "3", "3", OK)
    assert found["train examples"].expected == found["test examples"].expected == ""
    assert by_name(check(name, tmp_path))["classes"] == Finding("classes", "2", f"{classes}", WRONG)
    declare(monkeypatch, name, expected=replace(expected_of(name), classes=2, total=86))
    assert states(check(name, tmp_path)) == states(check(name, tmp_path, options)) == {}
    write_picture(tmp_path / folder / domains[-1] / "dog" / "more.png")
    assert states(check(name, tmp_path)) == {"examples in all": WRONG}


def test_counts_of_landmarks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "landmarks-user-160k"
    folder = tmp_path / name
    rows = {"federated_train": ["user_id,image_id,class"], "test": ["image_id,class"]}
    for number in range(5):
        write_picture(folder / "train" / f"abc{number}.jpg", number)
        row = f"abc{number},{number % 2}"
        rows["federated_train" if number < 4 else "test"].append(f"{number % 3},{row}" if number < 4 else row)
    for table, lines in rows.items():
        (folder / f"{table}.csv").write_text("\n".join(lines) + "\n")
    found = by_name(check(name, tmp_path))
    for what, expected in {"train examples": "164,172", "test examples": "19,526", "classes": "2,028"}.items():
        assert (found[what].expected, found[what].state) == (expected, WRONG)
    assert found["groups by user"] == Finding("groups by user", "3", "1,262", WRONG)
    assert (found["train examples"].found, found["test examples"].found, found["classes"].found) == ("4", "1", "2")
    declare(monkeypatch, name, expected=Expected(4, 1, 2, groups={"user": 3}))
    assert states(check(name, tmp_path)) == {}


def test_counts_of_camvid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_camvid(tmp_path)
    found = by_name(check("camvid", tmp_path))
    for what, expected in {"train examples": "367", "test examples": "233", "val examples": "101"}.items():
        assert (found[what].expected, found[what].state) == (expected, WRONG)
    assert found["classes"] == Finding("classes", "11", "11")
    counts = {part: int(found[f"{part} examples"].found) for part in ("train", "test", "val")}
    known = replace(expected_of("camvid"), train=counts["train"], test=counts["test"], further={"val": counts["val"]})
    declare(monkeypatch, "camvid", expected=replace(known, groups={}))
    assert states(check("camvid", tmp_path)) == {}


def test_counts_of_cityscapes() -> None:
    known = expected_of("cityscapes")
    assert (known.train, known.test, known.classes, known.groups["city"]) == (2_975, 500, 19, 18)
    assert _expected(find("cityscapes"), {"lists": ""}) is known
    assert _expected(find("cityscapes"), {"lists": "uniform"}) is None  # whose clients may have other pictures


def test_a_subset_of_dbpedia_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dbpedia(tmp_path, {"train": 6, "test": 3})
    found = by_name(check("dbpedia14", tmp_path))
    assert found["train examples"] == Finding("train examples", "a subset: 84 of 560,000", "560,000", NOTE)
    assert found["test examples"] == Finding("test examples", "a subset: 42 of 70,000", "70,000", NOTE)
    assert WRONG not in states(check("dbpedia14", tmp_path)).values()
    declare(monkeypatch, "dbpedia14", expected=replace(expected_of("dbpedia14"), train=84, test=42))
    assert states(check("dbpedia14", tmp_path)) == {}
    few = by_name(check("dbpedia14", tmp_path, {"per_class": 4, "test_per_class": 0}))
    assert few["train examples"] == Finding("train examples", "56", "56")
    assert few["test examples"] == Finding("test examples", "42", "42")


# --- any data set ---------------------------------------------------------------------------------------------


def test_a_data_set_of_which_nothing_is_known() -> None:
    findings = check("digits")
    assert states(findings) == {}
    assert by_name(findings)["train examples"] == Finding("train examples", "1,437")
    assert by_name(findings)["train examples per class"].found == "138 to 147, median 144"


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Enter a data set whose parts a test may change."""
    changes: dict[str, Any] = {}

    def load_toy(directory: DataDirectory, scale: int = 1) -> Pool:
        """Digits, changed."""
        directory.find("toy", "toy.txt")
        return replace(load("digits"), name="toy", **changes)

    catalogue.datasets()
    monkeypatch.setattr(registry, "_sources", dict(registry._sources))
    catalogue.source("toy")(load_toy)
    return changes


def test_natural_clients_and_further_tests_are_reported(toy: dict[str, Any], tmp_path: Path) -> None:
    digits = load("digits")
    toy |= {"groups": {"writer": torch.arange(1437) // 500}, "tests": {"unseen": digits.test}}
    (tmp_path / "toy.txt").touch()
    findings = check("toy", tmp_path)
    assert states(findings) == {}
    found = by_name(findings)
    assert found["groups by writer"].found == "3"
    assert found["train examples per group by writer"].found == "437 to 500, median 500"
    assert found["unseen examples"].found == "360"
    assert found["unseen inputs"].found == "1x8x8 uint8, 0 to 16"


def test_groups_that_should_be_there(toy: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch, "toy", expected=Expected(1437, 360, 10, groups={"writer": 4}))
    (tmp_path / "toy.txt").touch()
    assert by_name(check("toy", tmp_path))["groups by writer"] == Finding("groups by writer", "none", "4", WRONG)
    toy["groups"] = {"writer": torch.arange(1437) // 500}
    assert by_name(check("toy", tmp_path))["groups by writer"] == Finding("groups by writer", "3", "4", WRONG)


def test_values_that_are_no_numbers_are_found(toy: dict[str, Any], tmp_path: Path) -> None:
    toy["prepare"] = lambda inputs: inputs.to(torch.float32) / 0
    (tmp_path / "toy.txt").touch()
    assert states(check("toy", tmp_path)) == {"train inputs": WRONG, "test inputs": WRONG}


def test_a_class_without_examples_is_noted(toy: dict[str, Any], tmp_path: Path) -> None:
    toy |= {"classes": 11, "class_names": ()}
    (tmp_path / "toy.txt").touch()
    assert states(check("toy", tmp_path)) == {"classes": NOTE}


def test_options_are_checked(toy: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "toy.txt").touch()
    assert states(check("toy", tmp_path, {"scale": 2})) == {}
    with pytest.raises(ConfigError, match="unknown option 'sacle'; did you mean 'scale'"):
        check("toy", tmp_path, {"sacle": 2})


@pytest.mark.parametrize("shape", [(7, 1, 5, 5), (2500, 3, 4, 6)])
def test_moments_lose_nothing(shape: tuple[int, ...]) -> None:
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    mean, std = moments(images)
    numbers = images.numpy().astype(np.float64) / 255
    np.testing.assert_allclose(mean, numbers.mean((0, 2, 3)), rtol=1e-13)
    np.testing.assert_allclose(std, numbers.std((0, 2, 3)), rtol=1e-12)


# --- which are in place ---------------------------------------------------------------------------------------


def state(name: str, root: Path) -> tuple[str, str]:
    found = place(find(name), DataDirectory(root))
    return found.state, found.lacking


def test_whether_a_data_set_is_in_place(toy: dict[str, Any], tmp_path: Path) -> None:
    assert state("digits", tmp_path) == ("built in", "")
    assert state("mnist", tmp_path)[0] == "missing"
    assert "toy.txt is missing; put the files there, or name the folder that" in state("toy", tmp_path)[1]
    (tmp_path / "toy.txt").touch()
    assert state("toy", tmp_path) == ("in place", "")
    write_mnist(tmp_path / FOLDER)
    assert state("mnist", tmp_path) == ("in place", "")
    (tmp_path / FOLDER / "t10k-labels-idx1-ubyte").unlink()
    assert state("mnist", tmp_path) == (
        "incomplete",
        f"{FOLDER}/t10k-labels-idx1-ubyte is missing",
    )
    (tmp_path / FOLDER / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.zeros(20, np.uint8))))
    assert state("mnist", tmp_path)[0] == "in place"


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("kept", [0, 3, 9, -1])
def test_a_truncated_file_is_incomplete(kept: int, zipped: bool, tmp_path: Path) -> None:
    write_mnist(tmp_path / FOLDER, zipped)
    path = tmp_path / FOLDER / f"t10k-images-idx3-ubyte{'.gz' if zipped else ''}"
    path.write_bytes(path.read_bytes()[:kept])
    fault = f"{FOLDER}/t10k-images-idx3-ubyte is truncated or damaged"
    assert state("mnist", tmp_path) == ("incomplete", fault)


@pytest.mark.parametrize("file", ["cifar-10-batches-bin/test_batch.bin", "cifar-10-batches-py/test_batch"])
def test_a_truncated_batch_of_cifar_is_incomplete(file: str, tmp_path: Path) -> None:
    layout = next(layout for layout in official_of("cifar10").layouts if file in layout)
    for name in layout:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        with (tmp_path / name).open("wb") as batch:
            batch.truncate(30_729_999)
            batch.seek(30_729_999)
            batch.write(b".")
    assert state("cifar10", tmp_path) == ("in place", "")
    with (tmp_path / file).open("r+b") as batch:
        batch.truncate(9_000 * 3_073)
    assert state("cifar10", tmp_path) == ("incomplete", f"{file} is truncated or damaged")


def test_a_truncated_file_of_writers_is_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "mnist-writers.npz"
    np.savez(path, x_train=np.zeros(1000))
    assert state("mnist-writers", tmp_path)[0] == "in place"
    path.write_bytes(path.read_bytes()[:-30])
    fault = "mnist-writers.npz is truncated or damaged"
    assert state("mnist-writers", tmp_path) == ("incomplete", fault)


def test_nothing_is_read_to_find_that_out(toy: dict[str, Any], tmp_path: Path) -> None:
    toy["no such field"] = 1
    (tmp_path / "toy.txt").touch()
    assert state("toy", tmp_path) == ("in place", "")


def test_every_data_set_can_tell(tmp_path: Path) -> None:
    for name in catalogue.datasets():
        found, lacking = state(name, tmp_path)
        assert found in ("built in", "missing", "needs options"), name
        assert bool(lacking) == (found != "built in")


# --- the real files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "fashion-mnist", "mnist-writers"])
def test_the_real_files(name: str) -> None:
    if place(find(name), DataDirectory()).state != "in place":
        pytest.skip(f"{name} is not in {DataDirectory().path}")
    findings = check(name)
    assert WRONG not in states(findings).values()
    assert set(states(findings)) <= {"checksums"}
