"""`flatfed data`: get, check and list."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cli.command import flatfed, on_terminal, refused
from data.declared import declare
from data.web import Site, idx, official_mnist, serve, write_mnist
from flatfed.data import datasets
from flatfed.data.catalogue import Expected, find

COMMANDS = {"get": "NAME", "check": "NAME", "list": ""}


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server on this machine, from which MNIST is got: a small one, of which as much is known."""
    with serve() as made:
        declare(monkeypatch, "mnist", official=official_mnist(made), expected=Expected(40, 20, 10, (4,) * 10))
        yield made


# --- get ------------------------------------------------------------------------------------------------------


def test_get_puts_the_files_in_place(site: Site, tmp_path: Path) -> None:
    outcome = flatfed("data", "get", "mnist", "--data-dir", tmp_path)
    assert (outcome.code, outcome.out) == (0, f"mnist is in {tmp_path}\n")
    lines = outcome.err.splitlines()
    assert lines[0].startswith("fetching train-images-idx3-ubyte.gz, 0.0 MB")
    assert lines[1] == "unpacking train-images-idx3-ubyte.gz"
    assert len(lines) == 8
    assert flatfed("data", "check", "mnist", "--data-dir", tmp_path).code == 0
    again = flatfed("data", "get", "mnist", "--data-dir", tmp_path)
    assert (again.code, again.out, again.err) == (0, f"mnist is already in {tmp_path}\n", "")
    assert len(site.asked) == 4


def test_get_shows_a_bar_on_a_terminal(site: Site, tmp_path: Path) -> None:
    outcome = on_terminal("data", "get", "mnist", "--data-dir", tmp_path)
    assert outcome.code == 0
    assert outcome.out.strip() == f"mnist is in {tmp_path}"
    assert "unpacking t10k-labels-idx1-ubyte.gz" in outcome.err
    assert "bytes" in outcome.err or "kB" in outcome.err
    assert "━" in outcome.err


def test_get_tells_of_a_download_that_goes_on(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "MNIST/raw"
    folder.mkdir(parents=True)
    content = site.files["/mnist/train-images-idx3-ubyte.gz"]
    (folder / "train-images-idx3-ubyte.gz.part").write_bytes(content[:9000])
    outcome = flatfed("data", "get", "mnist", "--data-dir", tmp_path)
    assert outcome.code == 0
    assert outcome.err.splitlines()[0].endswith(", going on from 0.0 MB")
    assert site.asked[0] == ("/mnist/train-images-idx3-ubyte.gz", "bytes=9000-")


def test_get_goes_by_the_environment(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLATFED_DATA", str(tmp_path / "there"))
    assert flatfed("data", "get", "mnist").out == f"mnist is in {tmp_path / 'there'}\n"
    assert "mnist" in flatfed("data", "list").out


def test_get_without_a_network_tells_what_to_put_where(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    official = find("mnist").official
    assert official is not None
    away = tuple(replace(d, urls=(d.urls[0].replace(site.address, site.nowhere),)) for d in official.downloads)
    declare(monkeypatch, "mnist", official=replace(official, downloads=away))
    outcome = flatfed("data", "get", "mnist", "--data-dir", tmp_path)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("Error: mnist: 127.0.0.1:")
    again = f"`flatfed data get mnist --data-dir {tmp_path}` again"
    assert f"put them into {tmp_path}/MNIST/raw and run {again}" in outcome.err
    assert outcome.err.count("\n") == 1
    assert "--data-dir 'a folder'` again" in flatfed("data", "get", "mnist", "--data-dir", "a folder").err
    monkeypatch.setenv("FLATFED_DATA", str(tmp_path))
    assert "run `flatfed data get mnist` again" in flatfed("data", "get", "mnist").err


def test_get_of_something_else_than_the_official_file(site: Site, tmp_path: Path) -> None:
    site.files = dict.fromkeys(site.files, b"sign in to this wireless network")
    outcome = flatfed("data", "get", "mnist", "--data-dir", tmp_path)
    assert (outcome.code, outcome.out) == (1, "")
    assert "is not the official file" in outcome.err.splitlines()[-1]
    assert "Traceback" not in outcome.err


def test_get_of_what_cannot_be_downloaded(tmp_path: Path) -> None:
    assert flatfed("data", "get", "digits").out == "digits is part of an installed package\n"
    refused(flatfed("data", "get", "mnsit"), "unknown data set 'mnsit'; did you mean 'mnist'")
    outcome = flatfed("data", "get", "cityscapes", "--data-dir", tmp_path)
    assert outcome.code == 2
    assert "cityscapes cannot be downloaded by a command: put " in outcome.err
    assert "https://www.cityscapes-dataset.com" in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("name", ["image-folder", "client-csv", "texts", "table", "hugging-face"])
def test_get_of_data_of_ones_own(name: str, tmp_path: Path) -> None:
    outcome = flatfed("data", "get", name, "--data-dir", tmp_path)
    refused(
        outcome, f"{name} stands for data of your own", f"`flatfed run {name} ...`", "--set data.path=", "own-data.md"
    )
    assert "put " not in outcome.err and " in place" not in outcome.err


def test_get_of_a_function_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "our_patients.py").write_text("def load(): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    outcome = flatfed("data", "get", "our_patients:load")
    refused(outcome, "our_patients:load is a function of your own", "`flatfed run our_patients:load ...`")


# --- check ----------------------------------------------------------------------------------------------------


def test_check_prints_a_table(site: Site, tmp_path: Path) -> None:
    write_mnist(tmp_path / "MNIST/raw")
    outcome = flatfed("data", "check", "mnist", "--data-dir", tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["found", "expected"]
    assert lines[1].split() == ["checksums", "4", "official", "4", "official", "ok"]
    assert lines[-1] == "mnist is in order"


def test_check_notes_other_files(site: Site, tmp_path: Path) -> None:
    write_mnist(tmp_path / "MNIST/raw")
    (tmp_path / "MNIST/raw/t10k-labels-idx1-ubyte").write_bytes(idx((np.arange(20)[::-1] % 10).astype(np.uint8)))
    outcome = flatfed("data", "check", "mnist", "--data-dir", tmp_path)
    assert outcome.code == 0
    assert outcome.out.endswith("mnist is in order, except for what is noted\n")


def test_check_fails(site: Site, tmp_path: Path) -> None:
    write_mnist(tmp_path / "MNIST/raw", train=30)
    outcome = flatfed("data", "check", "mnist", "--data-dir", tmp_path)
    assert (outcome.code, outcome.err) == (1, "")
    assert outcome.out.endswith("mnist: 2 of 7 checks failed\n")
    (tmp_path / "MNIST/raw/train-labels-idx1-ubyte").write_bytes(b"[bold]damaged[/bold]")
    outcome = flatfed("data", "check", "mnist", "--data-dir", tmp_path)
    assert outcome.code == 1
    assert "is not an idx file" in outcome.out
    outcome = on_terminal("data", "check", "mnist", "--data-dir", tmp_path)
    assert outcome.code == 1


def test_check_as_json(site: Site, tmp_path: Path) -> None:
    write_mnist(tmp_path / "MNIST/raw", train=30)
    outcome = flatfed("data", "check", "mnist", "--data-dir", tmp_path, "--json")
    assert outcome.code == 1
    assert (outcome.json["dataset"], outcome.json["ok"]) == ("mnist", False)
    assert {"what": "test examples", "found": "20", "expected": "20", "state": "ok"} in outcome.json["checks"]
    assert {"what": "train examples", "found": "30", "expected": "40", "state": "wrong"} in outcome.json["checks"]


def test_check_of_what_is_not_there(tmp_path: Path) -> None:
    refused(flatfed("data", "check", "mnits"), "unknown data set 'mnits'; did you mean 'mnist'")
    refused(
        flatfed("data", "check", "cifar10", "--data-dir", "empty"),
        "is missing; get it with `flatfed data get cifar10`",
    )
    refused(flatfed("data", "check", "mnist", "--data-dir", tmp_path, "--set", "data.labels=fine"), "unknown option")
    assert flatfed("data", "check", "digits").code == 0


@pytest.mark.parametrize("prefix", ["", "data."])
def test_check_with_options(prefix: str, tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    for part in ("train", "test"):
        records = np.zeros((100, 3074), np.uint8)
        records[:, 1] = np.arange(100)
        records[:, 0] = np.arange(100) // 5
        (folder / f"{part}.bin").write_bytes(records.tobytes())
    outcome = flatfed("data", "check", "cifar100", "--data-dir", tmp_path, "--set", f"{prefix}labels=coarse", "--json")
    actual = {row["what"]: row for row in outcome.json["checks"]}
    assert (actual["classes"]["found"], actual["classes"]["state"]) == ("20", "ok")
    refused(
        flatfed("data", "check", "cifar100", "--data-dir", tmp_path, "--set", f"{prefix}labels=rough"),
        "labels",
        "rough",
    )


# --- list -----------------------------------------------------------------------------------------------------


def test_list_tells_what_is_in_place(tmp_path: Path) -> None:
    write_mnist(tmp_path / "MNIST/raw")
    (tmp_path / "FashionMNIST/raw").mkdir(parents=True)
    (tmp_path / "MNIST/raw/train-images-idx3-ubyte").rename(tmp_path / "FashionMNIST/raw/train-images-idx3-ubyte")
    (tmp_path / "cifar-10-batches-py").mkdir()
    write_mnist(tmp_path / "MNIST/raw")
    outcome = flatfed("data", "list", "--data-dir", tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0] == f"data directory: {tmp_path}"
    states = {line.split()[0]: line.split("  ")[1:] for line in lines[1:]}
    assert set(states) == set(datasets())
    listed = {
        entry["id"]: entry for entry in flatfed("data", "list", "--data-dir", tmp_path, "--json").json["datasets"]
    }
    assert listed["mnist"]["state"] == "in place"
    assert listed["digits"]["state"] == "built in"
    assert listed["fashion-mnist"]["state"] == "incomplete"
    assert listed["fashion-mnist"]["lacking"] == "FashionMNIST/raw/train-labels-idx1-ubyte is missing"
    assert listed["cifar10"]["state"] == "incomplete"
    assert listed["cifar100"]["state"] == "missing"
    assert "is missing" in listed["cifar100"]["lacking"]


def test_list_fits_a_terminal(tmp_path: Path) -> None:
    outcome = on_terminal("data", "list", "--data-dir", tmp_path)
    assert outcome.code == 0
    assert all(len(line) <= 80 for line in outcome.out.splitlines()[1:])


# --- help -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_explains_itself(command: str) -> None:
    outcome = flatfed("data", command, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert f"Usage: flatfed data {command} [OPTIONS] {COMMANDS[command]}".strip() in outcome.out
    assert "--data-dir" in outcome.out
    assert all(len(line) <= 80 for line in outcome.out.splitlines())


def test_the_group_explains_itself() -> None:
    outcome = flatfed("data", "--help")
    assert outcome.code == 0
    assert all(f"\n  {command} " in outcome.out for command in COMMANDS)
    assert "..." not in outcome.out.partition("Commands:")[2]
    refused(flatfed("data", "gte"), "unknown command 'gte'; did you mean 'get'")
    refused(flatfed("data", "get"), "Missing argument 'NAME'")


def test_help_does_not_wait_for_torch() -> None:
    program = (
        "import sys\n"
        "from flatfed.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: sys.stderr.write(' '.join({'torch', 'numpy', 'matplotlib', 'sklearn'} & set(sys.modules)))\n"
    )
    command = [sys.executable, "-c", program, "data", "check", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout
    assert done.stderr == ""
