"""The server's rate: a factor on the step that a method makes."""

from __future__ import annotations

import dataclasses

from flatfed.core.configuration.checking import Positive
from flatfed.core.method.algorithm import Algorithm, Ask
from flatfed.core.method.server import Server


class ServerRate(Algorithm):
    """A factor on the whole step of the server, whatever the method makes it of.

        w <- w + server_lr * (step of the method)               1: as it is, bit for bit

    What the server and the clients keep is not scaled.
    """

    server_lr: Positive = dataclasses.field(default=1.0, kw_only=True)

    def advance(self, server: Server, ask: Ask) -> None:
        """Play the round and scale its step."""
        # Not through the formula: adding and taking off the model again would change the last bits.
        if self.server_lr == 1:
            super().advance(server, ask)
            return
        before = server.w.clone()
        super().advance(server, ask)
        server.w = before + self.server_lr * (server.w - before)
