"""The Flower project of a federation: two files that import flatfed's apps, and every setting with its default."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flatfed.core.configuration.settings import about_settings, defaults
from flatfed.deploy.deployment import Deployment
from flatfed.deploy.kit_files import filled, make_folder, write_new

APP = '''"""{what}"""

from flatfed.flower.{module} import app

__all__ = ["app"]
'''

OWN: dict[str, Any] = {
    "method": "fedavg",
    "sampling": 0,
    "model": "",
    "model_options": "",
    "augment": "none",
    "local_layers": "",
    "out": "runs/federation",
    "resume": False,
    "resume_rounds": 0,
    "trust": False,
    "accept_changed_code": False,
    "checkpoint_every": 0,
    "roll_call_seconds": 120,
    "exchange_timeout": 600,
    "test_data": "",
    "test_data_options": "",
    "exact": False,
    "evaluate_last": 1,
}
"""What a federation is given beside the training settings, or with another default than theirs."""


def run_config(deployment: Deployment) -> dict[str, Any]:
    """Return every key of the app's configuration with its default; an empty text stands for None."""
    config = {name: about.usual for name, about in about_settings().items()}
    config |= defaults()
    config |= OWN
    config["sites"] = ",".join(deployment.sites)
    return {name: "" if value is None else value for name, value in config.items()}


def write_app(folder: Path, deployment: Deployment) -> None:
    """Write the project into a new folder."""
    make_folder(folder)
    lines = [f"{name} = {_toml(value)}" for name, value in run_config(deployment).items()]
    write_new(folder / "pyproject.toml", filled("app/project.toml", {"config": "\n".join(lines)}))
    write_new(folder / "README.md", filled("app/README.md", {}))
    write_new(folder / "LICENSE", filled("app/LICENSE", {}))
    package = make_folder(folder / "flatfed_app")
    write_new(package / "__init__.py", '"""The apps that Flower loads."""\n')
    write_new(package / "server_app.py", APP.format(what="The server's part.", module="server_app"))
    write_new(package / "client_app.py", APP.format(what="A site's part.", module="client_app"))


def _toml(value: Any) -> str:
    """Return a value as TOML writes it, which for these kinds is as JSON does."""
    return json.dumps(value)
