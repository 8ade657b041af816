"""Keys of sites, and secrets: who can read them, whether halves belong together, and whether two sites share one."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from flatfed.deploy.doctor.certificates import AGAIN, check_fingerprint
from flatfed.deploy.doctor.diagnosis import Diagnosis, fault, well
from flatfed.deploy.node_keys import public_fingerprint, public_half, without_comment

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_secret(path: Path) -> Diagnosis:
    """Say whether nobody but the owner can open a secret file."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return fault(path.name, "is missing", AGAIN)
    if mode & OTHERS:
        return fault(path.name, f"can be opened by others (mode {mode:o})", f"chmod 600 {path}")
    return well(path.name, "can be opened by its owner alone")


def check_folder(path: Path) -> Diagnosis:
    """Say whether nobody but the owner can enter a folder with secrets."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & OTHERS:
        return fault("folder", f"{path.name} can be entered by others (mode {mode:o})", f"chmod 700 {path}")
    return well("folder", "can be entered by its owner alone")


def check_pair(folder: Path, site: str, sites: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Look at the two halves of a site's key; `sites` are the fingerprints in the record."""
    private, public = folder / "node.key", folder / "node.key.pub"
    try:
        half = public_half(private.read_bytes())
        written = public.read_bytes()
        mark = public_fingerprint(written)
    except (OSError, ValueError):
        yield fault("node.key", "or its public half is missing or no key", AGAIN)
        return
    if half != without_comment(written):
        yield fault("node.key", "and node.key.pub do not belong together", AGAIN)
    else:
        yield well("node.key", "and node.key.pub belong together")
    owners = [name for name, made in sites.items() if made == mark and name != site]
    if owners:
        yield fault("node.key.pub", f"is the key of {owners[0]}, not of {site or 'this site'}", AGAIN)
    else:
        yield check_fingerprint("node.key.pub", mark, sites.get(site))


def check_registered(folder: Path, sites: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Look at the public keys that the server registers: each as it was made, and no two the same."""
    holders: dict[str, list[str]] = {}
    for site, made in sites.items():
        path = folder / f"{site}.pub"
        try:
            mark = public_fingerprint(path.read_bytes())
        except (OSError, ValueError):
            yield fault(path.name, "is missing or no public key", AGAIN)
            continue
        holders.setdefault(mark, []).append(site)
        yield check_fingerprint(path.name, mark, made)
    yield check_distinct(holders)


def check_distinct(holders: Mapping[str, list[str]]) -> Diagnosis:
    """Say whether each site has a key of its own; `holders` are the sites by the fingerprint of their key."""
    for sites in holders.values():
        if len(sites) > 1:
            return fault("keys", f"{' and '.join(sites)} have the same key", "make a key for each; a node is its key")
    return well("keys", "each site has its own")
