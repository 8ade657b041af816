"""Small models of several inputs on texts of different length, in float64."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from core.bench import seeded

WORDS, WIDTH, CLASSES = 7, 4, 3
LENGTHS = ((3, 5, 2, 1), (4, 4, 6), (2, 3))
Example = dict[str, Any]


class Reader(nn.Module):
    """The mean of the words that a mask lets through, and a score for each class."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.hidden = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def features(self, input_ids: Tensor) -> Tensor:
        return torch.tanh(self.hidden(self.words(input_ids)))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        mask = attention_mask.unsqueeze(-1).to(self.head.weight.dtype)
        total = (self.features(input_ids) * mask).sum(dim=1)
        return self.head(total / mask.sum(dim=1))


class Tagger(Reader):
    """A score for each class and word."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        return self.head(self.features(input_ids))


class Writer(Reader):
    """A score for each next word, from the mean of the words so far."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        features = self.features(input_ids)
        places = torch.arange(1, features.shape[1] + 1, dtype=features.dtype).view(1, -1, 1)
        return self.head(features.cumsum(dim=1) / places)


class Record(OrderedDict):
    """Outputs by name that can be asked for as attributes, with fields as arguments, as transformers has them."""

    def __init__(self, loss: Any = None, logits: Any = None, hidden: Any = None) -> None:
        super().__init__({k: v for k, v in {"loss": loss, "logits": logits, "hidden": hidden}.items() if v is not None})

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass
class Outcome:
    """The same as a plain dataclass."""

    logits: Tensor
    hidden: Tensor


class Returning(Reader):
    """Returns its scores within a structure; computes its loss where it is given labels."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None) -> Any:
        logits = super().forward(input_ids, attention_mask)
        loss = None if labels is None else cross_entropy(logits, labels)
        match self.kind:
            case "record":
                return Record(loss, logits, logits * 2)
            case "dict":
                return {"logits": logits, "other": logits * 2}
            case "one name":
                return {"out": logits}
            case "dataclass":
                return Outcome(logits, logits * 2)
            case "tuple":
                return (logits, logits * 2) if loss is None else (loss, logits)
        return logits


def made(kind: type[nn.Module], *arguments: Any) -> nn.Module:
    return seeded(lambda: kind(*arguments)).double()


def texts(lengths: Sequence[int], seed: int = 0, tags: bool = False) -> list[Example]:
    """Return examples as tokenisers make them; with tags, each word has a label, or none."""
    generator = torch.Generator().manual_seed(seed)
    examples = []
    for number, length in enumerate(lengths):
        ids = torch.randint(1, WORDS, (length,), generator=generator).tolist()
        labels: Any = (number + seed) % CLASSES
        if tags:
            drawn = torch.randint(-1, CLASSES, (length,), generator=generator).tolist()
            labels = [-100 if tag < 0 else tag for tag in drawn]
        examples.append({"input_ids": ids, "attention_mask": [1] * length, "labels": labels})
    return examples


def filled(examples: Sequence[Example], width: int = 6, tags: bool = False) -> Example:
    """Return examples as tensors of one width, by loops."""

    def rows(name: str, pad: int) -> Tensor:
        return torch.tensor([example[name] + [pad] * (width - len(example[name])) for example in examples])

    labels = rows("labels", -100) if tags else torch.tensor([example["labels"] for example in examples])
    return {"input_ids": rows("input_ids", 0), "attention_mask": rows("attention_mask", 0), "labels": labels}


def clients(tags: bool = False) -> list[list[Example]]:
    return [texts(lengths, seed, tags) for seed, lengths in enumerate(LENGTHS)]
