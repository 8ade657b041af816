"""Convolutions over a text."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flatfed.core.errors import ConfigError
from flatfed.models.catalogue import model
from flatfed.models.layers import check_dropout

KERNELS = (3, 4, 5)
WIDTH, FILTERS, PADDING = 100, 100, 0


@model("textcnn")
def textcnn(classes: int, vocabulary: int, length: int, dropout: float = 0.0) -> nn.Module:
    """TextCNN (Kim 2014): embeddings of 100, 100 filters each of sizes 3, 4 and 5, max over time.

    3,124,514 parameters for a vocabulary of 30,000 and 14 classes. Texts are rows of `length` whole numbers below
    `vocabulary`; 0 is padding, its embedding is zero and stays so. Kim's own `dropout` is 0.5.
    """
    if length < max(KERNELS):
        raise ConfigError(f"textcnn needs texts of at least {max(KERNELS)} tokens, not {length}; try a longer length")
    return TextCNN(classes, vocabulary, check_dropout("textcnn", dropout))


class TextCNN(nn.Module):
    """Embedding, convolutions of several sizes, the maximum of each filter over the text, linear head."""

    def __init__(self, classes: int, vocabulary: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, WIDTH, padding_idx=PADDING)
        self.filters = nn.ModuleList(nn.Conv2d(WIDTH, FILTERS, (1, kernel)) for kernel in KERNELS)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(FILTERS * len(KERNELS), classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return a score per class."""
        x = self.embedding(tokens).transpose(1, 2).unsqueeze(2)  # an image of height 1: channels-last, which is faster
        highest = torch.cat([convolve(x).amax(dim=(2, 3)) for convolve in self.filters], dim=1)
        scores: Tensor = self.head(self.dropout(highest.relu()))  # ReLU commutes with the maximum
        return scores
