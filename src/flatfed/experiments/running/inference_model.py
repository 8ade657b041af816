"""The model of a federation as a module in inference mode: parameters, statistics, and a client's own layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from torch import Tensor, nn

from flatfed.core.errors import PARAMETER, ConfigError
from flatfed.core.method.state import State
from flatfed.core.model.layout import (
    BUFFERS,
    COUNTERS,
    LOCAL_BUFFERS,
    LOCAL_COUNTERS,
    LOCAL_PARAMETERS,
    Layout,
)
from flatfed.core.round.federation import Federation
from flatfed.experiments.running.model_metrics import statistics_of

Weights = Literal["evaluated", "global"]
WEIGHTS: tuple[Weights, ...] = ("evaluated", "global")

NOTHING = State({})


def inference_model(federation: Federation, weights: Weights = "evaluated", client: int | None = None) -> nn.Module:
    """Return a copy of the task's model in inference mode, with a client's own layers where one is named.

    Otherwise local layers are those of the initial model, for the server has none.
    """
    w = weights_of(federation, weights)
    layout, dtype = federation.task.layout(), federation.settings.torch_dtype
    kept = kept_by(federation, client)
    model = federation.task.fresh_model(dtype)
    full = layout.read(model)
    full[: len(w)] = w
    _put_end(full, kept, LOCAL_PARAMETERS)
    layout.write(full, model)
    _write_buffers(model, layout, layout.read_buffers(model, dtype), statistics_of(federation, w), kept)
    return model.eval()


def weights_of(federation: Federation, weights: Weights) -> Tensor:
    """Return the parameters that are meant; any other word is an error."""
    if weights not in WEIGHTS:
        raise ConfigError(f"weights must be 'evaluated' or 'global', not {weights!r}")
    return federation.evaluated if weights == "evaluated" else federation.server.w


def kept_by(federation: Federation, client: int | None) -> State:
    """Return what a client keeps, nothing for None; one that keeps no part of the model here is an error."""
    if client is None:
        return NOTHING
    population = federation.task.population
    if isinstance(client, bool) or not isinstance(client, int) or not 0 <= client < population:
        raise ConfigError(
            f"{PARAMETER}: there is no client {client}; they are 0 to {population - 1}", parameter="client"
        )
    kept = federation.clients.read(client)
    if not any(name in kept for name in (LOCAL_PARAMETERS, LOCAL_BUFFERS, LOCAL_COUNTERS)):
        raise ConfigError(
            f"{PARAMETER}: no part of the model that stays on client {client} is here; leave it out", parameter="client"
        )
    return kept


def _write_buffers(
    model: nn.Module,
    layout: Layout,
    vectors: tuple[Tensor, Tensor],
    statistics: Mapping[str, Tensor],
    kept: State,
) -> None:
    """Give each buffer its value: the server's, the client's own, or as in the initial model."""
    names = (BUFFERS, LOCAL_BUFFERS), (COUNTERS, LOCAL_COUNTERS)
    for vector, (name, local) in zip(vectors, names, strict=True):
        shared = statistics.get(name, vector[:0])
        vector[: len(shared)] = shared
        _put_end(vector, kept, local)
    layout.write_buffers(*vectors, model)


def _put_end(vector: Tensor, kept: State, name: str) -> None:
    """Put what a client keeps at the end of a vector, where local layers lie."""
    if name in kept:
        own = getattr(kept, name)
        vector[len(vector) - len(own) :] = own
