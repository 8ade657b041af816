"""The whole examination: of a deployment, of the server's folder, or of one site's."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from flatfed.core.errors import ConfigError
from flatfed.deploy.doctor.certificates import check_authority, check_server
from flatfed.deploy.doctor.connection import check_connection
from flatfed.deploy.doctor.diagnosis import Diagnosis, warning, well
from flatfed.deploy.doctor.identities import check_folder, check_pair, check_registered, check_secret
from flatfed.deploy.doctor.surroundings import check_programs, check_room, check_versions
from flatfed.deploy.flower_extra import require_flower
from flatfed.deploy.manifest import FILE, read_manifest

SERVER_PROGRAMS = ("flower-superlink", "flower-superexec", "flwr", "flwr-serverapp", "nginx")
SITE_PROGRAMS = ("flower-supernode", "flower-superexec", "flwr-clientapp")


def examine(folder: Path) -> list[Diagnosis]:
    """Return what is well and what is not in a folder that `flatfed deploy init` made, or in a part of it."""
    require_flower()
    record = read_manifest(folder)
    if (folder / "supernode.sh").exists():
        return list(_site(folder, record))
    if (folder / "superlink.sh").exists():
        return list(_server(folder, record))
    if (folder / "server").is_dir():
        return list(_whole(folder, record))
    raise ConfigError(f"{folder} has {FILE} but neither scripts of a server nor of a site; put it back as it was")


def _whole(folder: Path, record: dict[str, Any]) -> Iterator[Diagnosis]:
    """Look at everything that can be judged on the machine where a deployment was made."""
    yield from check_versions(record["versions"])
    yield check_room(folder)
    yield _check_drawer(folder / "authority")
    yield from _about("server", _server_files(folder / "server", record))
    yield from _about("server", check_connection(record["address"], folder / "server" / "ca.crt", expected=False))
    for site in record["sites"]:
        kit = folder / "sites" / site
        if kit.is_dir():
            yield from _about(site, _site_files(kit, site, record))


def _server(folder: Path, record: dict[str, Any]) -> Iterator[Diagnosis]:
    yield from check_versions(record["versions"])
    yield from check_programs(folder, SERVER_PROGRAMS)
    yield check_room(folder)
    yield from _server_files(folder, record)
    yield from check_connection(record["address"], folder / "ca.crt", expected=False)


def _site(folder: Path, record: dict[str, Any]) -> Iterator[Diagnosis]:
    yield from check_versions(record["versions"])
    yield from check_programs(folder, SITE_PROGRAMS)
    yield check_room(folder)
    yield from _site_files(folder, _name_of(folder), record)
    yield from check_connection(record["address"], folder / "ca.crt", expected=True)
    yield from _check_data(folder / "site.yaml")


def _server_files(folder: Path, record: dict[str, Any]) -> Iterator[Diagnosis]:
    made = record["certificates"]
    yield check_folder(folder)
    yield from check_authority(folder / "ca.crt", made.get("authority"))
    yield from check_server(folder, record["hosts"], made.get("server"))
    yield check_secret(folder / "server.key")
    yield check_secret(folder / "superexec.secret")
    yield from check_registered(folder / "keys", record["sites"])


def _site_files(folder: Path, site: str, record: dict[str, Any]) -> Iterator[Diagnosis]:
    yield check_folder(folder)
    yield from check_authority(folder / "ca.crt", record["certificates"].get("authority"))
    yield check_secret(folder / "node.key")
    yield from check_pair(folder, site, record["sites"])


def _check_drawer(folder: Path) -> Diagnosis:
    """Say whether the authority's key is still here."""
    if (folder / "ca.key").exists():
        return warning("authority", "its key is still here", f"move {folder} offline")
    return well("authority", "its key is not here")


def _check_data(path: Path) -> Iterator[Diagnosis]:
    """Look at the site's data, as `flatfed site check` does."""
    try:
        module = importlib.import_module("flatfed.site.check")
    except ModuleNotFoundError:
        yield warning("data", "not available: this flatfed cannot look at a site's data", "install a newer flatfed")
        return
    for found in module.check_site(path):
        fix = (
            "" if found.state == "ok" else f"edit {path.name}; look again with: flatfed site check --config {path.name}"
        )
        yield Diagnosis(found.state, f"site: {found.what}", found.text, fix)


def _name_of(folder: Path) -> str:
    """Return the site's name as its `site.yaml` gives it; empty where there is none."""
    import yaml

    try:
        config = yaml.safe_load((folder / "site.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return ""
    name = config.get("site") if isinstance(config, dict) else None
    return name if isinstance(name, str) else ""


def _about(owner: str, found: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
    """Yield what was found with the word whose it is."""
    for diagnosis in found:
        yield dataclasses.replace(diagnosis, subject=f"{owner}: {diagnosis.subject}")
