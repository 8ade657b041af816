"""`flatfed landscape`: files of each kind, points that outlast an interruption, and what is refused."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flatfed as ff
import nursery
from cli.command import SMALL, flatfed, on_terminal, read_history, read_json, refused, without_pictures
from engines.bench import PATIENCE, alive
from flatfed.flatness.surface import Surface

pytest.importorskip("matplotlib")
pytest.importorskip("plotly")

METHODS = ("fedavg", "fedsam", "fedavgm")
FILES = {
    "surface": ["surface", "surface-contours"],
    "line": ["line"],
    "plane": ["plane-loss", "plane-error"],
    "along": ["along-the-gradient", "along-random-directions"],
    "client": ["client", "client-contours"],
    "clients": ["clients-loss", "clients-error"],
    "client-plane": ["client-plane"],
}
COUNTS = {"surface": 2, "line": 2, "plane": 3, "along": 2, "client": 1, "clients": 1, "client-plane": 1}
unseen = pytest.mark.usefixtures("no_pictures")
REMOTE = re.compile(r"<(script|link|img|iframe)\b[^>]*\b(src|href)\s*=", re.IGNORECASE)


@pytest.fixture(scope="module")
def _trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("landscape")
    for method in METHODS:
        assert flatfed("run", "digits", method, *SMALL, "--per-round", 3, "--out", root / method).code == 0
    other = [word if word != "logreg" else "mlp" for word in SMALL]
    assert flatfed("run", "digits", "fedavg", *other, "--out", root / "other").code == 0
    return root


@pytest.fixture
def runs(_trained: Path, tmp_path: Path) -> list[Path]:
    """Runs of three methods; copies for each test, by paths as they are typed."""
    shutil.copytree(_trained, tmp_path / "runs")
    return [Path("runs") / method for method in METHODS]


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of points that are evaluated."""
    actual, plain = list[int](), Surface.metrics_at

    def counted(surface: Surface, points: Sequence[Any], *rest: Any, **more: Any) -> Any:
        actual.append(len(points))
        return plain(surface, points, *rest, **more)

    monkeypatch.setattr(Surface, "metrics_at", counted)
    return actual


def check_pictures(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert ET.parse(folder / f"{name}.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"


# --- files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FILES)
def test_every_kind_writes_its_pictures_and_numbers(kind: str, runs: list[Path], count: list[int]) -> None:
    """And a second call writes them without evaluating anything."""
    chosen = () if kind == "surface" else ("--kind", kind)
    command = ("landscape", *runs[: COUNTS[kind]], *chosen, "--points", 3, "--directions", 2, "--title", "A title")
    with without_pictures():
        first = flatfed(*command, "--out", "first")
    assert first.code == 0, first.err
    assert count
    count.clear()
    outcome = flatfed(*command, "--out", "o/p")
    assert (outcome.code, outcome.out) == (0, first.out)
    assert not count
    assert read_json(Path(f"first/{kind}.json")) == read_json(Path(f"o/p/{kind}.json"))
    pages = [f"{kind}.html"] if kind in ("surface", "client") else []
    expected = {
        f"{kind}.json",
        *pages,
        *(f"{name}.{ending}" for name in FILES[kind] for ending in ("png", "pdf", "svg")),
    }
    assert {file.name for file in Path("o/p").iterdir()} == expected
    assert outcome.err.splitlines()[-1].startswith("written: ")
    assert all(str(Path("o/p") / name) in outcome.err for name in expected)
    check_pictures(Path("o/p"), FILES[kind])
    numbers = read_json(Path("o/p") / f"{kind}.json")
    assert bool(numbers["grids"]) != bool(numbers["lines"])
    for page in pages:
        text = (Path("o/p") / page).read_text(encoding="utf-8")
        assert text.lstrip().lower().startswith(("<!doctype html>", "<html"))
        assert not REMOTE.search(text)
        assert len(text) > 1_000_000, "the library is in the page"


@unseen
def test_the_folder_is_the_first_runs_unless_reported(runs: list[Path]) -> None:
    outcome = flatfed("landscape", *runs[:2], "--points", 3)
    assert outcome.code == 0, outcome.err
    assert (runs[0] / "flatness" / "surface.json").is_file()
    assert not (runs[1] / "flatness" / "surface.json").exists()


@unseen
def test_the_folder_of_a_checkpoint_is_its_runs(runs: list[Path]) -> None:
    """A checkpoint is removed when newer ones come, and whatever lies in it."""
    start = runs[0] / "checkpoints" / "round-000002"
    outcome = flatfed("landscape", start, "--points", 3)
    assert outcome.code == 0, outcome.err
    assert sorted(file.name for file in start.iterdir()) == ["checkpoint.json", "server.safetensors"]
    assert (runs[0] / "flatness" / "surface.json").is_file()


@unseen
def test_what_is_printed_are_the_losses_in_the_file(runs: list[Path]) -> None:
    outcome = flatfed("landscape", *runs[:2], "--points", 5, "--samples", 200)
    lines = outcome.out.splitlines()
    for grid, line, run in zip(read_json(runs[0] / "flatness/surface.json")["grids"], lines, runs, strict=False):
        losses = np.array(grid["losses"])
        edge = np.concatenate([losses[0], losses[-1], losses[:, 0], losses[:, -1]]).mean()
        assert line.startswith(f"{run.name}: loss {losses[2, 2]:.4f} in the middle, {edge:.4f} on average at the edge")
        assert "200 of 1,435 examples (seed 0)" in line
        with ff.laboratory(run, samples=200) as lab:
            assert losses[2, 2] == pytest.approx(lab.surface.loss(), rel=1e-6)


@unseen
def test_a_line_prints_its_barriers(runs: list[Path]) -> None:
    outcome = flatfed("landscape", *runs[:2], "--kind", "line", "--points", 5)
    [line] = read_json(runs[0] / "flatness" / "line.json")["lines"]
    assert outcome.out.splitlines() == [
        f"fedsam to fedavg, {name}: barrier {line['barriers'][name]:.4f}" for name in ("train", "test")
    ]
    assert {0.0, 1.0} <= set(line["xs"]) and (line["xs"][0], line["xs"][-1]) == (-1, 2)


@unseen
def test_a_comparison_stands_for_its_runs(comparison: Path) -> None:
    outcome = flatfed("landscape", comparison, "--kind", "along", "--points", 3, "--directions", 1, "--out", "o")
    assert outcome.code == 0, outcome.err
    labels = [line["label"] for line in read_json(Path("o/along.json"))["lines"]]
    assert (len(labels), len(set(labels))) == (18, 9)


@unseen
def test_a_clients_model(runs: list[Path]) -> None:
    outcome = flatfed("landscape", runs[0], "--kind", "client", "--client", 3, "--round", "next", "--points", 3)
    assert outcome.code == 0, outcome.err
    assert [grid["label"] for grid in read_json(runs[0] / "flatness/client.json")["grids"]] == [
        "fedavg, client 3: own examples",
        "fedavg, client 3: everyone's examples",
    ]


def test_a_client_in_two_runs(runs: list[Path]) -> None:
    outcome = flatfed("landscape", *runs[:2], "--kind", "client", "--points", 3, "--out", "o")
    assert outcome.code == 0, outcome.err
    pictures = [f"client{part}" for part in ("", "-own-contours", "-everyone-contours")]
    check_pictures(Path("o"), pictures)
    expected = {f"{name}.{ending}" for name in pictures for ending in ("png", "pdf", "svg")}
    expected |= {"client.json", "client-own.html", "client-everyone.html"}
    assert {file.name for file in Path("o").iterdir()} == expected
    client = min(read_history(runs[0])[-1]["clients"])
    said = [line.partition(": loss")[0] for line in outcome.out.splitlines()]
    parts = (f"client {client}: own examples", f"client {client}: everyone's examples")
    assert said == [f"{method}, {part}" for part in parts for method in METHODS[:2]]


def test_a_picture_of_each_client(runs: list[Path]) -> None:
    took = sorted(read_history(runs[0])[-1]["clients"])
    outcome = flatfed("landscape", runs[0], "--kind", "client", "--client", "all", "--points", 3, "--out", "o")
    assert outcome.code == 0, outcome.err
    check_pictures(Path("o"), [f"client-{k}{part}" for k in took for part in ("", "-contours")])
    assert len(outcome.out.splitlines()) == 2 * len(took)


@unseen
def test_planes_tell_the_losses_of_the_models(runs: list[Path]) -> None:
    first, second, third = sorted(read_history(runs[0])[-1]["clients"])
    chosen = f"{third},{first},{second}"
    outcome = flatfed("landscape", runs[0], "--kind", "clients", "--clients", chosen, "--points", 3, "--out", "o")
    assert outcome.code == 0, outcome.err
    grids = read_json(Path("o/clients.json"))["grids"]
    for grid, line in zip(grids, outcome.out.splitlines(), strict=True):
        reported = ", ".join(f"{loss:.4f} at {name}" for name, loss in grid["at_marks"].items())
        assert line.startswith(f"{grid['label']}: loss {reported} (")
    assert list(grids[0]["at_marks"]) == [f"client {k}" for k in (third, first, second)] + ["global model"]
    outcome = flatfed("landscape", runs[0], "--kind", "client-plane", "--client", second, "--points", 3, "--out", "o")
    assert f"at client {second}, " in outcome.out and " at model before the round (" in outcome.out


@unseen
def test_options_reach_the_evaluation(runs: list[Path]) -> None:
    options = ("--points", 3, "--extent", 0.25, "--directions", 2, "--seed", 7, "--samples", "all")
    assert flatfed("landscape", runs[0], "--kind", "along", *options, "--workers", 0, "--out", "o").code == 0
    steep, random = read_json(Path("o/along.json"))["lines"]
    assert steep["xs"] == random["xs"] == [0, 0.125, 0.25]
    assert "mean over 2 filter-normalised random directions of seed 7" in random["note"]
    assert "all 1,435 examples" in random["note"]


def test_a_loss_that_overflows_is_null_in_the_file(runs: list[Path]) -> None:
    outcome = flatfed("landscape", runs[0], "--points", 3, "--extent", "1e38", "--out", "o")
    assert outcome.code == 0, outcome.err
    losses = read_json(Path("o/surface.json"))["grids"][0]["losses"]
    assert losses[0][0] is None and losses[1][1] > 0


@unseen
def test_progress_on_a_terminal_and_none_elsewhere(runs: list[Path]) -> None:
    outcome = on_terminal("landscape", runs[0], "--points", 5, "--out", "o")
    assert outcome.code == 0
    assert "points" in outcome.err and "25" in outcome.err
    assert flatfed("landscape", runs[1], "--points", 3, "--out", "o").err.count("\n") == 1


# --- points are kept ----------------------------------------------------------------------------------------


@unseen
def test_what_cannot_be_written_is_not_lost(runs: list[Path], count: list[int]) -> None:
    Path("taken").write_text("")
    refused(flatfed("landscape", runs[0], "--points", 3, "--out", "taken"), "taken cannot be written")
    refused(flatfed("landscape", runs[0], "--points", 3, "--out", "taken/below"), "taken/below cannot be written")
    assert sum(count) <= 9
    assert flatfed("landscape", runs[0], "--points", 3).code == 0
    assert sum(count) == 9


@pytest.mark.usefixtures("signals_heard", "no_pictures")
@pytest.mark.parametrize("workers", [2])
def test_control_c_keeps_the_points_and_the_same_command_goes_on(
    workers: int, runs: list[Path], count: list[int]
) -> None:
    fresh, points = Path(shutil.copytree(runs[0], "fresh")), 2 * 301
    options = ["--kind", "line", "--points", "201", "--samples", "all", "--workers"]
    command = ["landscape", str(runs[0]), str(runs[1]), *options, str(workers), "--out", "o"]
    process = nursery.start("-c", "from flatfed.cli.main import main; main()", *command)
    while alive(process.pid) and len(kept(runs[0])) < 20:
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to workers too
    ended = process.end(PATIENCE)
    assert ended.returncode == 130, ended.stderr
    assert ended.stdout == ""
    *steps, last = [line for line in ended.stderr.splitlines() if line]
    assert last == "interrupted; the points so far are kept, and the same command goes on"
    assert all(" of 301)" in line for line in steps), "on a slow machine it tells how far it is, and nothing else"
    there = kept(runs[0])
    assert 20 <= len(there) < points
    assert not Path("o").exists()
    again = flatfed("landscape", *runs[:2], *options, "0", "--out", "o")
    assert again.code == 0, again.err
    assert sum(count) == points - len(there)
    assert set(there) < set(kept(runs[0]))
    assert flatfed("landscape", fresh, runs[1], *options, "0", "--out", "p").code == 0
    assert read_json(Path("o/line.json")) == read_json(Path("p/line.json"))


def kept(run: Path) -> list[str]:
    """Return the whole lines of points that a run holds."""
    return [line for file in run.glob("flatness/*.jsonl") for line in file.read_text().split("\n")[1:-1]]


# --- what cannot be done ------------------------------------------------------------------------------------


@unseen
@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("runs/fedavg", "--points", "4"), ["odd number of at least 3 points", "not 4"]),
        (("runs/fedavg", "--points", "1"), ["--points"]),
        (("runs/fedavg", "--points", "many"), ["--points"]),
        (("runs/fedavg", "--kind", "hole"), ["--kind", "surface"]),
        (("runs/fedavg", "--client", "1"), ["--client says whose model --kind client shows"]),
        (("runs/fedavg", "--kind", "client", "--client", "77"), ["client 77"]),
        (("runs/fedavg", "--kind", "client", "--client", "-1"), ["--client"]),
        (("runs/fedavg", "--extent", "0"), ["extent", "greater than 0"]),
        (("runs/fedavg", "--extent", "-1"), ["extent"]),
        (("runs/fedavg", "--extent", "nan"), ["extent"]),
        (("runs/fedavg", "--extent", "inf"), ["extent"]),
        (("runs/fedavg", "--samples", "0"), ["--samples"]),
        (("runs/fedavg", "--directions", "0"), ["--directions"]),
        (("runs/fedavg", "--weights", "best"), ["--weights"]),
        (("runs/fedavg", "--kind", "line"), ["2 runs, not 1"]),
        (("runs/fedavg", "runs/fedsam", "runs/fedavgm", "--kind", "line"), ["2 runs, not 3"]),
        (("runs/fedavg", "runs/fedsam", "--kind", "plane"), ["3 runs, not 2"]),
        (("runs/fedavg", "runs/fedsam", "--kind", "clients"), ["1 run, not 2"]),
        (("runs/fedavg", "runs/fedsam", "--kind", "client-plane"), ["1 run, not 2"]),
        (("runs/fedavg", "--clients", "0,1,2"), ["--clients says whose models --kind clients shows"]),
        (("runs/fedavg", "--kind", "clients", "--clients", "0,1"), ["three clients"]),
        (("runs/fedavg", "--kind", "clients", "--clients", "0,1,77"), ["77"]),
        (("runs/fedavg", "--kind", "clients", "--clients", "a,b"), ["--clients"]),
        (("runs/fedavg", "--kind", "clients", "--round", "next"), ["shows the last round"]),
        (
            ("runs/fedavg", "--kind", "client-plane", "--client", "all"),
            ["only a landscape of kind client can show all"],
        ),
        (("runs/fedavg", "runs/other", "--kind", "client"), ["runs/other has another model than runs/fedavg"]),
        (("runs/fedavg", "runs/fedsam", "runs/fedavg", "--kind", "plane"), ["on one line, or two are the same"]),
        (("runs/fedavg", "runs/other"), ["runs/other has another model than runs/fedavg"]),
        (("runs/fedavg", "runs/other", "--kind", "line"), ["runs/other has another model than runs/fedavg"]),
        (("runs/fedavg", "--data-dir", "/nowhere"), None),
        (("runs",), ["runs is not a run directory", "runs/fedavg"]),
        (("nothing",), ["nothing is not a run directory: it does not exist"]),
        ((), ["RUN..."]),
    ],
    ids=str,
)
def test_what_cannot_be_shown(options: tuple[str, ...], parts: list[str] | None, runs: list[Path]) -> None:
    outcome = flatfed("landscape", *options, *(() if "--points" in options else ("--points", "3")))
    if parts is None:  # the digits lie in the package, wherever the data directory is
        assert outcome.code == 0
    else:
        refused(outcome, *parts)


def test_a_run_without_checkpoints(runs: list[Path]) -> None:
    shutil.rmtree(runs[1] / "checkpoints")
    refused(flatfed("landscape", *runs[:2], "--points", 3), "runs/fedsam/checkpoints holds no usable checkpoint")


def test_a_comparison_without_runs(comparison: Path) -> None:
    for folder in comparison.iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
    refused(flatfed("landscape", comparison), "run")


@unseen
def test_points_of_another_landscape_under_the_same_name_are_refused(runs: list[Path]) -> None:
    assert flatfed("landscape", runs[0], "--points", 3).code == 0
    [file] = (runs[0] / "flatness").glob("*.jsonl")
    _, _, points = file.read_text().partition("\n")
    file.write_text(f'{{"format": 1}}\n{points}')
    refused(flatfed("landscape", runs[0], "--points", 3), "holds another landscape; remove it")


def test_help_tells_what_there_is() -> None:
    outcome = flatfed("landscape", "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert all(len(line) <= 80 for line in outcome.out.splitlines())
    options = (
        "--kind",
        "--points",
        "--extent",
        "--samples",
        "--seed",
        "--client",
        "--clients",
        "--directions",
        "--out",
        "--title",
    )
    assert all(f"  {option}" in outcome.out for option in options)
    assert all(f"{kind}: " in outcome.out for kind in FILES)
