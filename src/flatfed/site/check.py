"""What a site would train on, and whether it is ready. Nothing leaves the machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from flatfed import __version__, models
from flatfed.core.errors import FlatfedError
from flatfed.core.model.devices import find_device
from flatfed.outside.source_hashes import sources_of
from flatfed.runs.fingerprints import arithmetic_fingerprint, code_fingerprint
from flatfed.runs.records.files import is_writable
from flatfed.site.config import Site, read_site
from flatfed.site.data import SiteData, load_data

LITTLE_DISK = 1 << 30


@dataclass(frozen=True)
class SiteFinding:
    """One thing that was looked at."""

    what: str
    state: Literal["ok", "warning", "fault"]
    text: str


def check_site(file: Path, read: Callable[[], Site] | None = None) -> list[SiteFinding]:
    """Look at a site's file, data, folder and limits; `read` reads it with what was typed in place of the file's."""
    try:
        site = read_site(file) if read is None else read()
    except FlatfedError as error:
        return [SiteFinding("configuration", "fault", str(error))]
    findings = [_places(site), *_data(site), *_parts(site), *_folder(site)]
    findings.append(SiteFinding("flatfed", "ok", f"{__version__}, code {code_fingerprint()}"))
    arithmetic = ", ".join(f"{name} {value}" for name, value in arithmetic_fingerprint().items())
    findings.append(SiteFinding("arithmetic", "ok", arithmetic))
    return findings


def _places(site: Site) -> SiteFinding:
    """Look at what is used only later: the socket when the site listens, the device when a client is trained."""
    try:
        text = f"site {site.name}, socket {site.socket}"
        find_device(site.config.device)
    except FlatfedError as error:
        return SiteFinding("configuration", "fault", str(error))
    return SiteFinding("configuration", "ok", text)


def _data(site: Site) -> list[SiteFinding]:
    try:
        data = load_data(site)
        facts: dict[str, Any] = dict(data.pool.facts)
        model = models.build(data.pool.default_model, data.pool.classes, **facts)
    except FlatfedError as error:
        return [SiteFinding("data", "fault", str(error))]
    size = sum(parameter.numel() for parameter in model.parameters())
    return [
        SiteFinding("data", "ok", _described(data)),
        SiteFinding("model", "ok", f"{data.pool.default_model} unless the server names another, {size:,} parameters"),
        _limits(site, data),
    ]


def _described(data: SiteData) -> str:
    pool = data.pool
    classes = np.bincount(pool.labels.numpy(), minlength=pool.classes)
    names = pool.class_names or [str(number) for number in range(pool.classes)]
    by_class = ", ".join(f"{name} {count}" for name, count in zip(names, classes, strict=True))
    return (
        f"{pool.name}: {sum(data.counts):,} training examples in {len(data.counts)} client(s), {len(pool.test):,} test "
        f"examples; by class: {by_class}; {', '.join(f'{name} {value}' for name, value in pool.facts.items())}"
    )


def _limits(site: Site, data: SiteData) -> SiteFinding:
    fewest = min(data.counts)
    if fewest < site.limits.min_examples:
        text = f"a client has {fewest} examples, below limits.min_examples={site.limits.min_examples}: no run is taken"
        return SiteFinding("limits", "fault", text)
    allowed = site.limits.methods or "any"
    return SiteFinding("limits", "ok", f"methods {allowed}, requests up to {site.limits.largest_message} MB")


def _parts(site: Site) -> list[SiteFinding]:
    """Look at the code from outside that the server may name: read, and not imported."""
    return [_part(path, approved) for path, approved in sorted(site.limits.named.items())]


def _part(path: str, approved: str | None) -> SiteFinding:
    found = sources_of(path.partition(":")[0])
    if found.sha256 is None:
        return SiteFinding("part", "fault", f"{path} is not found; start where it lies, or set PYTHONPATH")
    text = f"{path} has the hash {found.digest}, of {', '.join(sorted(map(str, found.files.values())))}"
    if approved is None:
        return SiteFinding("part", "fault", f"{text}; look at these files, and write it into limits.parts to approve")
    if approved != found.digest:
        return SiteFinding("part", "fault", f"{text}, and limits.parts approves {approved}")
    return SiteFinding("part", "ok", text)


def _folder(site: Site) -> list[SiteFinding]:
    if not is_writable(site.folder):
        return [SiteFinding("folder", "fault", f"{site.folder} cannot be written; change its owner, or name another")]
    place = site.folder if site.folder.exists() else site.home
    free = shutil.disk_usage(place).free
    state: Literal["ok", "warning"] = "ok" if free > LITTLE_DISK else "warning"
    return [SiteFinding("folder", state, f"{site.folder}, {free / 2**30:.1f} GB free")]
