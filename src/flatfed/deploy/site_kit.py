"""A site's kit: its key, the authority's certificate, the site process, the SuperNode, and services for both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from flatfed.deploy.authority import Issued, fingerprint
from flatfed.deploy.deployment import Deployment
from flatfed.deploy.kit_files import PRIVATE, PRIVATE_FOLDER, PROGRAM, filled, make_folder, write_new
from flatfed.deploy.node_keys import NodeKey
from flatfed.deploy.server_kit import HOME, USER, Service, write_services

NODE_PAUSE = 70
"""Seconds before a SuperNode is started again: for 60 the SuperLink takes a killed one for online, and refuses it."""

HIDE_DATA = """\
# A run's app is code that comes from the server and runs here. Hide the data from it; only the site process reads them:
# InaccessiblePaths=/where/the/data/lie
"""

SERVICES = (
    Service("flatfed-site.service", "Site process of a flatfed federation", "site.sh", protect_home="read-only"),
    Service(
        "flower-supernode.service",
        "SuperNode of a flatfed federation",
        "supernode.sh",
        pause=NODE_PAUSE,
        after=" flatfed-site.service",
        further=HIDE_DATA,
    ),
)


def write_site(
    folder: Path, site: str, deployment: Deployment, authority: Issued, key: NodeKey, versions: Mapping[str, str]
) -> None:
    """Write the kit of one site into a new folder."""
    make_folder(folder, PRIVATE_FOLDER)
    write_new(folder / "node.key", key.private, PRIVATE)
    write_new(folder / "node.key.pub", key.public)
    write_new(folder / "ca.crt", authority.certificate_text)
    home = f"{HOME}/{site}"
    values: dict[str, object] = {
        "site": site,
        "home": home,
        "user": USER,
        "address": deployment.address,
        "node_port": deployment.node_port(site),
        "fingerprint": key.fingerprint,
        "authority_fingerprint": fingerprint(authority.certificate),
    }
    values |= versions
    for script in ("supernode.sh", "site.sh"):
        write_new(folder / script, filled(f"site/{script}", values), PROGRAM)
    programs = make_folder(folder / "bin", PRIVATE_FOLDER)
    write_new(programs / "flwr-clientapp", filled("site/flwr-clientapp", values), PROGRAM)
    write_new(folder / "site.yaml", filled("site/site.yaml", values))
    write_new(folder / "README.md", filled("site/README.md", values))
    write_services(folder, home, SERVICES)
