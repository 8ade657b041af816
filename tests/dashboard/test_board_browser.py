"""A browser shows a folder of finished runs: list, filter, groups, curves, two side by side, studies, reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import choose_each_number, expect, needs_browser
from cli.command import flatfed
from dashboard.board import Board, dashboard
from dashboard.browsing import Shown, opened
from flatfed.runs.history import History
from reports.disk import row, write_run
from reports.page.test_hostile_names import HOSTILE
from reports.page.test_page_browser import DENSE_LINES, LINES
from studies.bench import run_here

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("plotly")
pytestmark = [needs_browser, pytest.mark.usefixtures("signals_heard")]

COMPARISON = "--rounds 4 --clients 5 --per-round 2 --workers 0 --model logreg --evaluate-every 1 --seeds 0,1"
AXES = {"bytes": "bytes exchanged", "backprops": "backprops", "seconds": "seconds", "round": "rounds"}
FEDAVG, FEDSAM = "comparison/fedavg/seed-0", "comparison/fedsam/seed-0"


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


GROUPS = {
    "method": ["fedavg (10)", "feddyn (1)", "fedsam (2)"],
    "seed": ["0 (7)", "1 (6)"],
    "data": ["digits (13)"],
    "folder": [
        ". (1)",
        "comparison/fedavg (2)",
        "comparison/fedsam (2)",
        "study/cells/first/fedavg (2)",
        "study/cells/first/wild (2)",
        "study/cells/second/fedavg (2)",
        "study/cells/second/wild (2)",
    ],
    "status": ["diverged (4)", "failed (1)", "finished (8)"],
}


def test_the_list_filters_and_groups(shown: Shown) -> None:
    lines = shown.page.locator("#runs tr[data-run]")
    expect(lines).to_have_count(4 + 8 + 1)
    everything = shown.rows()
    expect(shown.page.locator("#count")).to_contain_text("13 runs: ")
    shown.page.locator("#filter").fill("fedsam seed-1")
    shown.settle(shown.rows, ["comparison/fedsam/seed-1"])
    shown.page.locator("#filter").fill("")
    shown.settle(shown.rows, everything)
    heads = shown.page.locator("#runs tr.group th")
    for name, expected in GROUPS.items():
        shown.page.locator("#group").select_option(name)
        expect(heads).to_have_text([f"{text}Pick these" for text in expected])
    shown.page.locator("#group").select_option("setting")
    # Only this grouping names a setting; all its heads are drawn at once.
    expect(heads.filter(has_text="alpha")).not_to_have_count(0)
    assert heads.count() > 2
    expect(lines).to_have_count(len(everything))
    assert sorted(shown.rows()) == sorted(everything)
    expect(shown.row("failed")).to_contain_text("client 3 could not be run")
    expect(shown.row("failed")).to_contain_text("2/9")
    shown.check()


def test_curves_over_every_axis_and_every_number(shown: Shown) -> None:
    shown.pick(FEDAVG, FEDSAM)
    figure = shown.page.locator("#curves")
    for axis, title in AXES.items():
        figure.locator(f"input[value={axis}]").check()
        expect(figure.locator(".xtitle")).to_have_text(title)
    choose_each_number(figure)
    figure.locator("select").select_option("test_accuracy")
    expect(figure.locator(".ytitle")).to_have_text("test accuracy (%)")
    expect(figure.locator(".trace.scatter")).to_have_count(2)
    expect(figure.locator(".legendtext")).to_have_text(["fedavg, seed 0", "fedsam, seed 0"])
    shown.page.locator("#picked details.numbers > summary").click()
    figure.locator("input[type=checkbox]").check()
    expect(shown.page.locator("#picked details.numbers tbody tr")).to_have_count(4)
    shown.check()


def test_rounds_that_were_evaluated_more_often_are_a_thin_line_behind(browser: Any, tmp_path: Path) -> None:
    accuracies = tuple(round / 50 if round % 5 == 0 or round > 30 else None for round in range(1, 41))
    write_run(tmp_path / "run", accuracies=accuracies, evaluate_every=5)
    with dashboard(tmp_path) as board:
        shown = opened(browser, board.address)
        shown.pick("run")
        shown.settle(lambda: shown.page.locator("#curves .plot").evaluate(LINES), DENSE_LINES)
        shown.check()
        shown.page.close()


def test_a_group_is_picked_at_once_and_a_page_that_is_loaded_again_shows_the_same(shown: Shown) -> None:
    shown.page.locator("#group").select_option("method")
    shown.page.locator("#runs tr.group", has_text="fedsam").locator("button").click()
    shown.wait_for_picked(2)
    shown.page.reload()
    shown.wait_for_picked(2)
    expect(shown.page.locator("#group")).to_have_value("method")
    expect(shown.page.locator("#runs tr.group")).to_have_count(3)
    expect(shown.page.locator("#nothing")).to_be_hidden()
    shown.page.locator("#none").click()
    shown.page.locator("#nothing").wait_for()
    shown.check()


def test_the_table_and_two_side_by_side(shown: Shown) -> None:
    shown.pick(FEDAVG, FEDSAM)
    table = shown.page.locator("#table table")
    expect(table.locator("tbody th")).to_have_text([FEDAVG, FEDSAM])
    head = table.locator("thead th", has_text="backprops")
    head.locator("button").focus()
    shown.page.keyboard.press("Enter")
    expect(table.locator("tbody th")).to_have_text([FEDSAM, FEDAVG])
    settings, numbers = (shown.page.locator(f"#compare .{name}") for name in ("settings", "numbers"))
    expect(settings.locator("tbody th", has_text="method")).to_have_count(1)
    expect(settings).to_contain_text("fedsam")
    expect(settings).to_contain_text("settings are the same")
    expect(numbers.locator("thead th")).to_have_text(["number", FEDAVG, FEDSAM])
    shown.pick(FEDAVG, FEDSAM, "failed")
    shown.page.locator("#compare select").nth(1).select_option(label="failed")
    expect(settings.locator("thead th")).to_have_text(["setting that differs", FEDAVG, "failed"])
    expect(settings.locator("tbody th", has_text="algorithm.id")).to_have_count(1)
    expect(numbers.locator("thead th")).to_have_text(["number", FEDAVG, "failed"])
    shown.check()


def test_reasons_rejected_updates_and_commands(shown: Shown) -> None:
    shown.pick("failed")
    details = shown.open_details()
    for text in ("failed: client 3 could not be run", "the update is not finite", "flatfed resume"):
        expect(details).to_contain_text(text, use_inner_text=True)
    shown.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    details.locator("button.copy").first.click()
    expect(details.locator("button.copy").first).to_have_text("Copied")
    assert shown.page.evaluate("navigator.clipboard.readText()").startswith("flatfed resume ")
    shown.check()


def test_the_command_of_a_run_is_that_of_its_comparison(shown: Shown) -> None:
    shown.pick(FEDAVG)
    details = shown.open_details()
    found = "Board.state.groups.find(group => group.kind === 'comparison')?.command"
    shown.wait(found)
    text = f"The same again:\n\n{shown.page.evaluate(found)}"
    shown.settle(lambda: text in details.inner_text(), True)
    shown.check()


def test_the_grid_of_a_study_and_its_failures(shown: Shown) -> None:
    grid = shown.page.locator("#grids table.grid")
    expect(grid.locator("thead th")).to_have_text(["method", "first", "second"])
    expect(grid.locator("tbody th")).to_have_text(["fedavg", "wild"])
    # What is a button can be picked.
    expect(grid.locator("button.cell[data-status=finished]")).to_have_count(4)
    expect(grid.locator("button.cell[data-status=diverged]")).to_have_count(4)
    expect(shown.page.locator("#grids")).to_contain_text("8 of 8 cells have ended")
    expect(shown.page.locator("#grids")).to_contain_text("is not finite")
    grid.locator(".cell[aria-label^='wild, first, seed 1']").click()
    shown.wait_for_picked(1)
    expect(shown.page.locator("#curves .legendtext")).to_have_text(["wild, seed 1"])
    shown.check()


@pytest.mark.parametrize("which", ["study", "comparison", "run"])
def test_a_report_opens(which: str, shown: Shown) -> None:
    if which == "run":
        shown.pick(FEDAVG)
        shown.open_details()
    link = shown.page.get_by_role("link", name=f"Open the report of this {which}")
    with shown.page.context.expect_page() as opening:
        link.click()
    report = opening.value
    report.locator(".view:visible [data-figure=curves]").first.scroll_into_view_if_needed()
    report.locator("[data-figure=curves] .main-svg").first.wait_for(state="attached")
    expect(report.locator("main")).to_contain_text("fedavg", use_inner_text=True)
    shown.check()


def test_light_and_dark(browser: Any, board: Board) -> None:
    light, dark = (opened(browser, board.address, color_scheme=scheme) for scheme in ("light", "dark"))
    colour = dark.page.evaluate("getComputedStyle(document.body).backgroundColor")
    light.pick(FEDAVG)
    papers = [light.page.locator("body"), light.page.locator("#curves .main-svg").first]
    for paper in papers:
        expect(paper).not_to_have_css("background-color", colour)
    light.page.locator("#theme").select_option("dark")
    for paper in papers:
        expect(paper).to_have_css("background-color", colour)
    light.check()
    dark.check()


def test_a_phone_shows_all_of_it(browser: Any, board: Board) -> None:
    shown = opened(browser, board.address, width=360)
    shown.pick(FEDAVG, FEDSAM, "failed")
    shown.open_details(2)
    shown.page.locator("#grids table.grid").wait_for()
    expect(shown.page.locator("#curves .trace.scatter")).to_have_count(3)
    expect(shown.page.locator("#compare .settings")).to_contain_text("settings are the same")
    shown.wait_until_within()
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
    shown.wait_for_picked(1)
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
        boxes = shown.page.locator("#runs input")
        expect(boxes).to_have_count(len(HOSTILE))
        for box in boxes.all():
            box.check()
        shown.wait_for_picked(len(HOSTILE))
        for name in ("method", "folder", "setting"):
            shown.page.locator("#group").select_option(name)
        choose_each_number(shown.page.locator("#curves"))
        shown.hover(shown.page.locator("#curves"))
        for place in range(len(HOSTILE)):
            shown.open_details(place)
        expect(shown.page.locator("#details")).to_contain_text(HOSTILE[0])
        expect(shown.page.locator("img, .plot a, .plot b")).to_have_count(0)
        shown.check()
        shown.page.close()
