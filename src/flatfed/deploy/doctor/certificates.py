"""Certificates: who issued them, for which hosts, from when to when, and whether they are those that were made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from flatfed.deploy.authority import fingerprint, hosts_of
from flatfed.deploy.deployment import INNER_NAME
from flatfed.deploy.doctor.diagnosis import Diagnosis, fault, warning, well

if TYPE_CHECKING:
    from cryptography import x509

SOON = timedelta(days=30)
AGAIN = "put back the file that `flatfed deploy init` wrote"
RENEW = "issue a new certificate, or make a new deployment"


def check_authority(path: Path, made: str | None) -> Iterator[Diagnosis]:
    """Look at the authority's certificate; `made` is the fingerprint in the record."""
    certificate = _read(path)
    if certificate is None:
        yield fault(path.name, "is missing or no certificate", AGAIN)
        return
    yield check_fingerprint(path.name, fingerprint(certificate), made)
    yield check_dates(path.name, certificate)


def check_server(folder: Path, hosts: Iterable[str], made: str | None) -> Iterator[Diagnosis]:
    """Look at the server's certificate, its key, its hosts and who issued it."""
    name = "server.crt"
    certificate = _read(folder / name)
    if certificate is None:
        yield fault(name, "is missing or no certificate", AGAIN)
        return
    yield check_fingerprint(name, fingerprint(certificate), made)
    yield check_dates(name, certificate)
    yield _check_issuer(name, certificate, _read(folder / "ca.crt"))
    yield _check_hosts(name, certificate, hosts)
    yield _check_key(certificate, folder / "server.key")


def check_dates(name: str, certificate: x509.Certificate) -> Diagnosis:
    """Say whether a certificate is valid now, and for how long."""
    now = datetime.now(UTC)
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < start:
        return fault(name, f"is not valid before {start:%Y-%m-%d %H:%M} UTC", "set this machine's clock, or wait")
    if now > end:
        return fault(name, f"expired on {end:%Y-%m-%d %H:%M} UTC", RENEW)
    if end - now < SOON:
        return warning(name, f"expires on {end:%Y-%m-%d}, in {(end - now).days} days", RENEW)
    return well(name, f"valid until {end:%Y-%m-%d}")


def check_fingerprint(name: str, found: str, made: str | None) -> Diagnosis:
    """Compare a fingerprint with that in the record."""
    if found != made:
        return fault(name, f"is not the one that was made: its fingerprint is {found}", AGAIN)
    return well(name, "its fingerprint is that in deploy.json")


def _read(path: Path) -> x509.Certificate | None:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        return None


def _check_issuer(name: str, certificate: x509.Certificate, authority: x509.Certificate | None) -> Diagnosis:
    from cryptography.exceptions import InvalidSignature

    if authority is None:
        return fault(name, "cannot be compared with ca.crt, which is missing or no certificate", AGAIN)
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return fault(name, "was not issued by the authority in ca.crt", AGAIN)
    return well(name, "issued by the authority in ca.crt")


def _check_hosts(name: str, certificate: x509.Certificate, hosts: Iterable[str]) -> Diagnosis:
    named = hosts_of(certificate)
    missing = [host for host in (*hosts, INNER_NAME) if host not in named]
    if missing:
        return fault(name, f"is not for {', '.join(missing)}", "make a new deployment with --host for each")
    return well(name, f"for {', '.join(host for host in named if host != INNER_NAME)}")


def _check_key(certificate: x509.Certificate, path: Path) -> Diagnosis:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        return fault(path.name, "is missing or no private key", AGAIN)
    if key.public_key() != certificate.public_key():
        return fault(path.name, "does not belong to server.crt", AGAIN)
    return well(path.name, "belongs to server.crt")
