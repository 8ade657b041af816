"""A real federation by the generated scripts: three sites answer, and whoever should not come in does not."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.command import flatfed
from deploy.federation import LONG, Federation, Program, ask, missing_programs
from deploy.issued import EXPIRED, authority_of, put_certificate
from flatfed.deploy.authority import make_authority, valid_for
from flatfed.deploy.node_keys import make_node_key
from flatfed.deploy.server_kit import FLEET_PATHS
from ports import free_ports

pytestmark = [
    pytest.mark.skipif("FLATFED_FEDERATION" not in os.environ, reason="takes long: make federation-faults"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"not installed: {', '.join(missing_programs())}"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Flower's own, at its import
]

ECHO = Path(__file__).parent / "echo_app"
ONCE = ("--max-retries", "0")


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    # A folder with a space in its name, as people have them.
    with Federation.made(tmp_path_factory.mktemp("federation") / "our fed") as federation:
        federation.start_server()
        federation.register()
        for site in federation.sites:
            federation.start_node(site)
        federation.wait_online(3)
        yield federation


def test_three_sites_answer(federation: Federation) -> None:
    run = federation.run(ECHO, "out='answers.json'")
    assert federation.wait_finished(run) == "finished:completed"
    answers = json.loads((federation.server / "answers.json").read_text())
    assert answers == [str(federation.site(site) / "state/site.sock") for site in federation.sites]


def test_what_is_in_transit_is_the_owners(federation: Federation) -> None:
    for path in (federation.server / "state").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_the_doctor_sees_it(federation: Federation) -> None:
    rows = flatfed("deploy", "check", federation.site("a"), "--json").json
    seen = {row["subject"]: row["level"] for row in rows}
    assert [seen[subject] for subject in ("port", "TLS", "clock", "Control API")] == ["ok"] * 4


# --- who is refused ---------------------------------------------------------------------------------------------------


class Intruders:
    """SuperNodes that must not come in, all started at once: each takes seconds to start."""

    def __init__(self, federation: Federation, folder: Path) -> None:
        self.federation, self.folder = federation, folder
        self.online = set(federation.nodes())
        self.programs = {
            "unregistered": self.start(self.unregistered(), *ONCE),
            "copy": self.start(federation.site("a") / "supernode.sh", *ONCE),
            "authority": self.start(federation.site("a") / "supernode.sh", "--root-certificates", self.other(), *ONCE),
            "name": self.start(federation.site("a") / "supernode.sh", "--superlink", self.elsewhere(), *ONCE),
            "expired": self.start(federation.site("a") / "supernode.sh", "--superlink", self.expired(), *ONCE),
            "plain": self.start(self.plain(), *ONCE),
        }

    def start(self, script: Path, *arguments: str) -> Program:
        (port,) = free_ports(1)
        return self.federation.start(script, *arguments, FLATFED_NODE_PORT=str(port))

    def unregistered(self) -> Path:
        kit = self.folder / "stranger"
        shutil.copytree(self.federation.site("a"), kit, ignore=shutil.ignore_patterns("state"))
        (kit / "node.key").write_bytes(make_node_key("stranger").private)
        return kit / "supernode.sh"

    def other(self) -> str:
        path = self.folder / "other.crt"
        path.write_bytes(make_authority(valid_for(9)).certificate_text)
        return str(path)

    def elsewhere(self) -> str:
        """The same server under a name that its certificate does not have."""
        return f"localhost:{self.federation.deployment.port}"

    def expired(self) -> str:
        """A second door whose certificate has expired."""
        server = self.folder / "server"
        shutil.copytree(self.federation.server, server, ignore=shutil.ignore_patterns("state", "temporary", "flower"))
        put_certificate(server, authority_of(self.federation.folder), EXPIRED)
        (port,) = free_ports(1)
        config = server / "proxy/nginx.conf"
        config.write_text(config.read_text().replace(f":{self.federation.deployment.port} ssl", f":{port} ssl"))
        self.federation.start(server / "proxy.sh")
        return f"127.0.0.1:{port}"

    def plain(self) -> Path:
        kit = self.folder / "plain"
        shutil.copytree(self.federation.site("b"), kit, ignore=shutil.ignore_patterns("state"))
        script = kit / "supernode.sh"
        secure = '--root-certificates "$here/ca.crt"'
        text = script.read_text()
        assert secure in text
        script.write_text(text.replace(secure, "--insecure"))
        return script


@pytest.fixture(scope="module")
def intruders(federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> Intruders:
    return Intruders(federation, tmp_path_factory.mktemp("intruders"))


@pytest.mark.parametrize(
    ("intruder", "words"),
    [
        ("unregistered", "Failed to activate SuperNode"),
        ("copy", "Failed to activate SuperNode"),
        ("authority", "certificate verify failed"),
        ("name", "certificate is not valid for 'localhost'"),
        ("expired", "certificate has expired"),
        ("plain", "TLS"),
    ],
)
def test_intruders_are_refused(intruders: Intruders, intruder: str, words: str) -> None:
    program = intruders.programs[intruder]
    assert program.wait_ended() != 0
    assert words in " ".join(program.text.split())
    assert intruders.federation.nodes() == dict.fromkeys(intruders.online, "online")


def test_a_key_is_registered_once(federation: Federation) -> None:
    done = federation.call(federation.server / "register.sh", "a", check=False)
    assert done.returncode != 0
    assert len(federation.nodes()) == 3


@pytest.mark.parametrize("door", ["sites", "SuperLink"])
def test_plain_http_is_refused(federation: Federation, door: str) -> None:
    deployment = federation.deployment
    port = deployment.port if door == "sites" else deployment.inner_port
    with socket.create_connection(("127.0.0.1", port), LONG) as connection:
        connection.settimeout(LONG)
        connection.sendall(b"POST /v1/fleet/activate-node HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        try:
            answer = connection.recv(65536)
        except ConnectionResetError:
            answer = b""
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")


# --- the sites' door --------------------------------------------------------------------------------------------------


def routes() -> dict[str, set[str]]:
    """Return the paths of Flower's APIs as they are installed."""
    from flwr.supercore.routers.runtime.router import router as runtime
    from flwr.superlink.routers.control.router import router as control
    from flwr.superlink.routers.fleet.router import router as fleet

    named = {"control": control, "fleet": fleet, "runtime": runtime}
    return {name: {route.path.removeprefix(f"/v1/{name}") for route in found.routes} for name, found in named.items()}


def test_the_door_knows_every_path_of_the_fleet_api() -> None:
    fleet = {f"/v1/fleet{path}" for path in routes()["fleet"]}
    assert fleet - set(FLEET_PATHS) == {"/v1/fleet/register-node", "/v1/fleet/unregister-node"}
    assert set(FLEET_PATHS) <= fleet


def through_the_door(federation: Federation, path: str, method: str = "POST") -> tuple[int, bytes]:
    return ask(federation.deployment.port, path, federation.server / "ca.crt", method)


def test_the_fleet_api_is_open(federation: Federation) -> None:
    for path in FLEET_PATHS:
        status, answer = through_the_door(federation, path)
        assert status == 415, path  # the SuperLink's own answer to a request without a message
        assert b"Unsupported Content-Type" in answer


def test_every_other_api_is_closed(federation: Federation) -> None:
    closed = [f"/v1/{name}{path}" for name in ("control", "runtime") for path in routes()[name]]
    assert len(closed) > 50
    closed += ["/", "/health", "/docs", "/openapi.json", "/v1/runtime/responses"]
    closed += ["/v1/fleet/register-node", "/v1/fleet/unregister-node", "/v1/fleet/", "/v1/fleet"]
    for path in closed:
        assert through_the_door(federation, path)[0] == 404, path
    denied = (federation.server / "proxy/denied.log").read_text()
    assert "POST /v1/control/start-run HTTP/1.1" in denied


@pytest.mark.parametrize(
    "path",
    [
        "/v1/fleet/../control/list-nodes",
        "/v1/fleet/pull-messages/../../control/list-nodes",
        "/v1/fleet/pull-messages/%2e%2e/%2e%2e/control/list-nodes",
        "/v1/fleet/pull-messages%2f..%2f..%2fcontrol%2flist-nodes",
        "//v1/control/list-nodes",
        "/v1//control/list-nodes",
        "/v1/control/./list-nodes",
        "/V1/Control/List-Nodes",
        "/v1/%63ontrol/list-nodes",
        "/v1/control/list-nodes?/v1/fleet/pull-messages",
        "/v1/control/list-nodes#/v1/fleet/pull-messages",
        "https://127.0.0.1/v1/control/list-nodes",
    ],
)
def test_no_spelling_leads_to_the_control_api(federation: Federation, path: str) -> None:
    status, answer = through_the_door(federation, path)
    assert status in (400, 404)
    assert b"uvicorn" not in answer


def test_a_spelling_of_the_fleet_api_leads_there_and_nowhere_else(federation: Federation) -> None:
    spellings = ["/v1/control/../fleet/pull-messages", "/v1/control/list-nodes/%2e%2e/%2e%2e/fleet/pull-messages"]
    for path in [*spellings, "/v1/control/list-nodes;/../../fleet/pull-messages"]:
        assert through_the_door(federation, path)[0] == 415
    log = max((federation.folder / "logs").glob("server-superlink-*.log")).read_text()
    assert "/v1/control/../" not in log
    assert "list-nodes/%2e" not in log
    assert "list-nodes;" not in log


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
def test_only_posts_pass(federation: Federation, method: str) -> None:
    assert through_the_door(federation, "/v1/fleet/pull-messages", method)[0] == 403


# --- last: the SuperLink dies -----------------------------------------------------------------------------------------


def test_sites_come_back_after_the_superlink_was_killed(federation: Federation) -> None:
    before = set(federation.nodes())
    (superlink,) = [program for program in federation.programs if program.name == "server-superlink"]
    superlink.kill()
    federation.start_superlink()
    run = federation.run(ECHO, "out='again.json'")
    assert federation.wait_finished(run) == "finished:completed"
    assert len(json.loads((federation.server / "again.json").read_text())) == 3
    assert set(federation.nodes()) == before
    with sqlite3.connect(f"file:{federation.server}/state/superlink.db?mode=ro", uri=True) as database:
        assert database.execute("select count(*) from node").fetchone() == (3,)
