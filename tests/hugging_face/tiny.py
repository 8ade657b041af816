"""Tiny models of transformers with random weights, a tokenizer of a few words, and rows of texts and images."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import nn

from core.bench import seeded

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WORDS = ("the", "cat", "dog", "sat", "ran", "on", "mat", "fast", "slow", "red")
VOCABULARY = len(SPECIAL) + len(WORDS)
TEXTS = ("the cat sat on the mat", "dog ran", "red dog ran fast", "slow cat", "the red mat", "cat ran on")
CLASSES = 3
TINY: dict[str, Any] = {"vocab_size": VOCABULARY, "pad_token_id": 0}


def tokenizer() -> Any:
    """Return a tokenizer by words, made on the spot."""
    numbers = {word: number for number, word in enumerate((*SPECIAL, *WORDS))}
    words = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [(mark, numbers[mark]) for mark in ("[CLS]", "[SEP]")]
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, **names)


def bert(head: str = "SequenceClassification", dropout: float = 0.0, **changes: Any) -> nn.Module:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    chances = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    given = {"num_labels": CLASSES, "max_position_embeddings": 16, **TINY, **sizes, **chances, **changes}
    config = transformers.BertConfig(**given)
    return seeded(lambda: getattr(transformers, f"BertFor{head}")(config))


def gpt2() -> nn.Module:
    chances = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    ends = {"bos_token_id": 2, "eos_token_id": 3}
    config = transformers.GPT2Config(n_positions=16, n_embd=8, n_layer=1, n_head=2, **TINY, **ends, **chances)
    return seeded(lambda: transformers.GPT2LMHeadModel(config))


def t5() -> nn.Module:
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0}
    config = transformers.T5Config(decoder_start_token_id=0, eos_token_id=3, **TINY, **sizes)
    return seeded(lambda: transformers.T5ForConditionalGeneration(config))


def vit(size: int = 8, channels: int = 3, classes: int = CLASSES) -> nn.Module:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    chances = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    images = {"image_size": size, "patch_size": 4, "num_channels": channels, "num_labels": classes}
    config = transformers.ViTConfig(**sizes, **chances, **images)
    return seeded(lambda: transformers.ViTForImageClassification(config))


def rows(seed: int = 0, count: int = 4) -> list[dict[str, Any]]:
    """Return texts with classes, others for each seed."""
    return [{"text": TEXTS[(seed + i) % len(TEXTS)], "label": (seed + i) % CLASSES} for i in range(count)]


def words(seed: int = 0, count: int = 4) -> list[dict[str, Any]]:
    """Return texts as words with a class for each."""
    texts = [row["text"].split() for row in rows(seed, count)]
    return [{"tokens": text, "tags": [len(word) % CLASSES for word in text]} for text in texts]


def written(seed: int = 0, count: int = 4) -> list[dict[str, Any]]:
    """Return texts with texts to be written."""
    return [{"text": row["text"], "target": row["text"].split()[-1]} for row in rows(seed, count)]


def pictures(seed: int = 0, count: int = 4) -> dict[str, Any]:
    """Return pixels with classes."""
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randn(count, 3, 8, 8, generator=generator)
    return {"pixel_values": pixels, "labels": (torch.arange(count) + seed) % CLASSES}


KINDS: dict[str, tuple[Any, Any]] = {
    "bert": (bert, rows),
    "tokens": (lambda: bert("TokenClassification"), words),
    "gpt2": (gpt2, lambda seed: [{"text": row["text"]} for row in rows(seed)]),
    "t5": (t5, written),
    "vit": (vit, pictures),
}
