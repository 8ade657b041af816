"""A published data set is one module, such as that of the documentation: with it, every command knows the data set."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.command import SMALL, flatfed
from data.declared import add_source
from data.web import Site, md5, mnist_files, serve
from flatfed.data import load

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
ABOUT = "Cursive Japanese characters, 28x28 grey, 10 classes, 60,000 train and 10,000 test (KMNIST)."


@dataclass(frozen=True)
class World:
    """The server of the files, and the data directory that they are put into."""

    site: Site
    data: Path

    def flatfed_data(self, command: str, *options: object) -> tuple[int, str]:
        outcome = flatfed("data", command, *options, "--data-dir", self.data)
        return outcome.code, outcome.out

    def state(self) -> str:
        entries = flatfed("data", "list", "--json", "--data-dir", self.data).json["datasets"]
        return next(entry["state"] for entry in entries if entry["id"] == "kmnist")


def small_kmnist(site: Site) -> str:
    """Return the module of the documentation, with a small KMNIST that a server of this machine holds."""
    text = next(part for part in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if '"kmnist"' in part)
    for name, content in mnist_files().items():
        packed = gzip.compress(content)
        site.put(f"kmnist/{name}.gz", packed)
        text = re.sub(rf'"{name}": IdxFile\(.*\)', f'"{name}": IdxFile("{md5(packed)}", "{md5(content)}")', text)
    text = re.sub('base="[^"]*"', f'base="{site.address}/kmnist/"', text)
    return text.replace("train=60_000, test=10_000", "train=40, test=20").replace("(6_000,)", "(4,)")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The module among the sources, and the server that its files come from."""
    with serve() as site:
        (tmp_path / "modules").mkdir()
        add_source(tmp_path / "modules", monkeypatch, small_kmnist(site), "kmnist")
        yield World(site, tmp_path / "data")


def test_it_is_got_checked_and_listed(world: World) -> None:
    assert world.state() == "missing"
    assert world.flatfed_data("get", "kmnist") == (0, f"kmnist is in {world.data}\n")
    assert len(world.site.asked) == 4
    assert world.flatfed_data("get", "kmnist") == (0, f"kmnist is already in {world.data}\n")
    code, out = world.flatfed_data("check", "kmnist")
    assert (code, out.splitlines()[-1]) == (0, "kmnist is in order")
    assert out.splitlines()[1].split() == ["checksums", "4", "official", "4", "official", "ok"]
    assert world.state() == "in place"
    _, listed = world.flatfed_data("list")
    assert ["kmnist", "in", "place", *ABOUT.split()] in [line.split() for line in listed.splitlines()]
    assert {"id": "kmnist", "about": ABOUT} in flatfed("list", "datasets", "--json").json


def test_it_is_trained_on(world: World, tmp_path: Path) -> None:
    command = ("run", "kmnist", "fedavg", *SMALL, "--out", tmp_path / "run", "--data-dir", world.data)
    outcome = flatfed(*command)
    assert outcome.code == 2
    assert "is missing; get it with `flatfed data get kmnist`" in outcome.err
    world.flatfed_data("get", "kmnist")
    assert flatfed(*command).code == 0
    assert load("kmnist", world.data).class_names[1] == "ki"


def test_what_is_wrong_with_it_is_found(world: World) -> None:
    world.flatfed_data("get", "kmnist")
    labels = world.data / "KMNIST/raw/train-labels-idx1-ubyte"
    labels.write_bytes(labels.read_bytes()[:-1])
    assert world.state() == "incomplete"
    assert world.flatfed_data("check", "kmnist")[0] == 1
    assert world.flatfed_data("get", "kmnist")[0] == 0
    assert world.flatfed_data("check", "kmnist")[0] == 0
