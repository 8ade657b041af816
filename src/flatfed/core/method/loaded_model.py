"""One model, into which the parameters and buffers of any client, or of the server, are put."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.method.state import State
from flatfed.core.model.devices import find_device
from flatfed.core.model.layout import BUFFERS, COUNTERS, LOCAL_BUFFERS, LOCAL_COUNTERS, LOCAL_PARAMETERS
from flatfed.core.model.oracle import Oracle
from flatfed.core.task.task import Task

NOTHING = State({})


class LoadedModel:
    """The model of a process: its oracle, and what is written into its parameters and buffers."""

    def __init__(self, task: Task, settings: Settings) -> None:
        self.oracle = Oracle(task, settings.torch_dtype, find_device(settings.device))
        self.layout = self.oracle.layout
        self._own_start = self.oracle.w[self.layout.shared :].clone()

    def show(self, w: Tensor, buffers: Mapping[str, Tensor], kept: State = NOTHING) -> None:
        """Put the model into inference mode, with these parameters and buffers and the local layers that are kept.

        Where none are kept, local layers are the initial ones.
        """
        self.oracle.w[: self.layout.shared] = w
        own = getattr(kept, LOCAL_PARAMETERS) if LOCAL_PARAMETERS in kept else self._own_start
        self.oracle.w[self.layout.shared :] = own
        self.write_buffers(buffers, kept)
        self.oracle.model.eval()

    def write_buffers(self, received: Mapping[str, Tensor], kept: State) -> None:
        """Give every buffer its value: received, kept by the client, or as in the initial model."""
        # Also those that no message holds, such as transient ones: the client before may have changed them.
        self.oracle.reset_buffers()
        if not (self.layout.buffers or self.layout.counters):
            return
        buffers, counters = (flat.clone() for flat in self.oracle.initial_buffers)
        for flat, name, local in ((buffers, BUFFERS, LOCAL_BUFFERS), (counters, COUNTERS, LOCAL_COUNTERS)):
            if name in received:  # the shared part, which comes first; or all, when they have been calibrated
                flat[: len(received[name])] = received[name]
            if local in kept:
                own = getattr(kept, local)
                flat[len(flat) - len(own) :] = own
        self.layout.write_buffers(buffers, counters, self.oracle.model)

    def read_buffers(self) -> tuple[Tensor, Tensor]:
        """Return the model's real buffers and its counters, each as one vector."""
        return self.layout.read_buffers(self.oracle.model, self.oracle.dtype)
