"""A run: what training returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from flatfed.core.model.layout import BUFFERS, COUNTERS, LOCAL_PARAMETERS
from flatfed.core.round.federation import Federation
from flatfed.engines.choice import Workers
from flatfed.experiments.running.model_metrics import OnClients, measure_clients, measure_tests, statistics_of
from flatfed.runs.directory import RunDirectory
from flatfed.runs.history import History, Row
from flatfed.runs.metrics import describe_metrics, metrics_of, primary_of, summarise


class Run:
    """The result of training: the model, its history and every state, in `model.parameters()` order.

    Attributes:
        status: `finished`, `diverged`, `stopped`, `interrupted` or `failed`; `reason` says why.
        directory: the records in the run directory, or None.
    """

    def __init__(self, federation: Federation, history: History | list[Row], directory: RunDirectory | None) -> None:
        self._federation = federation
        self._layout = federation.task.layout()
        self._history = history
        self.directory = directory

    @property
    def history(self) -> list[Row]:
        """One dictionary per round."""
        if isinstance(self._history, History):
            return self._history.rows
        return self._history

    @property
    def path(self) -> Path | None:
        """The run directory, or None."""
        return None if self.directory is None else self.directory.path

    @property
    def round(self) -> int:
        """How many rounds the model has behind it; fewer than the history where a checkpoint was passed over."""
        return self._federation.round

    @property
    def status(self) -> str:
        """How the run ended."""
        return self._federation.status

    @property
    def reason(self) -> str:
        """Why it ended so, if there is something to say."""
        return self._federation.reason

    @property
    def vector(self) -> Tensor:
        """The final global parameters, flat, in `model.parameters()` order."""
        return self._layout.to_public(self._federation.server.w)

    @property
    def eval_vector(self) -> Tensor:
        """What is evaluated: equal to `vector` unless an average is on; metrics of `vector` are then `global_...`."""
        return self._layout.to_public(self._federation.evaluated)

    @property
    def server_state(self) -> dict[str, Any]:
        """What the server keeps: flat tensors in public order, and numbers."""
        federation, average = self._federation, self._federation.average
        kept = federation.server.kept.tensors()
        if average is not None:
            kept |= {f"{average.id}_{name}": tensor for name, tensor in federation.average_kept.tensors().items()}
        return {name: self._public(tensor) for name, tensor in kept.items()}

    def client_state(self, client: int) -> dict[str, Any]:
        """Return what a client keeps between rounds (its initial state if it never took part)."""
        if not 0 <= client < self._federation.task.population:
            raise IndexError(f"there is no client {client}; they are 0 to {self._federation.task.population - 1}")
        kept = self._federation.clients.read(client).tensors()
        state = {name: self._public(tensor) for name, tensor in kept.items()}
        if LOCAL_PARAMETERS in kept:
            state[LOCAL_PARAMETERS] = self._layout.local_to_public(kept[LOCAL_PARAMETERS])
        return state

    def model(self) -> nn.Module:
        """Return a copy of the task's model with the evaluated parameters and buffers."""
        federation = self._federation
        model = federation.task.fresh_model(federation.settings.torch_dtype)
        # Local layers are those of the initial model, for the server has none.
        full = self._layout.read(model)
        full[: len(federation.server.w)] = federation.evaluated
        self._layout.write(full, model)
        vectors = self._layout.read_buffers(model, federation.settings.torch_dtype)
        statistics = statistics_of(federation)
        for vector, name in zip(vectors, (BUFFERS, COUNTERS), strict=True):
            shared = statistics.get(name, vector[:0])
            vector[: len(shared)] = shared
        self._layout.write_buffers(*vectors, model)
        return model

    def metrics(self, workers: Workers = 0) -> dict[str, Any]:
        """Return the metrics of the evaluated model on every test set; they do not depend on the workers.

        Where an average is evaluated and differs from the global model, the latter's stand beside: `global_accuracy`.
        """
        return measure_tests(self._federation, workers)

    def client_metrics(
        self, workers: Workers = 0, on_clients: OnClients = lambda done, total: None
    ) -> list[dict[str, Any]]:
        """Return loss and accuracy of the evaluated model on each client's own examples.

        Where parts of the model stay on the clients, each is measured with its own, in this process. A client with a
        single example has no metrics where BatchNorm would need its batch's statistics. `on_clients` is called with how
        many clients are done, of how many.
        """
        return measure_clients(self._federation, workers, on_clients)

    figures = metrics
    client_figures = client_metrics
    """The names that these two had before."""

    @property
    def summary(self) -> dict[str, Any]:
        """Final, last-n mean and best of each metric, cost and status."""
        settings, about = self._federation.settings, describe_metrics(self._federation.task)
        metrics = summarise(self.history, settings.rounds, settings.evaluate_last, about)
        return metrics | {"status": self.status, "reason": self.reason}

    def _public(self, tensor: Tensor) -> Any:
        if tensor.ndim == 0:
            return float(tensor)
        sizes = (self._layout.size, self._layout.shared)
        # Told by type and length: counters and windows of numbers are not in a model's order.
        if tensor.dtype == self._federation.server.w.dtype and tensor.shape[-1] in sizes:
            flat = tensor.reshape(-1, tensor.shape[-1])
            public = torch.stack([self._layout.to_public(row) for row in flat])
            return public.reshape(*tensor.shape[:-1], -1)
        return tensor.clone()

    def __repr__(self) -> str:
        about = describe_metrics(self._federation.task)
        metric = primary_of(metrics_of(self.history, about), about)
        value = self.summary.get(f"{metric.stem}_final")
        shown = f", {metric.label} {value:.4f}" if value is not None else ""
        return f"<Run {self._federation.algorithm.id}: {self.status}, {len(self.history)} rounds{shown}>"
