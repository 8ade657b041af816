"""Flower's own program for one message at a node, without the parts of Flower that one message does not need.

Flower starts `flwr-clientapp` anew for every message. The package that holds it first imports the whole SuperNode with
its database and web server, which takes longer than the rest of the program. A kit's `bin/flwr-clientapp` comes here.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType

PACKAGE = "flwr.supernode.cli"


def main() -> None:
    """Run Flower's program; its own package is taken as it lies on disk, without what it imports."""
    folder = find_spec("flwr.supernode")
    if folder is not None and folder.submodule_search_locations is not None:
        bare = ModuleType(PACKAGE)
        bare.__path__ = [f"{place}/cli" for place in folder.submodule_search_locations]
        sys.modules[PACKAGE] = bare
    from flwr.supernode.cli.flwr_clientapp import flwr_clientapp

    flwr_clientapp()
