"""A site's own file, `site.yaml`: its name, its data, where it keeps things, and what it allows.

site: hospital-a
data: table
data_options: {path: patients.csv, classes: 2}
folder: state
socket: site.sock
limits: {methods: [fedavg, scaffold], min_examples: 50}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.core.configuration.checking import Count
from flatfed.core.configuration.config import Config, build
from flatfed.core.configuration.values import read_yaml
from flatfed.core.errors import ConfigError
from flatfed.machine import read_regular
from flatfed.outside.named_parts import PATH

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
HASH = re.compile(r"[0-9a-f]{64}")
MEGABYTE = 1 << 20
LONGEST_SOCKET = 100
"""Characters of a socket's path: the system takes about 108."""


class Limits(Config):
    """What a site allows a server to ask for."""

    methods: object = ()
    """The ids of the methods that may be used, such as fedavg; nothing is any."""
    models: object = ()
    """Models of the site's own code that may be used (`package.module:Net`, or the id of one of an installed package);
    those of flatfed need no permission."""
    parts: object = None
    """Methods, client optimisers and schedules from outside flatfed that may be used: `package.module:Method: HASH`."""
    code: object = ()
    """Fingerprints of flatfed that may be used, as `flatfed site check` prints them; nothing is any."""
    largest_message: Count = 1024
    """Megabytes of a request, at most."""
    min_batch: Count = 1
    """Examples of a training batch, at least: the update of a few examples tells much of them."""
    min_examples: Count = 1
    """Examples of a client, at least."""
    rounds_per_day: Count | None = None
    """Requests for training of a day (UTC), at most; a method with two exchanges makes two in a round."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("methods", "models", "code"):
            object.__setattr__(self, name, _words(name, getattr(self, name)))
        object.__setattr__(self, "parts", _hashes(self.parts))

    @property
    def named(self) -> dict[str, str | None]:
        """The parts from outside by import path, with the hashes that were approved; None where none is yet."""
        assert isinstance(self.parts, dict)
        return self.parts

    @property
    def approved(self) -> dict[str, str]:
        """The parts from outside that may be used."""
        return {path: approved for path, approved in self.named.items() if approved is not None}

    @property
    def largest_bytes(self) -> int:
        """Bytes of a request, at most."""
        return self.largest_message * MEGABYTE


def _words(name: str, value: Any) -> tuple[str, ...]:
    """Return a list of words."""
    if value is None:
        return ()
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise ConfigError(f"limits: {name} must be a list of words, not {value!r:.60}")
    return tuple(value)


def _hashes(value: Any) -> dict[str, str | None]:
    """Return import paths with the hashes of their code, or None."""
    entries = {} if value is None else value
    if not isinstance(entries, dict):
        raise ConfigError("limits: parts must hold `package.module:Name: HASH` lines")
    for path, approved in entries.items():
        if not isinstance(path, str) or not PATH.fullmatch(path):
            raise ConfigError(f"limits: parts: {path!r:.80} is no import path such as package.module:Name")
        if approved is not None and not (isinstance(approved, str) and HASH.fullmatch(approved)):
            raise ConfigError(
                f"limits: parts: {approved!r:.80} is no hash of {path}, which has 64 digits; leave it empty, and "
                "`flatfed site check` shows it"
            )
    return dict(entries)


class SiteConfig(Config):
    """What a site is; paths are as seen from the folder of its file."""

    site: str
    data: str
    data_options: object = None
    data_dir: str | None = None
    partition: str | None = None
    """How the site's examples are divided among clients of its own; None is one client with all of them."""
    clients: Count | None = None
    folder: str = "state"
    socket: str = "site.sock"
    device: str = "cpu"
    limits: object = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not NAME.fullmatch(self.site):
            raise ConfigError(f"site: {self.site!r:.60} must be lower-case letters, digits and hyphens")
        object.__setattr__(self, "data_options", _mapping("data_options", self.data_options))
        object.__setattr__(self, "limits", build(Limits, _mapping("limits", self.limits)))


def _mapping(name: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ConfigError(f"{name} must hold `name: value` lines")
    return value


@dataclass(frozen=True)
class Site:
    """A site's configuration with the places of its files."""

    config: SiteConfig
    home: Path
    """The folder from which its paths are seen."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.config.site

    @property
    def limits(self) -> Limits:
        """What it allows."""
        assert isinstance(self.config.limits, Limits)
        return self.config.limits

    @property
    def data_options(self) -> Mapping[str, Any]:
        """The options of its data source."""
        assert isinstance(self.config.data_options, dict)
        return self.config.data_options

    @property
    def folder(self) -> Path:
        """Where states, models and the audit log lie."""
        return self.home / self.config.folder

    @property
    def socket(self) -> Path:
        """Where it listens."""
        path = self.home / self.config.socket
        if len(str(path)) > LONGEST_SOCKET:
            raise ConfigError(
                f"the path of the socket, {path}, is too long; name a shorter one, such as /run/site.sock"
            )
        return path


def read_site(file: Path, **changes: Any) -> Site:
    """Return the site of a file; `changes` are typed on the command line and go before it.

    Where name and data are typed, the file need not be there.
    """
    given = {name: value for name, value in changes.items() if value is not None}
    content: dict[str, Any] = {}
    if file.exists() or not {"site", "data"} <= given.keys():
        content = _mapping(str(file), _content(file))
    return site_of(content | given, file.absolute().parent, str(file))


def _content(file: Path) -> Any:
    try:
        return read_yaml(read_regular(file).decode("utf-8"))
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"{file}: {reason}; write it, or make one with `flatfed deploy init`") from None
    except (ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not YAML that can be used: {error}") from None


def site_of(content: Mapping[str, Any], home: Path, label: str) -> Site:
    """Return the site that is described."""
    for name in ("site", "data"):
        if name not in content:
            raise ConfigError(f"{label} lacks {name}")
    try:
        return Site(build(SiteConfig, content), home)
    except ConfigError as error:
        raise error.within(label) from None
