"""`flatfed deploy check`: what it finds, what it says, and how it ends."""

from __future__ import annotations

import json
import shutil
import socket
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.command import Outcome, flatfed, refused
from deploy.issued import ENDING, EXPIRED, HOSTS, LATER, authority_of, put_certificate, served
from flatfed.deploy.authority import make_authority, valid_for
from flatfed.deploy.deployment import Deployment
from flatfed.deploy.doctor.certificates import check_authority
from flatfed.deploy.doctor.connection import check_clock, split_address
from flatfed.deploy.doctor.surroundings import check_versions
from flatfed.deploy.initialise import initialise
from flatfed.deploy.node_keys import make_node_key


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("made") / "fed"
    with socket.socket() as taken:  # a port where nobody listens, as long as this one has it
        taken.bind(("127.0.0.1", 0))
        initialise(folder, Deployment(("a", "b"), ("127.0.0.1",), taken.getsockname()[1], 1))
        yield folder


@pytest.fixture
def fed(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "fed")
    return tmp_path / "fed"


def found(folder: Path) -> list[dict[str, str]]:
    outcome = flatfed("deploy", "check", folder, "--json")
    assert outcome.err == ""
    bad = [row for row in outcome.json if row["level"] == "fault"]
    assert outcome.code == (1 if bad else 0)
    assert all(row["fix"] for row in outcome.json if row["level"] != "ok")
    return list(outcome.json)


def of_level(folder: Path, level: str) -> dict[str, str]:
    return {row["subject"]: row["text"] for row in found(folder) if row["level"] == level}


def faults(folder: Path) -> dict[str, str]:
    return of_level(folder, "fault")


def change_record(folder: Path, **values: Any) -> None:
    record = json.loads((folder / "deploy.json").read_text())
    (folder / "deploy.json").write_text(json.dumps(record | values))


# --- a good one -------------------------------------------------------------------------------------------------------


def test_a_new_deployment_has_no_fault(fed: Path) -> None:
    assert faults(fed) == {}
    warnings = of_level(fed, "warning")
    assert set(warnings) == {"authority", "server: port"}


def test_the_table_names_level_finding_and_fix(fed: Path) -> None:
    outcome = flatfed("deploy", "check", fed)
    assert outcome.code == 0
    assert outcome.out.endswith("no faults, 2 warnings\n")
    assert next(line.split()[:2] for line in outcome.out.splitlines() if "warning " in line) == ["warning", "authority"]
    assert "its key is still here" in outcome.out


def test_the_key_that_was_moved_offline_is_not_missed(fed: Path) -> None:
    shutil.rmtree(fed / "authority")
    assert set(of_level(fed, "warning")) == {"server: port"}


def test_sites_that_were_sent_away_are_not_missed(fed: Path) -> None:
    shutil.rmtree(fed / "sites" / "a")
    assert faults(fed) == {}


# --- certificates -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("days", "words"), [(EXPIRED, "expired on"), (LATER, "is not valid before")])
def test_dates(fed: Path, days: tuple[float, float], words: str) -> None:
    put_certificate(fed / "server", authority_of(fed), days)
    assert any(words in row["text"] and row["level"] == "fault" for row in found(fed))


def test_the_end_is_near(fed: Path) -> None:
    put_certificate(fed / "server", authority_of(fed), ENDING)
    assert "in 8 days" in of_level(fed, "warning")["server: server.crt"]


def test_another_certificate_than_the_one_that_was_made(fed: Path) -> None:
    put_certificate(fed / "server", authority_of(fed), (-1, 90))
    assert "not the one that was made" in faults(fed)["server: server.crt"]


def test_another_authority(fed: Path) -> None:
    put_certificate(fed / "server", make_authority(valid_for(90)), (-1, 90))
    assert faults(fed)["server: server.crt"] == "was not issued by the authority in ca.crt"


def test_a_certificate_for_another_host(fed: Path) -> None:
    put_certificate(fed / "server", authority_of(fed), (-1, 90), ("fed.example.org", HOSTS[1]))
    assert faults(fed)["server: server.crt"] == "is not for 127.0.0.1"


def test_a_key_of_another_certificate(fed: Path) -> None:
    (fed / "server/server.key").write_bytes((fed / "authority/ca.key").read_bytes())
    assert faults(fed) == {"server: server.key": "does not belong to server.crt"}


@pytest.mark.parametrize("name", ["server.crt", "ca.crt", "server.key"])
@pytest.mark.parametrize("content", [None, b"", b"\xff\x00nothing"])
def test_files_that_are_no_certificates(fed: Path, name: str, content: bytes | None) -> None:
    path = fed / "server" / name
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert any(subject == f"server: {name}" for subject in faults(fed))


def test_an_authority_that_expired(tmp_path: Path) -> None:
    from deploy.issued import days_from_now

    old = make_authority(days_from_now(*EXPIRED))
    (tmp_path / "ca.crt").write_bytes(old.certificate_text)
    texts = [diagnosis.text for diagnosis in check_authority(tmp_path / "ca.crt", None)]
    assert any(text.startswith("expired on") for text in texts)


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["server/server.key", "server/superexec.secret", "sites/a/node.key"])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_keys_that_others_can_open(fed: Path, name: str, mode: int) -> None:
    (fed / name).chmod(mode)
    owner = "server" if name.startswith("server") else "a"
    assert faults(fed) == {f"{owner}: {Path(name).name}": f"can be opened by others (mode {mode:o})"}


def test_a_folder_that_others_can_enter(fed: Path) -> None:
    (fed / "sites/a").chmod(0o755)
    assert faults(fed) == {"a: folder": "a can be entered by others (mode 755)"}


def test_halves_that_do_not_belong_together(fed: Path) -> None:
    (fed / "sites/a/node.key").write_bytes(make_node_key("a").private)
    assert faults(fed) == {"a: node.key": "and node.key.pub do not belong together"}


def test_a_key_that_was_not_made_here(fed: Path) -> None:
    key = make_node_key("a")
    (fed / "sites/a/node.key").write_bytes(key.private)
    (fed / "sites/a/node.key.pub").write_bytes(key.public)
    assert "not the one that was made" in faults(fed)["a: node.key.pub"]


def test_two_sites_with_the_same_key(fed: Path) -> None:
    for name in ("node.key", "node.key.pub"):
        shutil.copy(fed / "sites/a" / name, fed / "sites/b" / name)
    shutil.copy(fed / "server/keys/a.pub", fed / "server/keys/b.pub")
    bad = faults(fed)
    assert bad["server: keys"] == "a and b have the same key"
    assert bad["b: node.key.pub"] == "is the key of a, not of b"


@pytest.mark.parametrize("name", ["server/keys/a.pub", "sites/a/node.key", "sites/a/node.key.pub"])
@pytest.mark.parametrize("content", [None, b"", b"ecdsa !!!"])
def test_files_that_are_no_keys(fed: Path, name: str, content: bytes | None) -> None:
    (fed / name).unlink()
    if content is not None:
        (fed / name).touch(0o600)
        (fed / name).write_bytes(content)
    assert faults(fed) != {}


# --- the server from here ---------------------------------------------------------------------------------------------


@pytest.fixture
def kit(fed: Path) -> Iterator[Path]:
    """A site's folder whose server answers."""
    with served(fed / "server") as port:
        change_record(fed / "sites/a", address=f"127.0.0.1:{port}")
        yield fed / "sites/a"


def seen(kit: Path) -> dict[str, tuple[str, str]]:
    subjects = ("port", "TLS", "clock", "Control API")
    return {row["subject"]: (row["level"], row["text"]) for row in found(kit) if row["subject"] in subjects}


def test_a_server_that_is_well(kit: Path) -> None:
    assert {subject: level for subject, (level, _) in seen(kit).items()} == {
        "port": "ok",
        "TLS": "ok",
        "clock": "ok",
        "Control API": "ok",
    }


def test_a_server_that_does_not_run_is_a_sites_fault(fed: Path) -> None:
    level, text = seen(fed / "sites/a")["port"]
    assert level == "fault"
    assert "does not answer within 3 seconds" in text


@pytest.mark.parametrize(("days", "words"), [(EXPIRED, "has expired"), (LATER, "is not yet valid")])
def test_a_server_whose_certificate_is_not_valid_now(fed: Path, days: tuple[float, float], words: str) -> None:
    put_certificate(fed / "server", authority_of(fed), days)
    with served(fed / "server") as port:
        change_record(fed / "sites/a", address=f"127.0.0.1:{port}")
        level, text = seen(fed / "sites/a")["TLS"]
    assert level == "fault"
    assert words in text


def test_a_server_of_another_authority(kit: Path) -> None:
    (kit / "ca.crt").write_bytes(make_authority(valid_for(9)).certificate_text)
    assert seen(kit)["TLS"][0] == "fault"


def test_a_server_under_another_name(kit: Path) -> None:
    record = json.loads((kit / "deploy.json").read_text())
    change_record(kit, address=record["address"].replace("127.0.0.1", "localhost"))
    level, text = seen(kit)["TLS"]
    assert level == "fault"
    assert "localhost" in text


def test_a_server_without_tls(fed: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        change_record(fed / "sites/a", address=f"127.0.0.1:{silent.getsockname()[1]}")
        assert seen(fed / "sites/a")["TLS"][0] == "fault"


def test_a_server_that_shows_its_control_api(fed: Path) -> None:
    with served(fed / "server", status=415) as port:
        change_record(fed / "sites/a", address=f"127.0.0.1:{port}")
        level, text = seen(fed / "sites/a")["Control API"]
    assert level == "fault"
    assert "can run code" in text


@pytest.mark.parametrize(("late", "level"), [(60, "fault"), (-60, "warning"), (-900, "fault")])
def test_a_server_with_another_time(fed: Path, late: float, level: str) -> None:
    with served(fed / "server", late=late) as port:
        change_record(fed / "sites/a", address=f"127.0.0.1:{port}")
        assert seen(fed / "sites/a")["clock"][0] == level


@pytest.mark.parametrize(
    ("ahead", "level"),
    [(0, "ok"), (2, "ok"), (-2, "ok"), (4, "warning"), (7, "fault"), (-299, "warning"), (-301, "fault")],
)
def test_clocks(ahead: float, level: str) -> None:
    assert check_clock("Tue, 17 Nov 2026 01:00:00 GMT", 1794877200.0 + ahead).level == level


@pytest.mark.parametrize("date", [None, "", "yesterday"])
def test_a_server_that_does_not_tell_its_time(date: str | None) -> None:
    assert check_clock(date, 0.0).level == "warning"


@pytest.mark.parametrize(
    ("address", "parts"), [("fed.example.org:80", ("fed.example.org", 80)), ("[::1]:8000", ("::1", 8000))]
)
def test_addresses(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


# --- versions, programs, data -----------------------------------------------------------------------------------------


def test_other_versions(fed: Path) -> None:
    change_record(fed, versions={"flatfed": "9.9", "flwr": "1.0", "torch": "1.0", "nothing": "1"})
    levels = [row["level"] for row in found(fed) if row["subject"] == "versions"]
    assert levels == ["fault", "fault", "warning", "fault"]


def test_the_build_of_torch_is_no_difference() -> None:
    import torch

    plain = str(torch.__version__).partition("+")[0]
    assert [diagnosis.level for diagnosis in check_versions({"torch": f"{plain}+other"})] == ["ok"]


def test_programs_are_looked_for_in_the_folder_first(fed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    kit = fed / "sites/a"
    programs = [row for row in found(kit) if row["subject"] == "programs"]
    assert [row["level"] for row in programs] == ["fault"] * 3
    own = kit / ".venv/bin/flower-supernode"
    own.parent.mkdir(parents=True)
    own.touch(0o755)
    assert {"level": "ok", "subject": "programs", "text": str(own), "fix": ""} in found(kit)


def test_the_servers_folder_alone(fed: Path) -> None:
    subjects = {row["subject"] for row in found(fed / "server")}
    assert {"server.crt", "a.pub", "b.pub", "keys", "programs", "disk", "port"} <= subjects


def test_data_that_cannot_be_looked_at_is_said(fed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flatfed.site.check", None)
    assert "not available" in of_level(fed / "sites/a", "warning")["data"]


def test_the_sites_own_findings_are_shown(fed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def check_site(path: Path) -> list[types.SimpleNamespace]:
        asked.append(path)
        return [
            types.SimpleNamespace(what="label", state="fault", text="is missing"),
            types.SimpleNamespace(what="model", state="ok", text="mlp"),
        ]

    module = types.ModuleType("flatfed.site.check")
    module.check_site = check_site  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flatfed.site", types.ModuleType("flatfed.site"))
    monkeypatch.setitem(sys.modules, "flatfed.site.check", module)
    assert faults(fed / "sites/a")["site: label"] == "is missing"
    assert of_level(fed / "sites/a", "ok")["site: model"] == "mlp"
    assert asked == [fed / "sites/a/site.yaml"] * 2


@pytest.mark.parametrize("text", [None, "- a", "site: [", "site: 3", "\0"])
def test_a_site_without_a_name(fed: Path, text: str | None) -> None:
    kit = fed / "sites/a"
    (kit / "site.yaml").unlink()
    if text is not None:
        (kit / "site.yaml").write_text(text)
    assert faults(kit)["node.key.pub"] == "is the key of a, not of this site"


# --- bad use ----------------------------------------------------------------------------------------------------------


def refused_check(folder: Path) -> Outcome:
    return flatfed("deploy", "check", folder)


def test_what_is_no_deployment_is_refused(tmp_path: Path) -> None:
    refused(refused_check(tmp_path), "no deployment")
    refused(refused_check(tmp_path / "nowhere"), "no deployment")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 2}', '{"format": 1, "versions": []}'])
def test_a_record_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "deploy.json").write_text(text)
    refused(refused_check(tmp_path), "deploy.json", "put it back")


def test_a_record_alone_is_refused(made: Path, tmp_path: Path) -> None:
    shutil.copy(made / "deploy.json", tmp_path)
    refused(refused_check(tmp_path), "neither scripts")
