"""What a server answers, and what it refuses: no writing, no other names, no token, no path out of the folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from dashboard.board import Board, dashboard, next_of
from reports.disk import write_run
from reports.page.test_hostile_names import HOSTILE

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytestmark = pytest.mark.usefixtures("signals_heard")

TOKEN = "a-token-of-the-tests-0123456789"
SECRET = "nobody may read this"
WAYS_OUT = [
    "../secret.json",
    "../outside",
    "/etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "....//secret.json",
    "%00",
    "link",
    "file:///etc/passwd",
    "config.json",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with runs, one of them behind a link, and a secret beside it."""
    around = tmp_path_factory.mktemp("around")
    (around / "secret.json").write_text(json.dumps({"secret": SECRET}))
    write_run(around / "outside", reason=SECRET)
    folder = around / "folder"
    write_run(folder / "run")
    write_run(folder / "other", "fedsam", seed=1, lr=0.5)
    (folder / "link").symlink_to(around / "outside")
    write_run(folder / "leaking")
    (folder / "leaking" / "flatness").symlink_to(around)
    return folder


@pytest.fixture(scope="module")
def board(folder: Path) -> Iterator[Board]:
    with dashboard(folder) as started:
        yield started


PATHS = ("/", "/events", "/compare", "/report", "/files/parts.js", "/nothing")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "MKCOL"])
def test_nothing_can_be_written(method: str, board: Board) -> None:
    for path in PATHS:
        answer = board.ask(path, method)
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


def test_every_answer_has_the_headers_that_keep_a_browser_safe(board: Board) -> None:
    for path in ("/", "/files/parts.js", "/files/plotly.js", "/nothing", "/compare?a=1&b=2", "/report?of=x"):
        headers = board.ask(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy and "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers
    assert "<script>" not in board.ask("/").text and "style=" not in board.ask("/").text
    assert board.ask("/", "HEAD").body == b"" == board.ask("/events", "HEAD").body


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil", "", "127.1.evil"]
)
def test_a_name_of_somebody_else_is_refused(host: str, board: Board) -> None:
    for path in ("/", "/events", "/report?of=x"):
        assert board.ask(path, Host=host).status in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.2:99", "[::1]", "[::1]:80"])
def test_names_of_this_machine_are_answered(host: str, board: Board) -> None:
    assert board.ask("/", Host=host).status == 200


@pytest.mark.parametrize("way", WAYS_OUT)
def test_no_parameter_leads_out_of_the_folder(way: str, board: Board) -> None:
    (run, *_) = (entry["id"] for entry in board.entries().values())
    for spelled in (way, quote(way, safe="")):
        for path in (f"/files/{spelled}", f"/report?of={spelled}", f"/compare?a={run}&b={spelled}", f"/{spelled}"):
            answer = board.ask(path)
            assert answer.status == 404, path
            assert SECRET not in answer.text and "root:" not in answer.text
        with board.events(f"runs={spelled}&since={spelled}") as events:
            assert len(next_of(events, "list").data["entries"]) == 3


def test_the_list_holds_what_is_inside_only(board: Board) -> None:
    assert sorted(board.entries()) == ["leaking", "other", "run"]


def test_a_report_is_made_with_its_own_policy(board: Board) -> None:
    run = board.entries()["run"]["id"]
    answer = board.ask(f"/report?of={run}")
    assert answer.status == 200, answer.text[:300]
    assert "sha256-" in answer.headers["content-security-policy"]
    assert "fedavg" in answer.text
    assert board.ask(f"/report?of={run}", "HEAD").status == 200


def test_a_report_follows_no_link_out(board: Board) -> None:
    answer = board.ask(f"/report?of={board.entries()['leaking']['id']}")
    assert answer.status == 409
    assert "leads out of the folder" in answer.text


def test_settings_that_differ(board: Board) -> None:
    entries = board.entries()
    answer = board.ask(f"/compare?a={entries['run']['id']}&b={entries['other']['id']}")
    rows = {name: (one, other) for name, one, other in answer.json["rows"]}
    assert rows["settings.lr"] == ("0.1", "0.5")
    assert rows["method"] == ("fedavg", "fedsam")
    assert answer.json["common"] > 10


def test_a_stream_goes_on_from_what_a_page_knows(board: Board) -> None:
    with board.events() as events:
        first = next_of(events, "list")
    assert first.data["whole"]
    with board.events(f"since={first.id}&runs={first.data['entries'][0]['id']}") as events:
        assert [next(events).name, next(events).name] == ["hello", "rows"]
    for stale in ("0123-5", "x", first.id.replace("-", "")):
        with board.events(**{"Last-Event-ID": stale}) as events:
            assert next_of(events, "list").data["whole"]


# --- the token ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def closed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    """Serve on all addresses, with a token from a file."""
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(TOKEN + "\n")
    with dashboard(folder, "--host", "0.0.0.0", "--token-file", str(file)) as started:
        yield started


@pytest.mark.parametrize("wrong", ["", "x", TOKEN[:-1], TOKEN + "0", TOKEN.upper(), "é"])
def test_a_wrong_token_is_refused_everywhere(wrong: str, closed: Board) -> None:
    cookie = f"flatfed-{closed.port}={quote(wrong)}"
    for path in (
        "/",
        f"/?token={quote(wrong)}",
        "/events",
        "/report?of=x",
        "/files/parts.js",
        f"/events?token={TOKEN}",
    ):
        for headers in ({}, {"Cookie": cookie}, {"Authorization": f"Bearer {quote(wrong)}"}):
            assert closed.ask(path, **headers).status == 401


def test_the_token_opens_and_moves_into_a_cookie(closed: Board) -> None:
    assert f"?token={TOKEN}" in closed.address
    answer = closed.ask(f"/?token={TOKEN}")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert closed.ask("/", Cookie=cookie.partition(";")[0]).status == 200
    assert closed.ask("/files/parts.js", Authorization=f"Bearer {TOKEN}").status == 200
    assert closed.ask("/", "POST", Authorization=f"Bearer {TOKEN}").status == 405


def test_another_address_without_a_file_makes_a_token(folder: Path) -> None:
    with dashboard(folder, "--host", "0.0.0.0") as board:
        token = board.address.partition("?token=")[2]
        assert len(token) >= 32
        assert board.ask("/").status == 401
        assert board.ask("/", Authorization=f"Bearer {token}").status == 200


# --- runs of anybody ----------------------------------------------------------------------------------------------


def test_hostile_and_damaged_runs_do_not_take_the_server_down(tmp_path: Path) -> None:
    for place, text in enumerate(HOSTILE):
        write_run(tmp_path / f"run-{place}-{text.replace('/', '_')}", status="failed", reason=text)
    for place, content in enumerate((b"{", b"[]", b"\xff" * 99, b'{"a":' * 9999, b" " * 5_000_000)):
        (tmp_path / f"bad-{place}").mkdir()
        (tmp_path / f"bad-{place}" / "config.json").write_bytes(content)
    with dashboard(tmp_path) as board:
        entries = board.entries()
        assert len(entries) == len(HOSTILE) + 5
        bad = [entry for name, entry in entries.items() if name.startswith("bad")]
        assert {entry["status"] for entry in bad} == {"unreadable"}
        with board.events(f"runs={','.join(entry['id'] for entry in entries.values())}") as events:
            assert next_of(events, "rows").data["whole"]
        for entry in bad:
            assert board.ask(f"/report?of={entry['id']}").status == 409
        assert board.ask("/").status == 200
