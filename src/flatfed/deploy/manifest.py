"""`deploy.json`: what was made, when, with which versions, and fingerprints to compare."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from flatfed.core.errors import ConfigError
from flatfed.deploy.authority import Issued, fingerprint
from flatfed.deploy.deployment import Deployment
from flatfed.deploy.node_keys import NodeKey

FILE = "deploy.json"
FORMAT = 1
PACKAGES = ("flatfed", "flwr", "torch")


def installed_versions() -> dict[str, str]:
    """Return the versions of the packages on which server and sites must agree; a missing one is left out."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            if name == "flatfed":
                from flatfed import __version__

                versions[name] = __version__
    return versions


def public_version(version: str) -> str:
    """Return a version without its build: 2.13.0 of 2.13.0+cpu."""
    return version.partition("+")[0]


def describe(
    deployment: Deployment, authority: Issued, server: Issued, keys: Mapping[str, NodeKey], versions: Mapping[str, str]
) -> dict[str, Any]:
    """Return the record of a deployment; nothing in it is secret."""
    return {
        "format": FORMAT,
        "versions": dict(versions),
        "hosts": list(deployment.hosts),
        "address": deployment.address,
        "port": deployment.port,
        "superlink_port": deployment.inner_port,
        "made": authority.certificate.not_valid_before_utc.isoformat(),
        "expires": server.certificate.not_valid_after_utc.isoformat(),
        "certificates": {
            "authority": fingerprint(authority.certificate),
            "server": fingerprint(server.certificate),
        },
        "sites": {site: key.fingerprint for site, key in keys.items()},
    }


def as_text(record: Mapping[str, Any]) -> str:
    """Return a record as the file holds it."""
    return json.dumps(record, indent=2) + "\n"


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the record in a folder, or an error that says what is wrong with it."""
    path = folder / FILE
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"{folder} is no deployment: it has no {FILE}; give the folder that `flatfed deploy init` made, or a site's"
        ) from None
    except ValueError:
        raise ConfigError(f"{path} is no JSON; put it back as it was") from None
    if not _is_whole(record):
        raise ConfigError(f"{path} is not what `flatfed deploy init` of this version writes; put it back as it was")
    return dict(record)


def _is_whole(record: Any) -> bool:
    """Say whether a record has everything that is read from it."""
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        return False
    kinds = {
        "versions": dict,
        "hosts": list,
        "address": str,
        "superlink_port": int,
        "certificates": dict,
        "sites": dict,
    }
    return all(isinstance(record.get(name), kind) for name, kind in kinds.items())
