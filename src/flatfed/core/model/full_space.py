"""The full space of a model: all weights that it computes with, also those that nobody trains.

With LoRA a layer computes with `W = W0 + s B A`: clients train `A` and `B`, and `W0` is frozen. In the full space the
loss is a function of `W`. Nothing has to be merged for that: its gradient by `W` is the one by `W0` with the adapters
where they are, and to move `W` is to move `W0`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

from torch import Tensor, nn

from flatfed.core.errors import ConfigError
from flatfed.core.model.layout import Layout

Space = Literal["trained", "full"]
"""What the loss is a function of: the parameters that are trained, or all weights that the model computes with."""

ADDED = {"lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B"}
"""What adapters are called that add to a weight: the parts of LoRA in `peft`."""

REPLACED = "modules_to_save"
"""What `peft` calls a layer that is trained whole: its weights are those that the model computes with."""

WITHOUT_FULL_SPACE = "choose the trained space, or other layers for the adapters"
"""What to do where there is no full space."""


class FullSpace:
    """All weights of a model as one vector, its adapters not among them.

    Attributes:
        layout: where each weight lies in a vector of this space.
    """

    def __init__(self, model: nn.Module) -> None:
        refuse_without_full_space(model)
        adapters = _adapter_names(model)
        named = dict(model.named_parameters())
        self._adapters = [parameter for name, parameter in named.items() if name in adapters]
        self._frozen = [
            parameter
            for name, parameter in named.items()
            if name not in adapters and not parameter.requires_grad and parameter.is_floating_point()
        ]
        with self.freed():
            self.layout = Layout(model)
        # As they lie in memory: frozen convolutions are not stored channels-last, and gradients must lie alike.
        self.layout.parameters = tuple(
            replace(segment, channels_last=segment.channels_last and not named[segment.name].is_contiguous())
            for segment in self.layout.parameters
        )
        self._weights = [named[segment.name] for segment in self.layout.parameters]

    @contextmanager
    def freed(self) -> Iterator[None]:
        """For a while, let gradients be taken by all weights, and by no adapter."""
        trained = [parameter for parameter in self._adapters if parameter.requires_grad]
        self._set(self._frozen, True)
        self._set(trained, False)
        try:
            yield
        finally:
            self._set(self._frozen, False)
            self._set(trained, True)

    @staticmethod
    def _set(parameters: list[nn.Parameter], requires_grad: bool) -> None:
        for parameter in parameters:
            parameter.requires_grad_(requires_grad)

    @contextmanager
    def moved(self, by: Tensor) -> Iterator[None]:
        """For a while, let all weights be elsewhere, by a vector of this space; they come back bit for bit."""
        here = [parameter.data for parameter in self._weights]
        for parameter, segment in zip(self._weights, self.layout.parameters, strict=True):
            parameter.data = parameter.data + segment.view(by)
        try:
            yield
        finally:
            for parameter, data in zip(self._weights, here, strict=True):
                parameter.data = data


def _adapter_names(model: nn.Module) -> set[str]:
    """Return the names of the parameters of adapters: `peft` tells in each layer which of its parts they are.

    Adapters that do something else than to add to a weight are refused: to move the weight would mean another thing.
    """
    names: set[str] = set()
    for prefix, module in model.named_modules():
        parts = getattr(module, "adapter_layer_names", ())
        for name, _ in module.named_parameters():
            part = name.partition(".")[0]
            if part not in parts or part == REPLACED:
                continue
            if part not in ADDED:
                raise ConfigError(f"the adapter {part!r} does not only add to a weight; choose the trained space")
            names.add(f"{prefix}.{name}" if prefix else name)
    return names


def refuse_without_full_space(model: nn.Module) -> None:
    """Refuse adapters whose sum with what they add to is no weight of the model.

    A weight that is tied to another layer's is there without the adapter too: to merge the adapter, or to move the
    weight, would change both. A bias that is added where the layer has none adds to nothing.
    """
    places = _places(model)
    for name, module in model.named_modules():
        base = getattr(module, "base_layer", None)
        if not getattr(module, "adapter_layer_names", ()) or not isinstance(base, nn.Module):
            continue
        if any(len(places[parameter]) > 1 for parameter in base.parameters()):
            raise ConfigError(f"{name}: its adapter adds to a weight that another layer shares; {WITHOUT_FULL_SPACE}")
        if getattr(base, "bias", None) is None and _has_bias(module):
            raise ConfigError(f"{name}: its adapter adds a bias where the layer has none; {WITHOUT_FULL_SPACE}")


def _places(model: nn.Module) -> dict[nn.Parameter, set[tuple[int, int]]]:
    """Return where each parameter lies: in which module, and in which one around that."""
    places: dict[nn.Parameter, set[tuple[int, int]]] = {}
    for around in model.modules():
        for module in around.children():
            for parameter in module.parameters(recurse=False):
                places.setdefault(parameter, set()).add((id(around), id(module)))
    return places


def _has_bias(module: nn.Module) -> bool:
    return any(name.startswith("lora_B.") and name.endswith(".bias") for name, _ in module.named_parameters())
