"""A browser shows the pages of a real comparison and a real study: every view, without an error or a request."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cli.command import flatfed
from reports.disk import write_run
from reports.page.test_hostile_names import HOSTILE, hostile_page
from studies.bench import run_here

pytest.importorskip("plotly")
pytest.importorskip("jinja2")
playwright = pytest.importorskip("playwright.sync_api")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--use-gl=swiftshader", "--enable-unsafe-swiftshader"]
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no browser")

COMPARISON = "--rounds 4 --clients 5 --per-round 2 --workers 0 --model logreg --evaluate-every 1 --seeds 0,1"
AXES = {"bytes": "bytes exchanged", "backprops": "backprops", "seconds": "seconds", "round": "rounds"}

LINES = "plot => plot.data.map(({ x, line, showlegend }) => [x, line.width, showlegend !== false])"
"""What a figure draws: rounds, the width of the line, and whether it stands in the legend."""
DENSE_LINES = [[list(range(30, 41)), 1, False], [list(range(5, 41, 5)), 2, True]]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield opened
        opened.close()


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
class OpenPage:
    """A page in the browser, with what it complained about and asked for."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def hear(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def check(self) -> None:
        """Check that nothing went wrong, and that nothing but the page was asked for."""
        assert self.errors == []
        assert [url for url in self.requests[1:] if not url.startswith(("data:", "blob:"))] == []
        assert self.page.evaluate("window.pwned") is None

    def see_all(self) -> None:
        """Scroll to every figure, and wait until it is drawn."""
        for figure in self.page.query_selector_all("figure"):
            if figure.is_visible():
                figure.scroll_into_view_if_needed()
                figure.wait_for_selector(".plot.js-plotly-plot .main-svg", state="attached")

    def titles(self, selector: str = ".view:not([hidden]) h2, .view:not([hidden]) h3") -> list[str]:
        found: list[str] = self.page.locator(selector).all_inner_texts()
        return found

    def is_within(self) -> bool:
        """Say whether nothing reaches beyond the right edge."""
        within: bool = self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        return within


def opened(browser: Any, page: Path, width: int = 1280, **context: Any) -> OpenPage:
    tab = browser.new_context(viewport={"width": width, "height": 800}, **context).new_page()
    shown = OpenPage(tab)
    tab.on("console", shown.hear)
    tab.on("pageerror", lambda error: shown.errors.append(str(error)))
    tab.on("request", lambda request: shown.requests.append(request.url))
    tab.goto(page.as_uri())
    return shown


def test_every_part_of_a_comparison_is_drawn(browser: Any, comparison: Path) -> None:
    shown = opened(browser, comparison)
    shown.see_all()
    parts = ["What was compared", "Results", "Curves", "Cost to a target", "Flatness", "Clients", "Settings"]
    assert [title for title in shown.titles() if title in parts] == parts
    assert {"During training", "Final models", "Spectra", "Classes", "Participation"} <= set(shown.titles())
    assert shown.page.locator("[data-figure=surfaces] canvas").count() > 0
    legend = shown.page.locator("[data-figure=surfaces] .legendtext").all_text_contents()
    assert legend == ["fedavg", "fedsam"]
    shown.check()


def test_curves_over_every_axis_and_every_number(browser: Any, comparison: Path) -> None:
    shown = opened(browser, comparison)
    figure = shown.page.locator("[data-figure=curves]")
    figure.scroll_into_view_if_needed()
    for axis, title in AXES.items():
        figure.locator(f"input[value={axis}]").check()
        figure.locator(".xtitle", has_text=title).wait_for()
    select = figure.locator("select")
    for option in select.locator("option").all():
        select.select_option(option.get_attribute("value"))
        figure.locator(".ytitle", has_text=option.inner_text()).wait_for()
    # Two methods, each with a band over its seeds.
    select.select_option("test_accuracy")
    assert figure.locator(".trace.scatter").count() == 4
    shown.page.locator("details.numbers summary").click()
    assert shown.page.locator("details.numbers tbody tr").count() == 4
    shown.check()


def test_rounds_that_were_evaluated_more_often_are_a_thin_line_behind(browser: Any, tmp_path: Path) -> None:
    accuracies = tuple(round / 50 if round % 5 == 0 or round > 30 else None for round in range(1, 41))
    run = write_run(tmp_path / "run", accuracies=accuracies, evaluate_every=5)
    done = flatfed("report", run, "--out", tmp_path / "page.html")
    assert done.code == 0, done.err
    shown = opened(browser, tmp_path / "page.html")
    figure = shown.page.locator("[data-figure=curves]")
    figure.scroll_into_view_if_needed()
    figure.locator(".main-svg").first.wait_for(state="attached")
    assert figure.locator(".plot").evaluate(LINES) == DENSE_LINES
    figure.locator("input[value=bytes]").check()
    figure.locator(".xtitle", has_text="bytes").wait_for()
    assert [line[1:] for line in figure.locator(".plot").evaluate(LINES)] == [line[1:] for line in DENSE_LINES]
    shown.check()


def test_hovering_shows_the_values(browser: Any, comparison: Path) -> None:
    shown = opened(browser, comparison)
    figure = shown.page.locator("[data-figure=curves]")
    figure.scroll_into_view_if_needed()
    figure.locator(".main-svg .nsewdrag").first.wait_for(state="attached")
    figure.locator(".nsewdrag").first.hover(force=True)
    shown.page.locator(".hoverlayer .legend").first.wait_for(state="attached")
    assert "fedavg" in shown.page.locator(".hoverlayer").first.text_content()
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
    assert head.get_attribute("aria-sort") == "descending"
    assert values() == sorted(values(), reverse=True)
    head.locator("button").focus()
    shown.page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert values() == sorted(values())
    heads.first.locator("button").focus()
    shown.page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") is None
    assert table.locator("tbody th").all_inner_texts() == ["fedavg", "fedsam"]
    assert table.locator("strong").count() > 0
    shown.check()


def test_light_and_dark_as_the_system_says_and_as_chosen(browser: Any, comparison: Path) -> None:
    def paper(shown: OpenPage) -> str:
        colour: str = shown.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return colour

    light, dark = (opened(browser, comparison, color_scheme=scheme) for scheme in ("light", "dark"))
    assert paper(light) != paper(dark)
    light.see_all()
    light.page.locator("#theme").select_option("dark")
    assert paper(light) == paper(dark)
    light.page.locator("#theme").select_option("light")
    dark.page.locator("#theme").select_option("light")
    assert paper(light) == paper(dark)
    light.check()
    dark.check()


@pytest.mark.parametrize("which", ["comparison", "study"])
def test_a_phone_shows_all_of_it(which: str, browser: Any, request: pytest.FixtureRequest) -> None:
    shown = opened(browser, request.getfixturevalue(which), width=360)
    shown.see_all()
    assert shown.is_within()
    shown.check()
    wide = opened(browser, request.getfixturevalue(which))
    wide.see_all()
    wide.page.set_viewport_size({"width": 360, "height": 740})
    wide.page.wait_for_function(
        "Array.from(document.querySelectorAll('.view:not([hidden]) .main-svg')).every(e => e.clientWidth <= 360)"
    )
    assert wide.is_within()
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
        assert shown.page.locator(".view:visible").count() == 1
        assert shown.titles(".view:visible > h2") == [f"a study: {['first', 'second'][int(number)]}"]
        shown.see_all()
    shown.check()


def test_a_page_is_printed_light_with_all_its_figures(browser: Any, comparison: Path) -> None:
    shown = opened(browser, comparison, color_scheme="dark")
    pdf = shown.page.pdf()
    assert pdf.startswith(b"%PDF")
    figures = shown.page.locator("figure").count()
    assert shown.page.locator(".plot.js-plotly-plot").count() == figures
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
    assert wide.evaluate("table => table.getBoundingClientRect().right <= innerWidth")
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
    shown.page.on("dialog", lambda dialog: shown.errors.append(dialog.message))
    shown.see_all()
    figure = shown.page.locator(".view:visible [data-figure=curves]")
    figure.scroll_into_view_if_needed()
    figure.locator(".nsewdrag").first.hover(force=True)
    assert shown.page.locator("img, .plot a, .plot b").count() == 0
    shown.check()
