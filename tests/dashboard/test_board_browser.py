"""A browser shows a folder of finished runs: list, filter, groups, curves, two side by side, studies, reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.command import flatfed
from dashboard.board import Board, dashboard
from dashboard.browsing import BROWSER, FLAGS, Shown, opened
from flatfed.runs.history import History
from reports.disk import row, write_run
from reports.page.test_hostile_names import HOSTILE
from reports.page.test_page_browser import DENSE_LINES, LINES
from studies.bench import run_here

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("plotly")
playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="there is no browser"),
    pytest.mark.usefixtures("signals_heard"),
]

COMPARISON = "--rounds 4 --clients 5 --per-round 2 --workers 0 --model logreg --evaluate-every 1 --seeds 0,1"
AXES = {"bytes": "bytes exchanged", "backprops": "backprops", "seconds": "seconds", "round": "rounds"}
FEDAVG, FEDSAM = "comparison/fedavg/seed-0", "comparison/fedsam/seed-0"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    """Serve a comparison, a study, and a run with rejected updates that has failed."""
    folder = tmp_path_factory.mktemp("folder")
    done = flatfed(*f"compare digits fedavg fedsam {COMPARISON} --out".split(), folder / "comparison")
    assert done.code == 0, done.err
    methods = {"fedavg": None, "wild": "fedavg(server_lr=1e30)"}
    settings: dict[str, Any] = {"first": {}, "second": {"alpha": 100}}
    run_here(folder / "study", title="a study", methods=methods, settings=settings, seeds=[0, 1])
    write_run(folder / "failed", "feddyn", status="failed", reason="client 3 could not be run", rounds=9)
    history = History(folder / "failed" / "history.jsonl")
    history.begin([row(0, 0.1) | {"rejected": [{"client": 3, "reason": "the update is not finite"}]}, row(1, 0.2)])
    history.close()
    with dashboard(folder) as started:
        yield started


@pytest.fixture
def shown(browser: Any, board: Board) -> Shown:
    return opened(browser, board.address)


def test_the_list_filters_and_groups(shown: Shown) -> None:
    everything = shown.rows()
    assert len(everything) == 4 + 8 + 1
    assert "13 runs: " in shown.page.locator("#count").inner_text()
    shown.page.locator("#filter").fill("fedsam seed-1")
    shown.wait("document.querySelectorAll('#runs tr[data-run]').length === 1")
    assert shown.rows() == ["comparison/fedsam/seed-1"]
    shown.page.locator("#filter").fill("")
    groups = {
        "method": ["fedavg (10)", "feddyn (1)", "fedsam (2)"],
        "seed": ["0 (7)", "1 (6)"],
        "data": ["digits (13)"],
    }
    for name, expected in groups.items():
        shown.page.locator("#group").select_option(name)
        heads = shown.page.locator("#runs tr.group th")
        shown.wait("n => document.querySelectorAll('#runs tr.group').length === n", len(expected))
        assert [text.removesuffix("Pick these").strip() for text in heads.all_inner_texts()] == expected
    for name in ("setting", "folder", "status"):
        shown.page.locator("#group").select_option(name)
        shown.wait("document.querySelectorAll('#runs tr.group').length > 2")
    assert sorted(shown.rows()) == sorted(everything)
    failed = shown.row("failed")
    assert "client 3 could not be run" in failed.inner_text()
    assert "2/9" in failed.inner_text()
    shown.check()


def test_curves_over_every_axis_and_every_number(shown: Shown) -> None:
    shown.pick(FEDAVG, FEDSAM)
    figure = shown.page.locator("#curves")
    for axis, title in AXES.items():
        figure.locator(f"input[value={axis}]").check()
        figure.locator(".xtitle", has_text=title).wait_for()
    select = figure.locator("select")
    for value in select.locator("option").evaluate_all("options => options.map(o => [o.value, o.textContent])"):
        select.select_option(value[0])
        figure.locator(".ytitle", has_text=value[1]).wait_for()
    select.select_option("test_accuracy")
    figure.locator(".ytitle", has_text="test accuracy (%)").wait_for()
    assert figure.locator(".trace.scatter").count() == 2
    assert figure.locator(".legendtext").all_text_contents() == ["fedavg, seed 0", "fedsam, seed 0"]
    shown.page.locator("#picked details.numbers > summary").click()
    figure.locator("input[type=checkbox]").check()
    shown.wait("document.querySelectorAll('#picked details.numbers tbody tr').length === 4")
    shown.check()


def test_rounds_that_were_evaluated_more_often_are_a_thin_line_behind(browser: Any, tmp_path: Path) -> None:
    accuracies = tuple(round / 50 if round % 5 == 0 or round > 30 else None for round in range(1, 41))
    write_run(tmp_path / "run", accuracies=accuracies, evaluate_every=5)
    with dashboard(tmp_path) as board:
        shown = opened(browser, board.address)
        shown.pick("run")
        assert shown.page.locator("#curves .plot").evaluate(LINES) == DENSE_LINES
        shown.check()
        shown.page.close()


def test_a_group_is_picked_at_once_and_a_page_that_is_loaded_again_shows_the_same(shown: Shown) -> None:
    shown.page.locator("#group").select_option("method")
    shown.page.locator("#runs tr.group", has_text="fedsam").locator("button").click()
    shown.wait("Picked.drawn().length === 2")
    shown.page.reload()
    shown.wait("Board.state.isComplete && Picked.drawn().length === 2")
    assert shown.page.locator("#group").input_value() == "method"
    shown.page.locator("#none").click()
    shown.page.locator("#nothing").wait_for()
    shown.check()


def test_the_table_and_two_side_by_side(shown: Shown) -> None:
    shown.pick(FEDAVG, FEDSAM)
    table = shown.page.locator("#table table")
    assert table.locator("tbody th").all_inner_texts() == [FEDAVG, FEDSAM]
    head = table.locator("thead th", has_text="backprops")
    head.locator("button").focus()
    shown.page.keyboard.press("Enter")
    assert table.locator("tbody th").all_inner_texts() == [FEDSAM, FEDAVG]
    settings = shown.page.locator("#compare .settings")
    settings.locator("th", has_text="method").wait_for()
    assert "fedsam" in settings.inner_text() and "settings are the same" in settings.inner_text()
    numbers = shown.page.locator("#compare .numbers")
    assert numbers.locator("thead th").all_inner_texts() == ["number", FEDAVG, FEDSAM]
    shown.pick(FEDAVG, FEDSAM, "failed")
    shown.page.locator("#compare select").nth(1).select_option(label="failed")
    settings.locator("th", has_text="algorithm.id").wait_for()
    assert numbers.locator("thead th").all_inner_texts() == ["number", FEDAVG, "failed"]
    shown.check()


def test_reasons_rejected_updates_and_commands(shown: Shown) -> None:
    shown.pick("failed")
    details = shown.page.locator("#details details").first
    details.locator("summary").first.click()
    text = details.inner_text()
    assert "failed: client 3 could not be run" in text
    assert "the update is not finite" in text
    assert "flatfed resume" in text
    shown.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    details.locator("button.copy").first.click()
    details.locator("button.copy", has_text="Copied").wait_for()
    assert shown.page.evaluate("navigator.clipboard.readText()").startswith("flatfed resume ")
    shown.check()


def test_the_command_of_a_run_is_that_of_its_comparison(shown: Shown) -> None:
    shown.pick(FEDAVG)
    shown.page.locator("#details details summary").first.click()
    command = shown.page.evaluate("Board.state.groups.find(group => group.kind === 'comparison').command")
    assert command and f"The same again:\n\n{command}" in shown.page.locator("#details").inner_text()
    shown.check()


def test_the_grid_of_a_study_and_its_failures(shown: Shown) -> None:
    grid = shown.page.locator("#grids table.grid")
    grid.wait_for()
    assert grid.locator("thead th").all_inner_texts() == ["method", "first", "second"]
    assert grid.locator("tbody th").all_inner_texts() == ["fedavg", "wild"]
    assert grid.locator(".cell[data-status=finished]").count() == 4
    assert grid.locator(".cell[data-status=diverged]").count() == 4
    assert "8 of 8 cells have ended" in shown.page.locator("#grids").inner_text()
    assert "is not finite" in shown.page.locator("#grids").inner_text()
    grid.locator(".cell[aria-label^='wild, first, seed 1']").click()
    shown.wait("Picked.drawn().length === 1")
    assert "wild, seed 1" in shown.page.locator("#curves").text_content()
    shown.check()


@pytest.mark.parametrize("which", ["study", "comparison", "run"])
def test_a_report_opens(which: str, shown: Shown) -> None:
    if which == "run":
        shown.pick(FEDAVG)
        shown.page.locator("#details details summary").first.click()
    link = shown.page.get_by_role("link", name=f"Open the report of this {which}")
    with shown.page.context.expect_page() as opening:
        link.click()
    report = opening.value
    errors: list[str] = []
    report.on("pageerror", lambda error: errors.append(str(error)))
    report.locator(".view:visible [data-figure=curves]").first.scroll_into_view_if_needed()
    report.locator("[data-figure=curves] .main-svg").first.wait_for(state="attached")
    assert "fedavg" in report.locator("main").inner_text()
    assert errors == []
    shown.check()


def test_light_and_dark(browser: Any, board: Board) -> None:
    light, dark = (opened(browser, board.address, color_scheme=scheme) for scheme in ("light", "dark"))
    paper = "getComputedStyle(document.body).backgroundColor"
    assert light.page.evaluate(paper) != dark.page.evaluate(paper)
    light.pick(FEDAVG)
    light.page.locator("#theme").select_option("dark")
    assert light.page.evaluate(paper) == dark.page.evaluate(paper)
    light.check()
    dark.check()


def test_a_phone_shows_all_of_it(browser: Any, board: Board) -> None:
    shown = opened(browser, board.address, width=360)
    shown.pick(FEDAVG, FEDSAM, "failed")
    shown.page.locator("#details > details > summary").last.click()
    shown.page.locator("#grids table.grid").wait_for()
    assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shown.check()


def test_everything_is_reached_with_the_keyboard(shown: Shown) -> None:
    shown.page.locator("#filter").focus()
    reached: list[str] = []
    for _ in range(8):
        shown.page.keyboard.press("Tab")
        reached.append(
            shown.page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.id")
        )
    assert reached[:3] == ["group", "none", "Runs"]
    assert f"pick {FEDAVG}" in reached
    shown.row(FEDAVG).locator("input").focus()
    shown.page.keyboard.press("Space")
    shown.wait("Picked.drawn().length === 1")
    unnamed = shown.page.locator("button, input, select, a").evaluate_all(
        "all => all.filter(e => !(e.textContent.trim() || e.labels?.length || e.getAttribute('aria-label'))).length"
    )
    assert unnamed == 0
    shown.check()


def test_hostile_names_do_nothing(browser: Any, tmp_path: Path) -> None:
    for place, text in enumerate(HOSTILE):
        name = f"{place} {text.replace('/', '∕')}"
        write_run(tmp_path / name, status="failed", reason=text)
        history = History(tmp_path / name / "history.jsonl")
        watched = {"watch": {text: 1.0}}
        history.begin([row(0, 0.1) | watched | {"rejected": [{"client": 0, "reason": text}]}, row(1, 0.2) | watched])
        history.close()
    with dashboard(tmp_path) as board:
        shown = opened(browser, board.address)
        for box in shown.page.locator("#runs input").all():
            box.check()
        shown.wait("count => Picked.drawn().length === count", len(HOSTILE))
        for name in ("method", "folder", "setting"):
            shown.page.locator("#group").select_option(name)
        select = shown.page.locator("#curves select")
        for value in select.locator("option").evaluate_all("options => options.map(o => o.value)"):
            select.select_option(value)
        shown.page.locator("#curves .nsewdrag").first.hover(force=True)
        for summary in shown.page.locator("#details summary").all():
            summary.click(force=True)
        assert shown.page.locator("img, .plot a, .plot b").count() == 0
        assert HOSTILE[0] in shown.page.locator("#details").text_content()
        shown.check()
        shown.page.close()
