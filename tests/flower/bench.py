"""A federation on Flower with real apps and real site processes, and the simulation that it is compared with.

Sites wait at a gate where a test says so. A site that has answered while another one waits has nothing to do until the
test lets that one go: so a test acts between two rounds, or in the middle of one, without a race.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from deploy.federation import Federation, Program, descendants, missing_programs, until
from engines.bench import exact
from flatfed import load_run, models
from flatfed.core.errors import EngineError
from flatfed.core.task.roster import Roster
from flatfed.core.task.task import Task
from flatfed.experiments.running.run import Run
from flatfed.runs.history import Row
from flatfed.site.config import Site, read_site
from flatfed.site.data import SiteData, load_data
from flatfed.site.health import ask_health
from sites.bench import (
    CLASSES,
    CLIENTS,
    NAMES,
    SETTINGS,
    SITE_OF,
    Moment,
    remove,
    rows,
    short_folder,
    simulated,
)

MISSING = missing_programs()
ENDLESS = 1000
"""More rounds than a test waits for: it stops the run."""
CONFIG: dict[str, Any] = SETTINGS | {"rounds": 2, "checkpoint_every": 1, "evaluate_every": ENDLESS}
"""What every run is given with `-c`, unless the test says otherwise. Sites test the model after the last round."""
ONLY_SERVERS = ("checkpoint_every", "resume", "roll_call_seconds", "exact")
"""Keys of the run configuration that the simulation is not given as settings."""


@dataclass
class Member:
    """A site: its process, its node, and the gate before its batches."""

    federation: Federation
    name: str
    process: Program | None = None
    node: Program | None = None

    @property
    def home(self) -> Path:
        return self.federation.site(self.name)

    @property
    def site(self) -> Site:
        return read_site(self.home / "site.yaml")

    def configure(self, **content: Any) -> None:
        """Write its file."""
        options = {"site": self.name, "folder": str(self.home), **content.pop("data_options", {})}
        own = {"site": self.name, "data": "flower.source:tiny", "data_options": options, "socket": "state/site.sock"}
        parts = {"partition": "iid", "clients": CLIENTS[self.name]}
        (self.home / "site.yaml").write_text(yaml.safe_dump(own | parts | content))

    def start(self) -> None:
        """Start its process."""
        self.process = self.federation.start(self.home / "site.sh")

    def wait_well(self) -> None:
        """Wait until its process answers."""

        def is_well() -> bool:
            assert self.process is not None
            self.process.check_running()
            with contextlib.suppress(EngineError):
                return bool(ask_health(self.site))
            return False

        until(is_well, f"the site {self.name}")

    def start_node(self) -> None:
        self.node = self.federation.start_node(self.name)

    def rejoin(self) -> None:
        """Start its node until it is let in: the SuperLink takes one that was killed for online for a minute."""

        def is_in() -> bool:
            self.start_node()
            assert self.node is not None
            node = self.node
            node.may_end = True
            until(lambda: node.code is not None or "SuperNode ID" in node.text, "the node")
            return node.code is None

        until(is_in, "the SuperLink to let the node in")

    def restart(self, **content: Any) -> None:
        """Kill its process and start another, with these lines in its file beside the usual ones."""
        assert self.process is not None
        self.process.kill()
        self.configure(**content)
        self.start()
        self.wait_well()

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.process.send_signal(number)

    def hold(self) -> None:
        """Let the next batch wait; nothing may be trained now."""
        (self.home / "inside").unlink(missing_ok=True)
        (self.home / "gate").touch()

    def wait_held(self) -> None:
        """Wait until a client is in the middle of its training, and waits."""
        until((self.home / "inside").exists, f"the site {self.name} to train")

    def let_go(self) -> None:
        (self.home / "gate").unlink(missing_ok=True)

    def audit(self, what: str = "") -> list[dict[str, Any]]:
        """Return the lines of the audit log, of one kind where it is named."""
        file = self.home / "state" / "audit.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in map(json.loads, lines) if what in ("", line["what"])]

    def wait_answered(self, count: int) -> None:
        """Wait until so many exchanges are in the audit log, and the answer to the last has left."""
        until(lambda: len(self.audit("exchange")) >= count, f"the site {self.name} to train")
        assert self.node is not None
        node = self.node.process.pid
        until(lambda: not running(node, "flwr-clientapp"), f"the answer of {self.name} to leave")


def running(parent: int, program: str) -> list[int]:
    """Return the processes of a program that a process has started."""
    found: list[int] = []
    for pid in descendants(parent):
        with contextlib.suppress(OSError):
            if program in Path(f"/proc/{pid}/cmdline").read_text():
                found.append(pid)
    return found


@dataclass
class Bench:
    """The federation, its three sites, and its runs."""

    federation: Federation
    sites: dict[str, Member]
    seconds: list[float] = field(default_factory=list)
    """How long rounds took so far."""

    def __getitem__(self, name: str) -> Member:
        return self.sites[name]

    @property
    def home(self) -> Path:
        """The folder of the sites' folders."""
        return self.federation.folder / "sites"

    @property
    def population(self) -> int:
        """The clients of all sites."""
        return sum(CLIENTS[name] for name in self.sites)

    def wait_ready(self) -> None:
        """Wait until all sites are well and their nodes online."""
        for member in self.sites.values():
            member.wait_well()
        self.federation.wait_online(len(self.sites))

    def out(self, name: str) -> Path:
        """Return the run directory of a name."""
        return self.federation.server / "runs" / name

    def begin(self, method: str, name: str, **changes: Any) -> int:
        """Begin a run with `-c`; return its id."""
        given = CONFIG | {"method": method, "out": f"runs/{name}", "sampling": self.population} | changes
        return self.federation.run(self.federation.folder / "app", written(given))

    def resume(self, name: str) -> int:
        return self.federation.run(self.federation.folder / "app", written({"out": f"runs/{name}", "resume": True}))

    def finish(self, run: int) -> None:
        """Wait for the good end of a run; where it is another, show what the run said."""
        end = self.federation.wait_finished(run)
        assert end == "finished:completed", self.log(run)

    def log(self, run: int) -> str:
        """Return what a run has said."""
        return self.federation.flwr("log", str(run), "flatfed", "--show").stdout

    def history(self, name: str) -> list[Row]:
        """Return the rows that are written so far."""
        file = self.out(name) / "history.jsonl"
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def server_apps(self) -> list[int]:
        """Return the processes of ServerApps."""
        (superexec,) = [program for program in self.federation.programs if program.name == "server-superexec"]
        return running(superexec.process.pid, "flwr-serverapp")

    def kill_server_app(self) -> None:
        """Kill the only ServerApp, as a power cut would."""
        (pid,) = until(self.server_apps, "the ServerApp")
        os.kill(pid, signal.SIGKILL)
        until(lambda: not self.server_apps(), "the end of the ServerApp")

    def stop(self, run: int) -> None:
        """Stop a run with Flower's command, and wait until its ServerApp is gone."""
        self.federation.flwr("stop", str(run), "flatfed")
        assert self.federation.wait_finished(run) == "finished:stopped"
        until(lambda: not self.server_apps(), "the end of the ServerApp")

    def loaded(self, name: str) -> Run:
        """Return a run as its directory has it."""
        datas = self.datas()
        pool = datas["a"].pool
        model = models.build("logreg", CLASSES, seed=0, **pool.facts)
        counts = [count for data in datas.values() for count in data.counts]
        names = list(pool.class_names)
        run = load_run(self.out(name), task=Task(model, Roster(counts), name="federation", class_names=names))
        self.seconds += [row["seconds"] for row in run.history]
        return run

    def datas(self) -> dict[str, SiteData]:
        """Return what lies at the sites."""
        return {name: load_data(member.site) for name, member in self.sites.items()}

    def simulated(self, method: str, lost: Mapping[tuple[str, Moment], str] | None = None, **changes: Any) -> Run:
        """Return the simulation of a run that was begun with the same changes."""
        given = {"evaluate_last": 1} | CONFIG | changes
        settings = {name: value for name, value in given.items() if name not in ONLY_SERVERS}
        return simulated(method, lost, self.population, datas=self.datas(), **settings)

    def same_so_far(self, method: str, name: str) -> tuple[Run, dict[tuple[str, Moment], str]]:
        """Compare a run, as far as it has come, with a simulation that has the same losses; return both."""
        run = self.loaded(name)
        lost = lost_in(run)
        expected = self.simulated(method, lost, rounds=run.round)
        assert rows(run) == rows(expected)
        assert exact(run.vector) == exact(expected.vector)
        assert exact(run.server_state) == exact(expected.server_state)
        return run, lost

    def patience(self) -> int:
        """Return the seconds within which a healthy site has answered, by how long the rounds before took."""
        # The shortest: others were held by their tests.
        return max(15, round(3 * min(self.seconds, default=10.0)))


def lost_in(run: Run) -> dict[tuple[str, Moment], str]:
    """Return the losses of a run whose rounds have one exchange, as its history has them."""
    lost: dict[tuple[str, Moment], str] = {}
    for row in run.history:
        attempts: Counter[int] = Counter()
        for entry in row.get("rejected", []):
            client = entry["client"]
            # All clients are asked, and an attempt fails where none answers: so each is lost once in every attempt.
            lost[SITE_OF[client], (row["round"], attempts[client], 0)] = entry["reason"]
            attempts[client] += 1
    return lost


def written(config: Mapping[str, Any]) -> str:
    """Return settings as `flwr run -c` takes them."""
    return " ".join(f"{name}={_value(value)}" for name, value in config.items())


def _value(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else json.dumps(value)


@contextmanager
def started(names: Sequence[str] = NAMES) -> Iterator[Bench]:
    """Start a federation of some sites by its scripts; a run waits for them by itself."""
    folder = short_folder()
    try:
        with Federation.made(folder / "fed", sites=tuple(names)) as federation:
            bench = Bench(federation, {name: Member(federation, name) for name in names})
            for member in bench.sites.values():
                member.configure()
                member.start()
            federation.start_server()
            federation.register()
            for member in bench.sites.values():
                member.start_node()
            yield bench
    finally:
        remove(folder)
