"""The models by id. A new one is one module in `models/networks` with a function under `@model(id)`."""

from __future__ import annotations

import functools
import importlib
import inspect
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from flatfed.core.configuration.config import PLAIN
from flatfed.core.discovery import import_all
from flatfed.core.errors import ConfigError, nearest
from flatfed.core.randomness import key, preserved_global_state
from flatfed.models import networks
from flatfed.models.heads import head_tensors
from flatfed.models.weights import load_weights

Builder = Callable[..., nn.Module]

FACTS = ("classes", "in_channels", "image_size", "vocabulary", "length")
"""What data tell a model: a builder that names one of them is given it. Its other parameters are options."""

_builders: dict[str, Builder] = {}
_heads: dict[str, tuple[str, ...]] = {}


def model(id: str, head: tuple[str, ...] = ("head",)) -> Callable[[Builder], Builder]:
    """Enter a function that returns a module under `id`.

    Its parameters are facts of the data (`classes`, `in_channels`, `image_size`; `vocabulary`, `length` of texts) and,
    with defaults, options. The first line of its docstring describes the model; the module must be picklable. `head`
    names the layers whose outputs are the scores of the classes.
    """

    def enter(function: Builder) -> Builder:
        other = _builders.setdefault(id, function)
        if (other.__module__, other.__qualname__) != (function.__module__, function.__qualname__):
            raise ConfigError(f"the model id {id!r} is taken by {other.__module__}.{other.__qualname__}")
        _heads[id] = head
        return function

    return enter


def options_of(id: str) -> dict[str, Any]:
    """Return the options of a model with their defaults."""
    named = inspect.signature(_find(id)).parameters
    return {name: p.default for name, p in named.items() if name not in FACTS}


def with_defaults(id: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a model, those that were not given with their defaults, as far as JSON can hold them."""
    takes = {name: default for name, default in options_of(id).items() if name != "num_classes"}
    return {name: value for name, value in takes.items() if isinstance(value, PLAIN)} | dict(given)


def models() -> dict[str, str]:
    """Return the id and a one-line description of every model."""
    _discover()
    return {id: (inspect.getdoc(_builders[id]) or "").partition("\n")[0] for id in sorted(_builders)}


def build(
    id: str,
    classes: int,
    in_channels: int | None = None,
    image_size: int | None = None,
    seed: int = 0,
    *,
    vocabulary: int | None = None,
    length: int | None = None,
    options: Mapping[str, Any] | None = None,
    weights: str | Path | None = None,
    new_head: bool = False,
) -> nn.Module:
    """Return the model `id`, or that of an import path `package.module:Class`, for data with these facts.

    Initialisation is PyTorch's unless the model says otherwise, keyed by `seed`: equal arguments give equal weights,
    and torch's global generator is left as it was. `weights` is a safetensors file to start from, with the
    model's own names or torchvision's; with `new_head` its head is not taken and the model's stays as `seed` drew it.
    """
    builder = _find(id)
    facts = {"classes": classes, "in_channels": in_channels, "image_size": image_size}
    facts |= {"vocabulary": vocabulary, "length": length}
    known = {name: value for name, value in facts.items() if value is not None}
    for name, value in known.items():
        if value < 1:
            raise ConfigError(f"{id}: {name} must be at least 1, not {value}")
    arguments = _arguments(id, builder, known, dict(options or {}))
    with preserved_global_state():
        torch.default_generator.manual_seed(key(seed, "init"))
        try:
            made = builder(**arguments)
        except ConfigError:
            raise
        except Exception as error:
            told = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
            raise ConfigError(f"{id}({told}) cannot be made: {explained(error)}") from error
    if not isinstance(made, nn.Module):
        raise ConfigError(f"{id} makes a {type(made).__name__}, not a torch.nn.Module")
    _start(id, made, classes, weights, new_head)
    return made


def _start(id: str, made: nn.Module, classes: int, weights: str | Path | None, new_head: bool) -> None:
    """Load the weights to start from, if any."""
    if weights is not None:
        load_weights(made, Path(weights), id, lambda: head_tensors(id, made, classes, _heads.get(id)), new_head)
    elif new_head:
        raise ConfigError("--new-head leaves out the head of the weights to start from; give --weights FILE too")


def _find(id: str) -> Builder:
    """Return the builder of an id, or the class or function that an import path names."""
    _discover()
    if ":" not in id:
        if id not in _builders:
            raise ConfigError(nearest(id, _builders, "model"))
        return _builders[id]
    module, _, name = id.partition(":")
    try:
        found: Any = functools.reduce(getattr, name.split("."), importlib.import_module(module))
    except Exception as error:
        hint = _where_to_start(error, module)
        raise ConfigError(f"the model {id} cannot be imported: {explained(error)}{hint}") from error
    if not callable(found):
        raise ConfigError(f"the model {id} is a {type(found).__name__}, not a class or function")
    return found  # type: ignore[no-any-return]


def _where_to_start(error: Exception, module: str) -> str:
    """Return what to do where a module is not found at all; one that is found may lack others, of which it says so."""
    if not isinstance(error, ModuleNotFoundError) or not f"{module}.".startswith(f"{error.name}."):
        return ""
    return "; start in the folder that holds it (where the run was started), or put that folder into PYTHONPATH"


def explained(error: Exception) -> str:
    """Return what went wrong and, where it was in the user's own file, where."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    own = not any(part in place.filename for part in ("importlib", "site-packages", "flatfed/models"))
    return f"{error or type(error).__name__}" + (f" ({place.filename}, line {place.lineno})" if own else "")


def _arguments(id: str, builder: Builder, facts: dict[str, int], options: dict[str, Any]) -> dict[str, Any]:
    """Return what a builder is called with: the facts that it names and the options that were given."""
    try:
        named = inspect.signature(builder).parameters
    except ValueError:
        return options
    takes = [name for name in named if name not in (*FACTS, "num_classes", "args", "kwargs")]
    for name in options:
        if name not in takes and not any(p.kind is p.VAR_KEYWORD for p in named.values()):
            listed = ", ".join(takes) or "no options"
            raise ConfigError(f"{id}: {nearest(name, takes, 'option of the model')} ({id} takes {listed})")
    given = {name: facts[name] for name in named if name in facts}
    if "num_classes" in named:
        given["num_classes"] = facts["classes"]
    missing = [n for n, p in named.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    missing = [name for name in missing if name not in given and name not in options]
    lacking, has = [name for name in missing if name in FACTS], ", ".join(sorted(facts))
    if lacking:
        raise ConfigError(f"{id} needs {', '.join(lacking)}, which these data have not (they have {has}); try another")
    if missing:
        how = " ".join(f"--set model.{name}=VALUE" for name in missing)
        raise ConfigError(f"{id} needs {', '.join(missing)}: give it with {how} (the data give {has})")
    return given | options


@functools.cache
def _discover() -> None:
    import_all(networks.__name__, networks.__path__, "model")
