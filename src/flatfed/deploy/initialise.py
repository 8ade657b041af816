"""Making a deployment: one folder with the authority, the server's kit, the app, and a kit for every site."""

from __future__ import annotations

from pathlib import Path

from flatfed.core.errors import ConfigError
from flatfed.deploy.app_project import write_app
from flatfed.deploy.authority import make_authority, make_server_certificate, valid_for
from flatfed.deploy.deployment import INNER_NAME, Deployment
from flatfed.deploy.flower_extra import require_flower
from flatfed.deploy.kit_files import PRIVATE, PRIVATE_FOLDER, filled, make_folder, write_new
from flatfed.deploy.manifest import FILE, as_text, describe, installed_versions, public_version
from flatfed.deploy.node_keys import make_node_key
from flatfed.deploy.server_kit import write_server
from flatfed.deploy.site_kit import write_site


def initialise(folder: Path, deployment: Deployment) -> None:
    """Write everything that a federation needs into a new or empty folder."""
    require_flower()
    _take(folder)
    validity = valid_for(deployment.days)
    authority = make_authority(validity)
    hosts = dict.fromkeys((*deployment.hosts, "127.0.0.1", INNER_NAME))
    server = make_server_certificate(authority, list(hosts), validity)
    keys = {site: make_node_key(site) for site in deployment.sites}
    versions = installed_versions()
    pinned = {name: public_version(version) for name, version in versions.items()}
    record = as_text(describe(deployment, authority, server, keys, versions))
    expires = validity.end.date().isoformat()

    write_new(folder / ".gitignore", filled("gitignore", {}))
    write_new(folder / "README.md", filled("README.md", {"site_list": ", ".join(deployment.sites), "expires": expires}))
    write_new(folder / FILE, record)
    drawer = make_folder(folder / "authority", PRIVATE_FOLDER)
    write_new(drawer / "ca.key", authority.key_text, PRIVATE)
    write_new(drawer / "ca.crt", authority.certificate_text)
    write_new(drawer / "README.md", filled("authority-README.md", {"expires": expires}))
    write_app(folder / "app", deployment)
    write_server(folder / "server", deployment, authority, server, keys, pinned)
    write_new(folder / "server" / FILE, record)
    sites = make_folder(folder / "sites", PRIVATE_FOLDER)
    for site, key in keys.items():
        write_site(sites / site, site, deployment, authority, key, pinned)
        write_new(sites / site / FILE, record)


def _take(folder: Path) -> None:
    """Make the folder, or refuse one that holds anything."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; give the name of a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty, and keys are never written over; give the name of a new folder")
