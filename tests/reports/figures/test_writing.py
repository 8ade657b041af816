"""The files of figures: sharp enough for print, a PDF beside each PNG, and none of them large."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flatfed.reports.curves import draw_curves
from flatfed.reports.figures.drawing.style import new_figure
from flatfed.reports.figures.drawing.writing import DPI, ENDINGS, WITH_SVG, PictureFiles, named_files, save
from flatfed.reports.results.results import collect
from reports.disk import write_run
from reports.figures.inputs import size


def test_pictures_are_sharp_enough_for_print(tmp_path: Path) -> None:
    save(new_figure(2.0, 1.0), [tmp_path / "a.png"])
    assert DPI >= 300
    assert size(tmp_path / "a.png") == (2 * DPI, DPI)


def test_every_figure_is_a_png_and_a_pdf() -> None:
    assert {".png", ".pdf"} <= set(ENDINGS) <= set(WITH_SVG)
    assert PictureFiles(Path("a")).of("b") == [Path("a/b.png"), Path("a/b.pdf"), Path("a/b.svg")]


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("a.png", ["a.png", "a.pdf"]),
        ("A.b.PNG", ["A.b.PNG", "A.b.pdf"]),
        ("a.pdf", ["a.pdf"]),
        ("a.svg", ["a.svg"]),
    ],
)
def test_a_png_that_is_named_has_a_pdf_beside_it(name: str, files: list[str]) -> None:
    assert named_files(Path("x") / name) == [Path("x") / file for file in files]


def test_long_curves_are_small_files_with_their_fonts(tmp_path: Path) -> None:
    accuracies = tuple(0.5 + 0.4 * ((7 * round) % 13) / 13 for round in range(10_000))
    run = write_run(tmp_path / "long", accuracies=accuracies)
    files = PictureFiles(tmp_path).of("curves")
    draw_curves(collect([run]), files)
    assert all(file.stat().st_size < 600_000 for file in files), {file: file.stat().st_size for file in files}
    pdf = files[1].read_bytes()
    assert re.search(rb"/FontFile2", pdf)
