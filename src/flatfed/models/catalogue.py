"""The models by id. A new one is one module in `models/networks` with a function under `@model(id)`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from typing import Any, NoReturn

from torch import nn

from flatfed.core.configuration.config import PLAIN
from flatfed.core.configuration.registry import import_all
from flatfed.core.configuration.users_code import explained
from flatfed.core.errors import PARAMETER, ConfigError, nearest
from flatfed.core.randomness import key, key_global_generators, preserved_global_state
from flatfed.models import networks
from flatfed.models.heads import head_tensors
from flatfed.models.hub import hub_builder, is_hub_model
from flatfed.models.weights import load_weights
from flatfed.named_code import USER, NamedBy, origin_of
from flatfed.outside.installed import only_part
from flatfed.outside.named_parts import find_code

FACTS = ("classes", "in_channels", "image_size", "in_features", "vocabulary", "length")
"""What data tell a model: a builder that names one of them is given it. Its other parameters are options."""

KIND = "model"
CLASSES = "num_classes"
"""What the builders of torchvision and others call the number of classes."""

NO_OPTIONS = frozenset((*FACTS, CLASSES, "args", "kwargs"))


def known_facts(id: str, facts: Mapping[str, int | None]) -> dict[str, int]:
    """Return the facts that there are; each must be at least 1."""
    return {name: _positive(id, name, value) for name, value in facts.items() if value is not None}


def _with_pixels(facts: dict[str, int]) -> dict[str, int]:
    """Return the facts; of an image, the features are its pixels in all channels."""
    if "in_features" in facts or not {"in_channels", "image_size"} <= facts.keys():
        return facts
    return facts | {"in_features": facts["in_channels"] * facts["image_size"] ** 2}


def _positive(id: str, name: str, value: int) -> int:
    if value < 1:
        raise ConfigError(f"{id}: {name} must be at least 1, not {value}")
    return value


def builder_arguments(
    id: str, builder: Callable[..., Any], facts: Mapping[str, int], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a builder is called with: the facts that it names and the options that were given."""
    try:
        parameters = BuilderParameters(inspect.signature(builder).parameters)
    except ValueError:
        # Some callables written in C do not say what they take: they are given the options and nothing else.
        return dict(options)
    _check_options(id, parameters, options)
    arguments = parameters.facts_named(facts) | dict(options)
    missing = parameters.missing(arguments)
    if missing:
        _refuse_missing(id, missing, facts)
    return arguments


@dataclass(frozen=True)
class BuilderParameters:
    """The parameters of a builder of models."""

    by_name: Mapping[str, Parameter]

    @property
    def options(self) -> list[str]:
        """The names of the options."""
        return [name for name in self.by_name if name not in NO_OPTIONS]

    def takes(self, option: str) -> bool:
        """Say whether there is an option of this name; `**kwargs` take any."""
        return option in self.options or self._has_kwargs()

    def _has_kwargs(self) -> bool:
        return any(parameter.kind is Parameter.VAR_KEYWORD for parameter in self.by_name.values())

    def facts_named(self, facts: Mapping[str, int]) -> dict[str, Any]:
        """Return the facts that are parameters."""
        known = {**facts, CLASSES: facts["classes"]}
        return {name: known[name] for name in self.by_name if name in known}

    def missing(self, arguments: Mapping[str, Any]) -> list[str]:
        """Return the parameters that must be given and are not."""
        required = filter(_is_required, self.by_name.values())
        return [parameter.name for parameter in required if parameter.name not in arguments]


def _is_required(parameter: Parameter) -> bool:
    # `*args` and `**kwargs` have no default either, and need not be given.
    return parameter.default is Parameter.empty and parameter.kind is Parameter.POSITIONAL_OR_KEYWORD


def _check_options(id: str, parameters: BuilderParameters, options: Mapping[str, Any]) -> None:
    """Refuse an option that the builder does not have."""
    known = parameters.options
    for name in options:
        if not parameters.takes(name):
            listed = ", ".join(known) or "no options"
            raise ConfigError(f"{id}: {nearest(name, known, 'option of the model')} ({id} takes {listed})")


def _refuse_missing(id: str, missing: Sequence[str], facts: Mapping[str, int]) -> NoReturn:
    """Say what a builder would lack: a fact, which only other data have, or else an option."""
    known = ", ".join(sorted(facts))
    lacking = ", ".join(filter(_is_fact, missing))
    if lacking:
        raise ConfigError(f"{id} needs {lacking}, but the data has only {known}; choose another model")
    raise ConfigError(
        f"{id} needs the options {', '.join(missing)}, which have no default: {PARAMETER}=VALUE "
        f"(the data gives {known})",
        parameter=f"model.{missing[0]}",
    )


def _is_fact(name: str) -> bool:
    return name in FACTS


Builder = Callable[..., nn.Module]

_builders: dict[str, Builder] = {}
_heads: dict[str, tuple[str, ...]] = {}


def model(id: str, head: tuple[str, ...] = ("head",)) -> Callable[[Builder], Builder]:
    """Enter a function that returns a module under `id`.

    Its parameters are facts of the data (`classes`; `in_channels`, `image_size` of images; `in_features`, the numbers
    of an example of a table or an image; `vocabulary`, `length` of texts) and, with defaults, options. The first line
    of its docstring describes the model; the module must be picklable. `head` names the layers whose outputs are the
    scores of the classes.
    """

    def enter(function: Builder) -> Builder:
        other = _builders.setdefault(id, function)
        # A module that is imported again enters the same function; that is no clash.
        if (other.__module__, other.__qualname__) != (function.__module__, function.__qualname__):
            raise ConfigError(f"the model id {id!r} is taken by {other.__module__}.{other.__qualname__}")
        _heads[id] = head
        return function

    return enter


def options_of(id: str, by: NamedBy = USER) -> dict[str, Any]:
    """Return the options of a model with their defaults."""
    parameters = inspect.signature(builder_of(id, by)).parameters
    return {name: parameter.default for name, parameter in parameters.items() if name not in FACTS}


def with_defaults(id: str, options: Mapping[str, Any], by: NamedBy = USER) -> dict[str, Any]:
    """Return the options of a model, those that were not given with their defaults, as far as JSON can hold them."""
    defaults = options_of(id, by)
    defaults.pop(CLASSES, None)
    plain = {name: value for name, value in defaults.items() if isinstance(value, PLAIN)}
    return plain | dict(options)


def models() -> dict[str, str]:
    """Return the id and a one-line description of every model."""
    _discover()
    return {id: _first_line(_builders[id]) for id in sorted(_builders)}


def _first_line(builder: Builder) -> str:
    return (inspect.getdoc(builder) or "").partition("\n")[0]


def build(
    id: str,
    classes: int,
    in_channels: int | None = None,
    image_size: int | None = None,
    seed: int = 0,
    *,
    in_features: int | None = None,
    vocabulary: int | None = None,
    length: int | None = None,
    options: Mapping[str, Any] | None = None,
    weights: str | Path | None = None,
    new_head: bool = False,
    by: NamedBy = USER,
) -> nn.Module:
    """Return the model `id`, that of an import path `package.module:Class`, or `hf:FOLDER`, for data with these facts.

    Initialisation is PyTorch's unless the model says otherwise, keyed by `seed`: equal arguments give equal weights,
    and torch's global generator is left as it was. `weights` is a safetensors file to start from, with the
    model's own names or torchvision's; with `new_head` its head is not taken and the model's stays as `seed` drew it.
    `by` says who named the model: an import path in a file is not believed as one that was typed.
    """
    builder = builder_of(id, by)
    facts = {"classes": classes, "in_channels": in_channels, "image_size": image_size}
    facts |= {"in_features": in_features, "vocabulary": vocabulary, "length": length}
    arguments = builder_arguments(id, builder, _with_pixels(known_facts(id, facts)), options or {})
    with preserved_global_state():
        key_global_generators(key(seed, "init"))
        network = _built(id, builder, arguments)
    _start(id, network, classes, weights, new_head)
    return network


def _built(id: str, builder: Builder, arguments: Mapping[str, Any]) -> nn.Module:
    try:
        network = builder(**arguments)
    except ConfigError:
        raise
    except Exception as error:  # the builder may be the user's own
        raise ConfigError(f"{_call(id, arguments)} cannot be made: {explained(error)}") from error
    _check_module(id, network)
    return network


def _check_module(id: str, network: object) -> None:
    if not isinstance(network, nn.Module):
        raise ConfigError(f"{id} makes a {type(network).__name__}, not a torch.nn.Module")


def _call(id: str, arguments: Mapping[str, Any]) -> str:
    listed = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return f"{id}({listed})"


def _start(id: str, network: nn.Module, classes: int, weights: str | Path | None, new_head: bool) -> None:
    """Load the weights to start from, if any."""
    if weights is not None:
        # Which tensors are the head may be unclear in a model of one's own: asked only where it matters.
        head = functools.partial(head_tensors, id, network, classes, _heads.get(id))
        load_weights(network, Path(weights), id, head, new_head)
    elif new_head:
        raise ConfigError(f"{PARAMETER} needs weights to start from, whose head it leaves out", parameter="new_head")


def builder_of(id: str, by: NamedBy = USER) -> Builder:
    """Return the builder of an id, or the class or function that an import path names."""
    _discover()
    if is_hub_model(id):
        return hub_builder(id, by)
    if ":" in id:
        return _imported(id, by)
    enter_installed(id)
    if id not in _builders:
        raise ConfigError(nearest(id, _builders, KIND))
    return _builders[id]


def enter_installed(id: str) -> None:
    """Enter the model of an installed package; it may enter itself when it is imported."""
    part = only_part(KIND, id)
    if part is None:
        return
    builder = part.load()
    _check_builder(id, builder)
    model(id)(builder)


def _imported(id: str, by: NamedBy) -> Builder:
    builder = find_code(id, KIND, by)
    _check_builder(id, builder)
    return builder  # type: ignore[no-any-return]


def _check_builder(id: str, builder: Any) -> None:
    """Refuse what makes no model, before it is called."""
    if not callable(builder):
        raise ConfigError(f"the model {id} is a {type(builder).__name__}, not a class or function")
    if isinstance(builder, type):
        if not issubclass(builder, nn.Module):
            raise ConfigError(f"the model {id} is not a torch.nn.Module")
    elif origin_of(builder).partition(".")[0] in ("flatfed", "torch") and builder not in _builders.values():
        # Functions of these have other work than to make a model.
        raise ConfigError(f"the model {id} is no function that makes a model")


@functools.cache
def _discover() -> None:
    import_all(networks.__name__, networks.__path__, "model")
