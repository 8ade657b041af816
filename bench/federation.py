"""Seconds per round of a real federation on this machine: SuperLink, proxy, three sites, TLS and keys.

    python bench/federation.py [--rounds 5] [--out bench/federation.json]

Three sites of one client each, digits, models of about 0.1, 1 and 11 million parameters. Beside them the same sites
over their sockets, without Flower, and the same run as a simulation in one process: what is left is what Flower costs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import flatfed as ff
from deploy.federation import Federation
from flatfed.engines.sites.sockets import SocketTransport
from flatfed.experiments.federating.federate import FederatedRun, federate
from flatfed.experiments.tasks.recipe import TaskRecipe

SITES = ("a", "b", "c")
MODELS = {
    "digits, cnn-small": ("", ""),
    "0.1 M": ("mlp", "1300"),
    "1 M": ("mlp", "1000,900"),
    "11 M": ("mlp", "3300,3100"),
}
"""Models by name; of a perceptron, the widths of its hidden layers."""
SITE = "site: {site}\ndata: digits\nfolder: state\nsocket: state/site.sock\n"
LR, BATCH = 0.05, 64


def seconds_of(rows: list[dict[str, Any]]) -> float:
    """Return the median of the rounds after the first, in which sites build their models."""
    return statistics.median(row["seconds"] for row in rows[1:])


def on_flower(federation: Federation, number: int, model: str, hidden: str, rounds: int) -> float:
    """Return the seconds of a round over Flower."""
    out = f"runs/{number}"
    options = json.dumps({"hidden": hidden})
    config = f'method="fedavg" rounds={rounds} lr={LR} batch_size={BATCH} out="{out}" evaluate_every={rounds}'
    if model:
        config += f" model='{model}' model_options='{options}'"
    run = federation.run(federation.folder / "app", config)
    status = federation.wait_finished(run, 1800)
    if status != "finished:completed":
        raise SystemExit(
            f"{model}: {status}\n{federation.flwr('log', str(run), 'flatfed', '--show', check=False).stdout}"
        )
    history = federation.server / out / "history.jsonl"
    return seconds_of([json.loads(line) for line in history.read_text().splitlines()])


def over_sockets(federation: Federation, out: Path, model: str, hidden: str, rounds: int) -> float:
    """Return the seconds of a round over the sites' sockets, without Flower."""
    sockets = SocketTransport([federation.site(site) / "state" / "site.sock" for site in SITES])
    settings = {"rounds": rounds, "lr": LR, "batch_size": BATCH, "evaluate_every": rounds, "evaluate_last": 1}
    options = {"hidden": hidden} if hidden else {}
    wanted = FederatedRun("fedavg", settings, SITES, out, model=model or None, model_options=options)
    return seconds_of(federate(wanted, sockets).history)


def simulated(model: str, hidden: str, rounds: int) -> float:
    """Return the seconds of a round of a simulation with three clients, each with all the digits, in one process."""
    options = {"hidden": hidden} if hidden else {}
    task = TaskRecipe("digits", 1, {"id": "iid"}, model=model or None, model_options=options).build()
    clients = [task.examples(0)] * len(SITES)
    three = ff.Task(task.model, clients, loss=task.loss, metrics=task.metrics, prepare=task.prepare)
    run = ff.train(three, "fedavg", sampling=3, workers=0, rounds=rounds, lr=LR, batch_size=BATCH, vectorised=False)
    return seconds_of(run.history)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench/federation.json"))
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place, Federation.made(Path(place) / "f", sites=SITES) as federation:
        federation.start_server()
        federation.register()
        for site in SITES:
            (federation.site(site) / "site.yaml").write_text(SITE.format(site=site))
            federation.start(federation.site(site) / "site.sh")
            federation.start_node(site)
        federation.wait_online(len(SITES))
        for number, (name, (model, hidden)) in enumerate(MODELS.items()):
            flower = on_flower(federation, number, model, hidden, arguments.rounds)
            sockets = over_sockets(federation, Path(place) / f"run-{number}", model, hidden, arguments.rounds)
            alone = simulated(model, hidden, arguments.rounds)
            results.append({"model": name, "flower": flower, "sockets": sockets, "simulation": alone})
            print(
                f"{name:20} Flower {flower:6.2f} s   sockets {sockets:6.3f} s   simulation {alone:6.3f} s", flush=True
            )
    load = os.getloadavg()
    arguments.out.write_text(json.dumps({"rounds": arguments.rounds, "load": load, "results": results}, indent=1))


if __name__ == "__main__":
    main()
