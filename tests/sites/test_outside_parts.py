"""Parts from outside flatfed at sites: imported only where the site's file approves that very code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.command import flatfed
from flatfed.core.configuration.schedules import Schedule
from flatfed.core.method.algorithm import Algorithm
from flatfed.engines.sites.assignment import Assignment, ModelRecipe, OutsidePart
from flatfed.engines.sites.sockets import SocketTransport
from flatfed.outside.source_hashes import sources_of
from sites.bench import NAMES, ForkedSite, assert_same, data_of, federated, service_in, simulated
from sites.test_limits import answered, assignment, reason_of, request

METHOD = """
from pathlib import Path

from flatfed.core.configuration.schedules import Schedule
from flatfed.core.method.algorithm import Algorithm
from site_helpers import share

with (Path(__file__).parent / "imported").open("a") as file:
    file.write("once\\n")


class Steeper(Algorithm):
    rho: float = 0.5

    def gradient(self, client):
        return client.gradient() * (1 + self.rho * share)


class Quartered(Schedule):
    start: float

    def value(self, round):
        return self.start / 4**round

    def bounds(self):
        return self.start, 0.0
"""
PATH = "site_method:Steeper"
SCHEDULE = "site_method:Quartered"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A method and a helper of it, on the search path of the server and of the sites."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "site_method.py").write_text(METHOD)
    (tmp_path / "site_helpers.py").write_text("share = 0.5\n")
    yield tmp_path
    for name in ("site_method", "site_helpers"):
        sys.modules.pop(name, None)
    Algorithm.registry.pop("steeper", None)
    Schedule.registry.pop("quartered", None)


def asked(**changes: Any) -> bytes:
    """Return a request of a server that trains with the method from outside."""
    part = OutsidePart("algorithm", "steeper", PATH, sources_of("site_method").digest)
    given: Assignment = assignment(algorithm={"id": "steeper", "rho": 0.5}, parts=[replace(part, **changes)])
    return request(given)


def approved() -> dict[str, str]:
    return dict.fromkeys((PATH, SCHEDULE), sources_of("site_method").digest)


def imports(project: Path) -> int:
    marks = project / "imported"
    return len(marks.read_text().splitlines()) if marks.exists() else 0


def test_code_that_the_site_does_not_name_is_not_imported(project: Path, home: Path) -> None:
    for number, parts in enumerate([{}, {SCHEDULE: approved()[SCHEDULE]}, {PATH: None}]):
        service = service_in(home / str(number), "b", parts=parts)
        assert "does not allow the code 'site_method:Steeper'" in reason_of(service, asked())
        assert "limits.parts" in reason_of(service, asked())
    assert imports(project) == 0


def test_other_code_than_approved_is_not_imported(project: Path, home: Path) -> None:
    service = service_in(home, "b", parts=approved())
    (project / "site_helpers.py").write_text("share = 0.25\n")
    assert "is not what limits.parts approves" in reason_of(service, asked())
    assert imports(project) == 0


def test_other_code_than_the_servers_is_not_imported(project: Path, home: Path) -> None:
    service = service_in(home, "b", parts=approved())
    assert "has other code of site_method:Steeper" in reason_of(service, asked(digest="0" * 64))
    assert imports(project) == 0


FORGED: dict[str, tuple[dict[str, str], str]] = {
    "family": ({"family": "site"}, "cannot be a 'site'"),
    "other-family": ({"family": "sampler"}, "is an algorithm, not a sampler"),
    "id": ({"id": "fedavg"}, "has the id 'steeper' at this site and 'fedavg' at the server"),
    "text": ({"path": "site_method:Steeper, and more"}, "does not allow the code"),
    "inside": ({"path": "site_method:Path"}, "does not allow the code"),
}


@pytest.mark.parametrize(("changes", "reason"), FORGED.values(), ids=FORGED.keys())
def test_a_server_that_says_something_else_of_it(
    changes: dict[str, str], reason: str, project: Path, home: Path
) -> None:
    service = service_in(home, "b", parts=approved())
    assert reason in reason_of(service, asked(**changes))
    assert answered(service, asked()).kind == "replies"


def test_what_is_no_part_is_no_assignment(home: Path) -> None:
    import json

    for part in ({"family": 1, "id": "x", "path": "x:y", "digest": ""}, {"path": "x:y"}, 3):
        data = json.dumps(asdict(assignment()) | {"parts": [part]}).encode()
        assert "no assignment" in reason_of(service_in(home, "b"), request(data))


def test_a_federation_with_a_method_from_outside_is_its_simulation(
    project: Path, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # Forked before this process has imported anything: each imports the code by itself, or not at all.
    sites = [ForkedSite(home / name, name, data_of(name), {"limits": {"parts": approved()}}) for name in NAMES]
    sites[1].content = {}
    for site in sites:
        site.home.mkdir()
        site.start()
    assert imports(project) == 0
    out = tmp_path_factory.mktemp("runs")
    try:
        transport = SocketTransport([site.site.socket for site in sites])
        given: dict[str, Any] = {"rounds": 2, "lr": f"{SCHEDULE}(0.1)", "sampling": 5}
        refused = federated(transport, f"{PATH}(rho=0.2)", out / "refused", **given)
        (rejected,) = {entry["reason"] for row in refused.history for entry in row["rejected"]}
        assert rejected.startswith("the site b: this site does not allow the code 'site_method:Steeper'")
        assert imports(project) == 3, "here, at a and at c"
        sites[1].content = {"limits": {"parts": approved()}}
        sites[1].restart()
        run = federated(transport, f"{PATH}(rho=0.2)", out / "run", **given | {"rounds": 1})
        assert (run.history[0]["lr"], run.history[0].get("rejected")) == (0.1, None)
        resumed = federated(transport, "ignored", out / "run", resume=True, resume_rounds=2, trust=True)
    finally:
        for site in sites:
            site.end()
    expected = simulated("steeper(rho=0.2)", sampling=5, rounds=2, lr="quartered(0.1)")
    assert_same(resumed, expected)
    assert [line["parts"] for line in sites[0].audit() if line["what"] == "run"][-1] == [
        f"{path} {digest}" for path, digest in approved().items()
    ]
    assert {entry["family"] for entry in run.directory.config["origins"]} == {"algorithm", "schedule"}


def test_the_check_of_a_site_shows_the_hash_and_imports_nothing(project: Path, home: Path) -> None:
    def checked(parts: Any) -> tuple[int, str]:
        (home / "site.yaml").write_text(yaml.safe_dump({"site": "a", "data": "digits", "limits": {"parts": parts}}))
        done = flatfed("site", "check", "--config", home / "site.yaml")
        return done.code, done.out

    code, said = checked({PATH: None})
    assert code == 1
    assert f"FAULT    part: {PATH} has the hash {approved()[PATH]}, of " in said
    assert f"{project / 'site_helpers.py'}, {project / 'site_method.py'}; look at these files" in said
    code, said = checked(approved())
    assert code == 0
    assert f"ok       part: {PATH} has the hash {approved()[PATH]}" in said
    code, said = checked({PATH: "0" * 64})
    assert code == 1
    assert f"and limits.parts approves {'0' * 64}" in said
    code, said = checked({"nowhere_at_all.x:M": "0" * 64})
    assert (code, "nowhere_at_all.x:M is not found" in said) == (1, True)
    assert imports(project) == 0


@pytest.mark.parametrize("parts", [3, ["a:B"], {"a": "0" * 64}, {"a:B": "1234"}, {"a:B": 12}])
def test_a_mistake_in_the_list_of_parts(parts: Any, tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(yaml.safe_dump({"site": "a", "data": "digits", "limits": {"parts": parts}}))
    done = flatfed("site", "run", "--config", tmp_path / "site.yaml")
    assert done.code == 2
    assert "limits: parts" in done.err


def test_a_model_of_an_installed_package_needs_permission_too(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "site_nets-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: site-nets\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[flatfed.models]\nthin = site_nets_module:net\n")
    (tmp_path / "site_nets_module.py").write_text("raise SystemExit('nobody may import this')\n")
    monkeypatch.syspath_prepend(tmp_path)
    model = ModelRecipe("thin", 3, facts={"in_channels": 1, "image_size": 4})
    reason = reason_of(service_in(home, "b"), request(assignment(model=model)))
    assert "does not allow the code 'thin'; name it in limits.models" in reason
