"""`hf:FOLDER`: a model of Hugging Face's library `transformers`, with a head for the classes of a data set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flatfed.core.errors import ConfigError
from flatfed.hub_models.adapters import with_lora
from flatfed.hub_models.model_tasks import IMAGES, SEQUENCE, named_kind
from flatfed.hub_models.pretrained import configuration, found, loaded_model
from flatfed.named_code import NamedBy

PREFIX = "hf:"


def is_hub_model(id: str) -> bool:
    """Say whether a model is one of Hugging Face."""
    return id.startswith(PREFIX)


def place_of_model(id: str) -> str:
    """Return the folder or name behind `hf:`."""
    return id.removeprefix(PREFIX)


class TextNetwork(nn.Module):
    """A model of texts that takes one tensor: numbers of tokens, negative behind the end of a text."""

    def __init__(self, network: nn.Module, pad: int) -> None:
        super().__init__()
        self.network, self.pad = network, pad

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of the classes."""
        counts = tokens >= 0
        ids = torch.where(counts, tokens, self.pad).long()
        scores: Tensor = self.network(input_ids=ids, attention_mask=counts.long()).logits
        return scores


class ImageNetwork(nn.Module):
    """A model of images that takes those of a data set: grey ones in all channels, and in the size that it wants."""

    def __init__(self, network: nn.Module, channels: int, size: tuple[int, int]) -> None:
        super().__init__()
        self.network, self.channels, self.size = network, channels, size

    def forward(self, images: Tensor) -> Tensor:
        """Return the scores of the classes."""
        if images.shape[1] == 1:
            images = images.expand(-1, self.channels, -1, -1)
        if images.shape[2:] != self.size:
            images = F.interpolate(images, self.size, mode="bilinear", align_corners=False)
        scores: Tensor = self.network(pixel_values=images).logits
        return scores


def hub_builder(id: str, by: NamedBy) -> Callable[..., nn.Module]:
    """Return what builds the model of a folder or name; a file of somebody else's may not have one fetched."""
    place = place_of_model(id)

    def hugging_face_model(
        classes: int,
        vocabulary: int | None = None,
        length: int | None = None,
        image_size: int | None = None,
        lora: int = 0,
        download: bool = False,
    ) -> nn.Module:
        """Return a model of a folder with a head for these classes; `lora` is the rank of adapters, 0 for none."""
        may_ask = download and by.is_believed
        if vocabulary is not None:
            return _text_model(place, classes, vocabulary, length, lora, may_ask)
        if image_size is not None:
            return _image_model(place, classes, lora, may_ask)
        raise ConfigError(f"{id} reads texts or images, and the data are neither")

    return hugging_face_model


def _text_model(place: str, classes: int, vocabulary: int, length: int | None, lora: int, download: bool) -> nn.Module:
    config = configuration(found(place, download), download)
    _check_texts(place, config, vocabulary, length)
    network = _loaded(place, SEQUENCE, classes, download)
    pad = getattr(config, "pad_token_id", None) or 0
    # Some models look for the last token of a text by what is behind it.
    _config_of(network).pad_token_id = pad
    return TextNetwork(with_lora(network, lora), int(pad))


def _check_texts(place: str, config: Any, vocabulary: int, length: int | None) -> None:
    known, places = getattr(config, "vocab_size", None), getattr(config, "max_position_embeddings", None)
    if known is None:
        raise ConfigError(f"{place} is no model of texts, and the data are texts; choose another model")
    if vocabulary > known:
        raise ConfigError(f"the data have {vocabulary} tokens and {place} knows {known}; take its own tokenizer")
    if places is not None and length is not None and length > places:
        raise ConfigError(f"texts of {length} tokens are longer than {place} takes; --set data.length={places}")


def _image_model(place: str, classes: int, lora: int, download: bool) -> nn.Module:
    config = configuration(found(place, download), download)
    size, channels = getattr(config, "image_size", None), getattr(config, "num_channels", 3)
    if size is None:
        raise ConfigError(f"{place} names no size of images, so it is no model of images; choose another model")
    height, width = (size, size) if isinstance(size, int) else tuple(size)
    return ImageNetwork(with_lora(_loaded(place, IMAGES, classes, download), lora), channels, (height, width))


def _loaded(place: str, kind: str, classes: int, download: bool) -> nn.Module:
    return loaded_model(place, named_kind(kind), download, num_labels=classes, ignore_mismatched_sizes=True)


def _config_of(network: nn.Module) -> Any:
    return network.config
