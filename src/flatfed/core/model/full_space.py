"""The full space of a model: all weights that it computes with, also those that nobody trains.

With LoRA a layer computes with `W = W0 + s B A`: clients train `A` and `B`, and `W0` is frozen. In the full space the
loss is a function of `W`. Nothing has to be merged for that: its gradient by `W` is the one by `W0` with the adapters
where they are, and to move `W` is to move `W0`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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


class FullSpace:
    """All weights of a model as one vector, its adapters not among them.

    Attributes:
        layout: where each weight lies in a vector of this space.
    """

    def __init__(self, model: nn.Module) -> None:
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
