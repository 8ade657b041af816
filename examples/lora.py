"""LoRA adapters of a BERT over six clients, with SAM, and how flat the model is in two spaces. Runs offline.

The model is tiny and has random weights; a folder that `save_pretrained` wrote takes its place in earnest:
`ff.hugging_face("path/to/folder", clients=..., lora=8)`.
"""

from __future__ import annotations

import random
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

import flatfed as ff

ANIMALS, TOOLS = ("cat", "dog", "owl", "fox"), ("saw", "axe", "awl", "vice")
WORDS = ("[PAD]", "[UNK]", "a", "the", "and", "see", *ANIMALS, *TOOLS)


def tokenizer() -> Any:
    """Return a tokenizer by words."""
    numbers = {word: number for number, word in enumerate(WORDS)}
    words = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")


def model() -> torch.nn.Module:
    """Return a tiny BERT that tells two classes of texts apart."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    chances = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.3}
    config = transformers.BertConfig(
        vocab_size=len(WORDS), max_position_embeddings=16, num_labels=2, **sizes, **chances
    )
    return transformers.BertForSequenceClassification(config)


def texts(seed: int, count: int = 16) -> list[dict[str, Any]]:
    """Return texts on animals (0) and tools (1)."""
    draw, found = random.Random(seed), []
    for number in range(count):
        named = draw.choices((ANIMALS, TOOLS)[number % 2], k=draw.randint(1, 3))
        found.append({"text": "see the " + " and a ".join(named), "label": number % 2})
    return found


def main() -> None:
    """Train, and measure."""
    task = ff.hugging_face(model(), tokenizer(), clients=[texts(k) for k in range(6)], test=texts(99, 40), lora=4)
    run = ff.train(task, ff.make("fedsam", rho=0.05), rounds=20, sampling=3, lr=0.5, batch_size=8, workers=0)
    last, whole = run.history[-1], sum(parameter.numel() for parameter in task.model.parameters())
    print(f"accuracy {last['test_accuracy']:.2f}; {len(run.vector)} of {whole} parameters are trained and travel")
    print(f"{last['bytes_down']} bytes went down in a round")
    for space in ("trained", "full"):
        with ff.laboratory(run, space=space) as lab:
            result = lab.measure("lambda_max")["lambda_max"]
        print(f"largest eigenvalue {result.numbers['lambda_max']:.4g}, {result.remark}")


if __name__ == "__main__":
    main()
