"""What a deployment is made of: its sites' names, the server's hosts and ports, and how long certificates last."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from flatfed.core.errors import ConfigError

HOSTS = ("127.0.0.1", "localhost")
"""The hosts of a trial on one machine."""

INNER_NAME = "superlink.flatfed.internal"
"""The name by which the proxy checks the SuperLink's certificate; no site uses it."""

PORT = 8000
DAYS = 365
MOST_DAYS = 3650
FIRST_NODE_PORT = 9094
HIGHEST_PORT = 65535
SITE_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?:\.(?!-)[A-Za-z0-9-]{1,63})*")


@dataclass(frozen=True)
class Deployment:
    """A federation that is to be deployed.

    Args:
        sites: the names of the organisations.
        hosts: names and addresses by which the sites reach the server; the first is written into their scripts.
        port: the server's port for the sites, which passes the Fleet API alone.
        superlink_port: the port of the SuperLink itself, on the server's loopback interface; None: the next one.
        days: for how long certificates are valid.
    """

    sites: tuple[str, ...]
    hosts: tuple[str, ...] = HOSTS
    port: int = PORT
    superlink_port: int | None = None
    days: int = DAYS

    def __post_init__(self) -> None:
        _check_sites(self.sites)
        for host in self.hosts:
            _check_host(host)
        _check_port(self.port, "the port")
        _check_port(self.inner_port, "the port of the SuperLink")
        if self.inner_port == self.port:
            raise ConfigError(f"the sites' port and the SuperLink's own are both {self.port}; give two ports")
        if not 1 <= self.days <= MOST_DAYS:
            raise ConfigError(f"the certificates' days must be between 1 and {MOST_DAYS}, not {self.days}")

    @property
    def inner_port(self) -> int:
        """The port on which the SuperLink itself listens."""
        if self.superlink_port is None:
            return self.port + 1
        return self.superlink_port

    @property
    def inner_address(self) -> str:
        """Where programs of the server's machine find the SuperLink."""
        return f"127.0.0.1:{self.inner_port}"

    @property
    def address(self) -> str:
        """Where the sites find the server."""
        host = self.hosts[0]
        if _is_v6(host):
            host = f"[{host}]"
        return f"{host}:{self.port}"

    @property
    def listened_address(self) -> str:
        """Where the proxy listens: on the loopback interface in a trial, on every interface otherwise."""
        local = all(is_loopback(host) for host in self.hosts)
        if any(_is_v6(host) for host in self.hosts):
            return f"[::1]:{self.port}" if local else f"[::]:{self.port} ipv6only=off"
        return f"127.0.0.1:{self.port}" if local else str(self.port)

    def node_port(self, site: str) -> int:
        """Return the port for a SuperNode's own processes, another one per site: all may run on one machine."""
        return FIRST_NODE_PORT + self.sites.index(site)


def as_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return a host as an IP address, or None where it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Say whether a host is this machine."""
    address = as_address(host)
    if address is None:
        return host == "localhost"
    return address.is_loopback


def _is_v6(host: str) -> bool:
    return isinstance(as_address(host), ipaddress.IPv6Address)


def _check_sites(sites: tuple[str, ...]) -> None:
    if not sites:
        raise ConfigError("a federation needs at least one site; give --sites hospital-a,hospital-b")
    for site in sites:
        if not SITE_NAME.fullmatch(site):
            raise ConfigError(
                f"the site's name {site!r} cannot be used; write small letters, digits and hyphens, such as hospital-a"
            )
    repeated = sorted({site for site in sites if sites.count(site) > 1})
    if repeated:
        raise ConfigError(f"the site {repeated[0]!r} is named twice; give each a name of its own")


def _check_host(host: str) -> None:
    if as_address(host) is None and not HOST_NAME.fullmatch(host):
        raise ConfigError(f"{host!r} is neither a host name nor an IP address; write such as fed.example.org")


def _check_port(port: int, what: str) -> None:
    if not 1 <= port <= HIGHEST_PORT:
        raise ConfigError(f"{what} must be between 1 and {HIGHEST_PORT}, not {port}")
