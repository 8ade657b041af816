"""`flatfed show --figure FILE --plot NAMES`: any number of the history as a curve."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import matplotlib.image
import pytest

from cli.command import SMALL, Outcome, fingerprint, flatfed, read_history, refused

METHODS = ("fedavg", "fedgf")


@pytest.fixture(scope="module")
def _two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("watched") / "two"
    outcome = flatfed("compare", "digits", *METHODS, "--seeds", "0,1", *SMALL, "--out", out)
    assert outcome.code == 0, outcome.err
    return out


@pytest.fixture
def two(_two: Path, tmp_path: Path) -> Path:
    """FedAvg and FedGF, which watches `c`, over two seeds."""
    return Path(shutil.copytree(_two, tmp_path / "two"))


def show(runs: Path, *options: str) -> Outcome:
    return flatfed("show", runs, *options)


def width_of(file: Path) -> int:
    """Return the width of a figure in pixels, after checking that it can be read."""
    content = file.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    pixels = matplotlib.image.imread(file)
    assert pixels.shape[:2] == (height, width)
    assert float(pixels[..., :3].min()) < 0.5 < float(pixels[..., :3].max())
    return int(width)


def test_watched_numbers_are_drawn(two: Path) -> None:
    outcome = show(two, "--figure", "f.png", "--plot", "c,divergence")
    assert outcome.code == 0, outcome.err
    assert "f.png" in outcome.err
    assert "fedgf" in outcome.out
    assert width_of(Path("f.png")) > 0


@pytest.mark.parametrize(("names", "count"), [("c", 1), ("update_norm, test_loss", 2), ("lr,test_accuracy,c", 3)])
def test_a_panel_for_each_name(names: str, count: int, two: Path) -> None:
    for file, drawn in (("one.png", "lr"), ("f.png", names)):
        assert show(two, "--figure", file, "--plot", drawn).code == 0
    assert width_of(Path("f.png")) == count * width_of(Path("one.png"))


def test_every_number_of_the_history_can_be_drawn(two: Path) -> None:
    row = read_history(two / "fedgf" / "seed-0")[-1]
    assert set(row["watch"]) == {"c", "divergence"}
    numbers = [name for name, value in row.items() if isinstance(value, int | float) and name != "round"]
    assert {"lr", "bytes_up", "seconds", "test_loss"} <= set(numbers)
    assert show(two, "--figure", "f.svg", "--plot", ",".join([*numbers, *row["watch"]])).code == 0


def test_axes_are_named_and_one_method_may_have_no_curve(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    assert show(two, "--figure", "c.svg", "--plot", "c").code == 0
    assert show(two, "--figure", "both.svg", "--plot", "c,divergence").code == 0
    alone, both = (Path(name).read_text() for name in ("c.svg", "both.svg"))
    assert ">fedgf<" in alone and ">fedavg<" not in alone
    assert ">fedgf<" in both and ">fedavg<" in both
    assert ">c<" in alone and "client divergence" in both


def test_names_do_not_change_the_table_or_the_runs(two: Path) -> None:
    before, plain = fingerprint(two), show(two, "--json").out
    assert show(two, "--json", "--figure", "f.png", "--plot", "c").out == plain
    assert fingerprint(two) == before


def test_without_names_accuracy_and_loss_are_drawn(two: Path) -> None:
    assert show(two, "--figure", "f.png").code == 0
    assert show(two, "--figure", "g.png", "--plot", "test_accuracy,train_loss").code == 0
    assert Path("f.png").read_bytes() == Path("g.png").read_bytes()


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        ("divergense", ["'divergense'", "'divergence'"]),
        ("c,update-norm", ["'update-norm'", "'update_norm'"]),
        ("accuracy", ["'accuracy'", "'test_accuracy'"]),
        ("zzz", ["'zzz'", "backprops, bytes_down, bytes_up, c"]),
        ("clients", ["'clients' holds a list", "backprops, bytes_down"]),
        ("test_class_accuracy", ["'test_class_accuracy' holds a list, not one number per round", "test_accuracy"]),
        ("watch", ["'watch' holds numbers by name", "divergence"]),
        ("round", ["'round'"]),
        ("c,", ["''"]),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(names: str, parts: list[str], two: Path) -> None:
    outcome = show(two, "--figure", "f.png", "--plot", names)
    assert outcome.code == 2
    [*_, last] = outcome.err.splitlines()
    assert last.startswith("Error: --plot: ") and len(last) < 300
    assert all(part in last for part in parts)
    assert "Traceback" not in outcome.err
    assert not Path("f.png").exists()


def test_a_number_that_only_other_methods_watch_is_unknown(two: Path) -> None:
    outcome = show(two / "fedavg" / "seed-0", "--figure", "f.png", "--plot", "c")
    assert outcome.code == 2
    assert "'c'" in outcome.err


def test_names_without_a_file_are_refused(two: Path) -> None:
    refused(show(two, "--plot", "c"), "--plot", "--figure")


def test_a_file_that_cannot_be_written_is_refused(two: Path) -> None:
    outcome = show(two, "--figure", "missing/f.png", "--plot", "c")
    assert outcome.code == 2
    assert "missing/f.png" in outcome.err and "Traceback" not in outcome.err
    refused(show(two, "--figure", "f.gif", "--plot", "c"), "f.gif", ".png", ".svg", ".pdf")
