"""The command: mistakes are a sentence, and Ctrl-C is its end."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from cli.command import flatfed, refused
from dashboard.board import next_of, started
from flatfed.dashboard.serving import serve
from ports import free_ports

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    refused(flatfed("dashboard", tmp_path / "none"), "is not a folder")


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(flatfed("dashboard", tmp_path, "--port", port), f"127.0.0.1:{port} cannot be used", "--port")


def test_an_address_that_is_none(tmp_path: Path) -> None:
    refused(flatfed("dashboard", tmp_path, "--host", "no such name", "--port", 0), "--host")


@pytest.mark.parametrize("content", ["", "short", "with spaces in between it", "ä" * 20])
def test_a_token_that_is_none(content: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    refused(flatfed("dashboard", tmp_path, "--token-file", file), "16 or more letters")
    refused(flatfed("dashboard", tmp_path, "--token-file", tmp_path / "none"), "cannot be read")


def test_without_the_extra_the_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "NEEDED", ("starlette", "no_such_package"))
    refused(flatfed("dashboard", tmp_path), "no_such_package", "pip install 'flatfed[dashboard]'")


@pytest.mark.usefixtures("signals_heard")
def test_ctrl_c_ends_it_also_with_a_page_open(tmp_path: Path) -> None:
    port = ("--port", str(*free_ports(1)))
    board = started(tmp_path, *port)
    with board.events() as events:
        assert next_of(events, "list").data["entries"] == []
        assert board.end() == 0
        assert list(events) == []
    again = started(tmp_path, *port)
    assert again.end() == 0
