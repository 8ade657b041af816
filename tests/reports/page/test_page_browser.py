"""A browser shows the pages of a real comparison and a real study: every view, without an error or a request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from browser import Tab, choose_each_number, expect, needs_browser, new_page
from cli.command import flatfed
from reports.disk import write_run
from reports.page.test_hostile_names import HOSTILE, hostile_page
from studies.bench import run_here

pytest.importorskip("plotly")
pytest.importorskip("jinja2")
pytestmark = needs_browser

COMPARISON = "--rounds 4 --clients 5 --per-round 2 --workers 0 --model logreg --evaluate-every 1 --seeds 0,1"
AXES = {"bytes": "bytes exchanged", "backprops": "backprops", "seconds": "seconds", "round": "rounds"}

LINES = "plot => plot.data.map(({ x, line, showlegend }) => [x, line.width, showlegend !== false])"
"""What a figure draws: rounds, the width of the line, and whether it stands in the legend."""
DENSE_LINES = [[list(range(30, 41)), 1, False], [list(range(5, 41, 5)), 2, True]]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compare two methods, measure them, and write the page."""
    folder = tmp_path_factory.mktemp("page")
    out = folder / "comparison"
    done = flatfed(*f"compare digits fedavg fedsam {COMPARISON} --watch lambda_max:2 --out".split(), out)
    assert done.code == 0, done.err
    assert (out / "report.html").stat().st_size > 1_000_000
    runs = [out / "fedavg" / "seed-0", out / "fedsam" / "seed-0"]
    measured = "client_accuracy,spectrum(k=3,samples=1,steps=5),lpf(samples=2)"
    assert flatfed("flatness", *runs, "--measure", measured, "--samples", 50).code == 0
    assert flatfed("landscape", *runs, "--points", 5, "--samples", 50).code == 0
    page = folder / "comparison.html"
    done = flatfed("report", out, "--out", page)
    assert done.code == 0, done.err
    return page


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    methods = {"fedavg": None, "slow": "fedavg(server_lr=0.01)", "wild": "fedavg(server_lr=1e30)"}
    settings: dict[str, Any] = {"first": {}, "second": {"alpha": 100}}
    run_here(folder / "study", title="a study", methods=methods, settings=settings, seeds=[0, 1])
    page = folder / "study.html"
    done = flatfed("report", folder / "study", "--out", page)
    assert done.code == 0, done.err
    return page


@dataclass
class OpenPage(Tab):
    """A page of a report."""

    def check(self) -> None:
        """Check that nothing went wrong, and that nothing but the page was asked for."""
        self.check_quiet()
        assert [url for url in self.requests[1:] if not url.startswith(("data:", "blob:"))] == []

    def see(self, figure: Any) -> None:
        """Scroll to a figure until it is drawn: those above it may push it away again."""
        drawn = figure.locator(".plot.js-plotly-plot .main-svg")

        def look() -> bool:
            figure.scroll_into_view_if_needed()
            is_drawn: bool = drawn.count() > 0
            return is_drawn

        self.until(look, "a figure is not drawn")

    def see_all(self) -> None:
        """See every figure of the view that is shown."""
        for figure in self.page.locator("figure:visible").all():
            self.see(figure)

    def curves(self) -> Any:
        """See the curves, and return their figure."""
        figure = self.page.locator(".view:visible [data-figure=curves]")
        self.see(figure)
        return figure

    def titles(self) -> list[str]:
        found: list[str] = self.page.locator(".view:not([hidden]) :is(h2, h3)").all_inner_texts()
        return found


def opened(browser: Any, page: Path, width: int = 1280, **context: Any) -> OpenPage:
    shown = OpenPage(new_page(browser, width, 800, **context))
    shown.listen()
    shown.page.goto(page.as_uri())
    return shown


def test_every_part_of_a_comparison_is_drawn(browser: Any, comparison: Path) -> None:
    shown = opened(browser, comparison)
    shown.see_all()
    parts = ["What was compared", "Results", "Curves", "Cost to a target", "Flatness", "Clients", "Settings"]
    assert [title for title in shown.titles() if title in parts] == parts
    assert {"During training", "Final models", "Spectra", "Classes", "Participation"} <= set(shown.titles())
    surfaces = shown.page.locator("[data-figure=surfaces]")
    expect(surfaces.locator("canvas")).not_to_have_count(0)
    expect(surfaces.locator(".legendtext")).to_have_text(["fedavg", "fedsam"])
    shown.check()


def test_curves_over_every_axis_and_every_number(browser: Any, comparison: Path) -> None:
    shown = opened(browser, comparison)
    figure = shown.curves()
    for axis, title in AXES.items():
        figure.locator(f"input[value={axis}]").check()
        expect(figure.locator(".xtitle")).to_have_text(title)
    choose_each_number(figure)
    # Two methods, each with a band over its seeds.
    figure.locator("select").select_option("test_accuracy")
    expect(figure.locator(".ytitle")).to_have_text("test accuracy (%)")
    expect(figure.locator(".trace.scatter")).to_have_count(4)
    shown.page.locator("details.numbers summary").click()
    expect(shown.page.locator("details.numbers tbody tr")).to_have_count(4)
    shown.check()


def test_rounds_that_were_evaluated_more_often_are_a_thin_line_behind(browser: Any, tmp_path: Path) -> None:
    accuracies = tuple(round / 50 if round % 5 == 0 or round > 30 else None for round in range(1, 41))
    run = write_run(tmp_path / "run", accuracies=accuracies, evaluate_every=5)
    done = flatfed("report", run, "--out", tmp_path / "page.html")
    assert done.code == 0, done.err
    shown = opened(browser, tmp_path / "page.html")
    figure = shown.curves()
    shown.settle(lambda: figure.locator(".plot").evaluate(LINES), DENSE_LINES)
    figure.locator("input[value=bytes]").check()
    expect(figure.locator(".xtitle")).to_have_text("bytes exchanged")
    shown.settle(
        lambda: [line[1:] for line in figure.locator(".plot").evaluate(LINES)], [line[1:] for line in DENSE_LINES]
    )
    shown.check()


def test_hovering_shows_the_values(browser: Any, comparison: Path) -> None:
    shown = opened(browser, comparison)
    expect(shown.hover(shown.curves())).to_contain_text("fedavg")
    shown.check()


def test_tables_are_sorted_by_click_and_by_keyboard(browser: Any, comparison: Path) -> None:
    shown = opened(browser, comparison)
    table = shown.page.locator("section:has(> h2:text-is('Results')) table").first
    heads = table.locator("thead th")
    place = heads.all_inner_texts().index("final")
    head = heads.nth(place)

    def values() -> list[float]:
        cells = table.locator(f"tbody tr > :nth-child({place + 1})").all_inner_texts()
        return [float(text.partition(" ")[0]) for text in cells]

    head.locator("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    shown.settle(values, sorted(values(), reverse=True))
    head.locator("button").focus()
    shown.page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "ascending")
    shown.settle(values, sorted(values()))
    heads.first.locator("button").focus()
    shown.page.keyboard.press("Space")
    expect(heads.first).to_have_attribute("aria-sort", "ascending")
    expect(head).not_to_have_attribute("aria-sort", re.compile(""))
    expect(table.locator("tbody th")).to_have_text(["fedavg", "fedsam"])
    assert table.locator("strong").count() > 0
    shown.check()


def test_light_and_dark_as_the_system_says_and_as_chosen(browser: Any, comparison: Path) -> None:
    light, dark = (opened(browser, comparison, color_scheme=scheme) for scheme in ("light", "dark"))
    white, black = (shown.page.evaluate("getComputedStyle(document.body).backgroundColor") for shown in (light, dark))
    assert white != black
    light.see_all()
    figure = light.page.locator("[data-figure=curves] .main-svg").first
    expect(figure).to_have_css("background-color", white)
    light.page.locator("#theme").select_option("dark")
    expect(light.page.locator("body")).to_have_css("background-color", black)
    expect(figure).to_have_css("background-color", black)
    light.page.locator("#theme").select_option("light")
    expect(light.page.locator("body")).to_have_css("background-color", white)
    expect(figure).to_have_css("background-color", white)
    dark.page.locator("#theme").select_option("light")
    expect(dark.page.locator("body")).to_have_css("background-color", white)
    light.check()
    dark.check()


@pytest.mark.parametrize("which", ["comparison", "study"])
def test_a_phone_shows_all_of_it(which: str, browser: Any, request: pytest.FixtureRequest) -> None:
    shown = opened(browser, request.getfixturevalue(which), width=360)
    shown.see_all()
    shown.wait_until_within()
    shown.check()
    wide = opened(browser, request.getfixturevalue(which))
    wide.see_all()
    wide.page.set_viewport_size({"width": 360, "height": 740})
    wide.wait("Array.from(document.querySelectorAll('.view:not([hidden]) .main-svg')).every(e => e.clientWidth <= 360)")
    wide.wait_until_within()
    wide.check()


def test_every_setting_of_a_study(browser: Any, study: Path) -> None:
    shown = opened(browser, study)
    first = shown.page.locator(".study")
    assert {"fedavg", "slow", "wild"} <= set(first.locator("table.pivot tbody th").all_inner_texts())
    assert "✗ diverged" in first.locator("table.pivot").inner_text()
    assert "Statistics" in first.inner_text()
    assert "diverged" in first.locator("h3:text-is('Cells without a result') ~ div").first.inner_text()
    select = shown.page.locator("#view")
    assert select.locator("option").all_inner_texts() == ["a study: first", "a study: second"]
    for number in ("1", "0"):
        select.select_option(number)
        expect(shown.page.locator(".view:visible > h2")).to_have_text([f"a study: {['first', 'second'][int(number)]}"])
        expect(shown.page.locator(".view:visible")).to_have_count(1)
        shown.see_all()
    shown.check()


def test_a_page_is_printed_light_with_all_its_figures(browser: Any, comparison: Path) -> None:
    shown = opened(browser, comparison, color_scheme="dark")
    pdf = shown.page.pdf()
    assert pdf.startswith(b"%PDF")
    figures = shown.page.locator("figure").count()
    expect(shown.page.locator(".plot.js-plotly-plot")).to_have_count(figures)
    shown.check()


def test_a_wide_table_is_printed_across_the_page_and_a_narrow_one_is_not(browser: Any, comparison: Path) -> None:
    page = comparison.with_name("wide.html")
    done = flatfed("report", comparison.parent / "comparison", "--at", "1,2,3", "--baseline", "fedavg", "--out", page)
    assert done.code == 0, done.err
    shown = opened(browser, page)
    wide = shown.page.locator("section:has(> h2:text-is('Results')) .wide table")
    assert wide.locator("thead th").count() > 11
    assert shown.page.locator(".narrow table").count() > 3
    pdf = shown.page.pdf(format="A4", prefer_css_page_size=True)
    sides = re.findall(rb"/MediaBox \[0 0 ([0-9.]+) ([0-9.]+)\]", pdf)
    assert {float(width) > float(height) for width, height in sides} == {True, False}
    # As wide as the paper between its margins, in pixels: 273 mm of a page on its side.
    shown.page.emulate_media(media="print")
    shown.page.set_viewport_size({"width": 1031, "height": 700})
    shown.wait("innerWidth === 1031 && matchMedia('print').matches")
    shown.settle(lambda: wide.evaluate("table => table.getBoundingClientRect().right <= innerWidth"), True)
    shown.check()


def test_without_scripts_every_table_is_there(browser: Any, study: Path) -> None:
    shown = opened(browser, study, java_script_enabled=False)
    assert shown.page.locator(".view:visible").count() == 2
    assert "Scripts are switched off" in shown.page.locator("body").inner_text()


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_do_nothing(text: str, browser: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(hostile_page(tmp_path, text), encoding="utf-8")
    shown = opened(browser, page)
    shown.see_all()
    shown.hover(shown.curves())
    expect(shown.page.locator("img, .plot a, .plot b")).to_have_count(0)
    shown.check()
