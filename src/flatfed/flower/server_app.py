"""The app of the server: it reads Flower's run configuration, and runs flatfed's own loop over the sites.

Run directory, checkpoints and resume are flatfed's: `flwr run app -c "resume=true"` goes on where a run stopped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from flatfed.core.configuration.checking import Index, Positive, checked
from flatfed.core.configuration.settings import about_settings
from flatfed.core.errors import ConfigError, FlatfedError, nearest
from flatfed.experiments.federating.federate import FederatedRun, federate
from flatfed.flower.grid_transport import GridTransport
from flatfed.runs.history import Row

app = ServerApp()

OWN = (
    *("method", "sites", "out", "sampling", "model", "model_options", "augment", "local_layers"),
    *("test_data", "test_data_options", "resume", "resume_rounds", "trust", "accept_changed_code"),
    *("roll_call_seconds", "checkpoint_every", "exact"),
)
"""What the run configuration holds besides the training settings."""
OFF = ("", "none")


class RunEnded(Exception):
    """The end of a run that has not come to its good end, in one sentence.

    An ordinary exception, as Flower sends the last lines and the status only after one; after `SystemExit` the run
    would seem to go on until its heartbeat is missed. Flower prints the traceback, which says nothing to people.
    """

    @property
    def __traceback__(self) -> None:
        """Nothing: the sentence is all there is to say."""

    @__traceback__.setter
    def __traceback__(self, value: object) -> None:
        """Keep nothing."""


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train over the nodes of the grid."""
    try:
        run = federate(wanted(context.run_config), GridTransport(grid), _show, _say)
    except FlatfedError as error:
        _say(f"Error: {error}")
        raise RunEnded(str(error)) from None
    end = f"{run.status}: {run.path}{f' ({run.reason})' if run.reason else ''}"
    _say(end)
    if run.status != "finished":
        raise RunEnded(end)


def wanted(config: Mapping[str, Any]) -> FederatedRun:
    """Return what a run configuration asks for."""
    settings = about_settings()
    if config.get("validation", "") != "":
        raise ConfigError(
            "validation: the examples are at the sites, and the server can hold none of them out; monitor test_loss, "
            "which is of the sites' own test examples, and report by a test set that no site has (test_data)"
        )
    for name in config:
        if name not in settings and name not in OWN:
            raise ConfigError(nearest(name, [*settings, *OWN], "key of the run configuration"))
    chosen = {name: config[name] for name in settings if config.get(name, "") != ""}
    augment = str(config.get("augment", "none"))
    return FederatedRun(
        method=str(config.get("method", "fedavg")),
        settings=chosen,
        sites=[name.strip() for name in str(config.get("sites", "")).split(",") if name.strip()],
        out=Path(str(config.get("out", "runs/federation"))),
        sampling=checked(Index, config.get("sampling", 0), "sampling"),
        model=str(config.get("model", "")) or None,
        model_options=_options(config, "model_options"),
        augment=False if augment in OFF else augment,
        local_layers=str(config.get("local_layers", "")) or None,
        test_data=str(config.get("test_data", "")) or None,
        test_options=_options(config, "test_data_options"),
        resume=_truth(config, "resume"),
        resume_rounds=checked(Index, config.get("resume_rounds", 0), "resume_rounds") or None,
        trust=_truth(config, "trust"),
        accept_changed_code=_truth(config, "accept_changed_code"),
        roll_call_seconds=checked(Positive, config.get("roll_call_seconds", 120), "roll_call_seconds"),
        checkpoint_every=checked(Index, config.get("checkpoint_every", 0), "checkpoint_every") or None,
        exact=_truth(config, "exact"),
    )


def _truth(config: Mapping[str, Any], name: str) -> bool:
    """Return what is true or false, also as a word: `-c` may have been given quotes."""
    value = config.get(name, False)
    if isinstance(value, bool):
        return value
    truths = {"true": True, "false": False}
    if str(value).lower() not in truths:
        raise ConfigError(f"{name} must be true or false, not {value!r:.60}")
    return truths[str(value).lower()]


def _options(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return options that are written as JSON."""
    text = str(config.get(name, "")) or "{}"
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError):
        raise ConfigError(f'{name} must be JSON such as {{"hidden": 64}}, not {text!r:.60}') from None


def _say(text: str) -> None:
    print(f"flatfed: {text}", flush=True)


def _show(row: Row) -> None:
    """Print a line about a round."""
    parts = [f"round {row['round'] + 1}", f"{len(row['clients'])} clients"]
    numbers = {"training loss": row.get("train_loss"), "test accuracy": row.get("test_accuracy")}
    watched = {name: value for name, value in row.get("watch", {}).items() if name.startswith("sites_")}
    for name, value in (numbers | watched).items():
        if value is not None:
            parts.append(f"{name.replace('_', ' ')} {value:.4f}")
    parts += [f"client {entry['client']} rejected: {entry['reason']}" for entry in row.get("rejected", [])]
    parts.append(f"{row['seconds']:.1f} s")
    _say(", ".join(parts))
