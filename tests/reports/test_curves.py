"""The figure: one labelled curve per method, over the rounds that were played."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import matplotlib.image
import matplotlib.pyplot as plt
import pytest

from flatfed.reports.curves import draw_curves
from flatfed.reports.figures.drawing.style import COLOURS
from flatfed.reports.results.results import collect
from records import rewrite
from reports.disk import write_run

METHODS = ["fedavg", "fedsam", "feddyn+sam", "fedasam+swa"]


@pytest.fixture(autouse=True)
def words_stay_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write text into the SVG as text, not as outlines."""
    monkeypatch.setitem(plt.rcParams, "svg.fonttype", "none")


def svg_of(paths: list[Path], folder: Path, title: str = "") -> str:
    file = folder / "figure.svg"
    draw_curves(collect(paths), [file], title)
    text = file.read_text()
    ElementTree.fromstring(text)
    return text


def words(svg: str) -> list[str]:
    return re.findall(r">([^<>\n]+)</text>", svg)


def test_one_label_per_method(tmp_path: Path) -> None:
    paths = [write_run(tmp_path / f"{m}-{s}", m, s) for m in METHODS for s in (0, 1)]
    labels = [word for word in words(svg_of(paths, tmp_path)) if word in METHODS]
    assert labels == METHODS


def test_axes_and_title_are_named(tmp_path: Path) -> None:
    actual = words(svg_of([write_run(tmp_path / "a")], tmp_path, "fedavg on digits"))
    assert {"test accuracy (%)", "training loss", "round", "fedavg on digits"} <= set(actual)


def test_each_method_has_a_colour_of_its_own(tmp_path: Path) -> None:
    svg = svg_of([write_run(tmp_path / m, m) for m in METHODS], tmp_path).lower()
    assert all(colour.lower() in svg for colour in COLOURS[: len(METHODS)])


def test_more_methods_than_colours_are_distinguished_by_their_lines(tmp_path: Path) -> None:
    methods = [
        f"{id}{suffix}" for id in ("fedavg", "fedprox", "feddyn", "scaffold") for suffix in ("", "+sam", "+asam")
    ]
    svg = svg_of([write_run(tmp_path / m, m) for m in methods], tmp_path)
    assert [word for word in words(svg) if word in methods]
    assert "stroke-dasharray" in svg


@pytest.mark.parametrize("count", [1, 3])
def test_the_range_over_seeds_is_shaded(count: int, tmp_path: Path) -> None:
    paths = [write_run(tmp_path / str(s), seed=s, accuracies=(0.1 * s, 0.2, 0.3 + 0.1 * s)) for s in range(count)]
    assert ("FillBetween" in svg_of(paths, tmp_path)) == (count > 1)


def test_settings_distinguished_have_curves_of_their_own(tmp_path: Path) -> None:
    paths = [write_run(tmp_path / "a"), write_run(tmp_path / "b", lr=0.5)]
    labels = [word for word in words(svg_of(paths, tmp_path)) if word.startswith("fedavg")]
    assert len(labels) == len(set(labels)) == 2


@pytest.mark.parametrize("accuracies", [(), (None, None), (0.5,)], ids=["no round", "no evaluation", "one round"])
def test_little_to_draw_is_no_error(accuracies: tuple[float | None, ...], tmp_path: Path) -> None:
    assert "round" in words(svg_of([write_run(tmp_path / "a", accuracies=accuracies)], tmp_path))


def test_a_diverged_run_beside_a_good_one(tmp_path: Path) -> None:
    good = write_run(tmp_path / "a", "fedavg")
    bad = write_run(tmp_path / "b", "fedsam", accuracies=(0.1,), status="diverged", rounds=3)
    svg = svg_of([good, bad], tmp_path)
    assert {"fedavg", "fedsam"} <= set(words(svg))


def test_a_method_that_never_reached_an_evaluation_keeps_its_label(tmp_path: Path) -> None:
    good = write_run(tmp_path / "a", "fedavg")
    bad = write_run(tmp_path / "b", "fedsam", accuracies=(None,), status="diverged", rounds=3)
    assert {"fedavg", "fedsam"} <= set(words(svg_of([good, bad], tmp_path)))


def test_png_and_svg_in_one_go(tmp_path: Path) -> None:
    files = [tmp_path / "figure.png", tmp_path / "figure.svg"]
    draw_curves(collect([write_run(tmp_path / "a")]), files)
    pixels = matplotlib.image.imread(files[0])
    assert pixels.shape[1] > pixels.shape[0] > 300
    assert float(pixels[..., :3].min()) < 0.1 < 0.9 < float(pixels[..., :3].max())
    assert files[1].stat().st_size > 1000


def test_the_same_curves_are_the_same_files_and_fonts_are_truetype(tmp_path: Path) -> None:
    results = collect([write_run(tmp_path / "a")])
    for ending in ("svg", "pdf"):
        files = [tmp_path / f"{name}.{ending}" for name in ("one", "two")]
        for file in files:
            draw_curves(results, [file])
        assert files[0].read_bytes() == files[1].read_bytes()
    assert b"/FontType 3" not in files[0].read_bytes()
    assert b"/Type3" not in files[0].read_bytes()


def test_a_figure_leaves_no_global_figure_open(tmp_path: Path) -> None:
    before = plt.get_fignums()
    draw_curves(collect([write_run(tmp_path / "a")]), [tmp_path / "figure.png"])
    assert plt.get_fignums() == before


def drawn(svg: str, label: str) -> list[ElementTree.Element]:
    """Return the markers of a figure in the colour of a method."""
    uses = [e for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("}use")]
    return [e for e in uses if label in e.get("style", "")]


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_single_point_is_drawn(seeds: int, tmp_path: Path) -> None:
    paths = [write_run(tmp_path / str(s), seed=s, accuracies=(0.1 + 0.5 * s,)) for s in range(seeds)]
    assert len(drawn(svg_of(paths, tmp_path), COLOURS[0].lower())) >= 2  # one in each panel


def test_a_single_point_is_drawn_beside_a_longer_curve(tmp_path: Path) -> None:
    paths = [write_run(tmp_path / "long"), write_run(tmp_path / "short", "fedsam", accuracies=(0.3,))]
    svg = svg_of(paths, tmp_path)
    assert len(drawn(svg, COLOURS[1].lower())) >= 2
    assert not drawn(svg, COLOURS[0].lower())


@pytest.mark.parametrize("names", [("lr",), (), ("lr", "test_loss", "train_loss")], ids=len)
def test_the_legend_and_the_title_fit_into_the_figure(
    names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **how: figures.append(self))
    methods = ["naivefedgloss+fsam+wima", "scaffold+asam+swa", *METHODS]
    results = [
        replace(result, method=f"{result.method} on landmarks-user-160k (local_epochs=7, lr=0.125) #{number}")
        for number, result in enumerate(collect([write_run(tmp_path / m, m) for m in methods]))
    ]
    title = "landmarks-user-160k: natural partition with by user and more, 1262 clients, 50 a round, 5000 rounds"
    draw_curves(results, [tmp_path / "figure.png"], title, names)
    [figure] = figures
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    for part in (figure.legends[0], figure.texts[0]):
        box = part.get_window_extent(renderer)
        assert box.x0 >= 0 and box.x1 <= figure.bbox.width
        assert box.y0 >= 0 and box.y1 <= figure.bbox.height
    assert all(axes.get_window_extent(renderer).height > 100 for axes in figure.axes)


def centralised(path: Path, seed: int = 0, accuracies: tuple[float, ...] = (0.5, 0.6)) -> Path:
    """Write a run on the pooled data."""
    write_run(path, seed=seed, accuracies=accuracies)
    config = json.loads((path / "config.json").read_text())
    config |= {"method": "centralised", "algorithm": {"id": "centralised"}}
    rewrite(path / "config.json", config)
    return path


def drawn_lines(paths: list[Path], folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[list[float], str]]:
    """Return the values and the line style of each label of the first panel."""
    from matplotlib.figure import Figure

    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **how: figures.append(self))
    draw_curves(collect(paths), [folder / "figure.png"])
    return {line.get_label(): (list(line.get_ydata()), line.get_linestyle()) for line in figures[0].axes[0].lines}


def test_a_centralised_run_is_a_dashed_line_at_its_final_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pooled = [centralised(tmp_path / f"c{s}", s, (0.5, 0.6 + 0.1 * s)) for s in (0, 1)]
    lines = drawn_lines([write_run(tmp_path / "a"), *pooled], tmp_path, monkeypatch)
    values, style = lines["centralised"]
    assert values == [pytest.approx(65.0)] * 2 and style == "--"
    assert lines["fedavg"] == ([20.0, 60.0, 50.0], "-")


def test_a_centralised_run_alone_is_a_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn_lines([centralised(tmp_path / "c")], tmp_path, monkeypatch)["centralised"] == ([50.0, 60.0], "-")
