"""The extra that a federation needs: Flower, and the package that makes certificates and keys."""

from __future__ import annotations

import importlib.util

from flatfed.core.errors import ConfigError

PACKAGES = ("cryptography", "flwr")


def require_flower() -> None:
    """Refuse to go on where a package of the extra is missing."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"a federation needs the package {' and '.join(missing)}; install with: pip install 'flatfed[flower]'"
        )
