"""The server's kit: certificates, the SuperLink, its executor, the sites' door, services, Flower's command line."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flatfed.deploy.authority import Issued
from flatfed.deploy.deployment import INNER_NAME, Deployment
from flatfed.deploy.kit_files import PRIVATE, PRIVATE_FOLDER, PROGRAM, filled, make_folder, write_new
from flatfed.deploy.node_keys import NodeKey

HOME = "/opt/flatfed"
USER = "flatfed"
SCRIPTS = ("superlink.sh", "superexec.sh", "proxy.sh", "flwr.sh", "register.sh")

FLEET_PATHS = tuple(
    f"/v1/fleet/{name}"
    for name in (
        "activate-node",
        "deactivate-node",
        "send-node-heartbeat",
        "pull-messages",
        "push-messages",
        "get-run",
        "get-fab",
        "push-object",
        "pull-object",
        "confirm-message-received",
    )
)
"""What a registered SuperNode asks for; registering itself is not among it."""

LARGEST_REQUEST = "1g"
SECRET_BYTES = 32
LOCATION = """\
    location = {path} {{
      limit_except POST {{ deny all; }}
      proxy_pass https://superlink{path};
    }}
"""


@dataclass(frozen=True)
class Service:
    """A unit of systemd.

    Args:
        name: the file.
        description: what systemd shows.
        script: what it runs.
        pause: seconds before it is started again.
        after: units that are started before it.
        protect_home: whether people's own folders are hidden from it.
        further: further lines.
    """

    name: str
    description: str
    script: str
    pause: int = 5
    after: str = ""
    protect_home: str = "true"
    further: str = ""


SERVICES = (
    Service("flower-superlink.service", "SuperLink of a flatfed federation", "superlink.sh"),
    Service(
        "flower-superexec.service",
        "SuperExec of a flatfed federation",
        "superexec.sh",
        after=" flower-superlink.service",
    ),
    Service("flatfed-proxy.service", "The sites' door to a flatfed federation", "proxy.sh"),
)


def write_server(
    folder: Path,
    deployment: Deployment,
    authority: Issued,
    server: Issued,
    keys: Mapping[str, NodeKey],
    versions: Mapping[str, str],
) -> None:
    """Write the kit into a new folder."""
    make_folder(folder, PRIVATE_FOLDER)
    write_new(folder / "ca.crt", authority.certificate_text)
    write_new(folder / "server.crt", server.certificate_text)
    write_new(folder / "server.key", server.key_text, PRIVATE)
    write_new(folder / "superexec.secret", secrets.token_hex(SECRET_BYTES), PRIVATE)
    _write_public_keys(make_folder(folder / "keys"), keys)
    values = _values(deployment) | dict(versions)
    for script in SCRIPTS:
        write_new(folder / script, filled(f"server/{script}", values), PROGRAM)
    make_folder(folder / "flower", PRIVATE_FOLDER)
    write_new(make_folder(folder / "proxy") / "nginx.conf", filled("server/nginx.conf", values))
    write_services(folder, f"{HOME}/server", SERVICES)
    write_new(folder / "README.md", filled("server/README.md", values))


def write_services(folder: Path, home: str, services: tuple[Service, ...]) -> None:
    """Write units for scripts that lie in `home`."""
    for service in services:
        values = {
            "home": home,
            "user": USER,
            "unit": service.name,
            "description": service.description,
            "script": service.script,
            "pause": service.pause,
            "after": service.after,
            "protect_home": service.protect_home,
            "further": service.further,
        }
        write_new(folder / service.name, filled("server/unit.service", values))


def _write_public_keys(folder: Path, keys: Mapping[str, NodeKey]) -> None:
    for site, key in keys.items():
        write_new(folder / f"{site}.pub", key.public)


def _values(deployment: Deployment) -> dict[str, object]:
    return {
        "home": f"{HOME}/server",
        "user": USER,
        "inner_port": deployment.inner_port,
        "inner_address": deployment.inner_address,
        "inner_name": INNER_NAME,
        "listened_address": deployment.listened_address,
        "largest_request": LARGEST_REQUEST,
        "locations": "".join(LOCATION.format(path=path) for path in FLEET_PATHS),
        "site_words": " ".join(deployment.sites),
        "site_list": ",".join(deployment.sites),
    }
