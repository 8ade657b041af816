"""Tasks of models of Hugging Face: `ff.hugging_face(model, tokenizer, clients=[...])`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from flatfed.core.errors import ConfigError
from flatfed.core.task.task import Task
from flatfed.data.partition import Partitioner
from flatfed.hub_models.adapters import with_lora
from flatfed.hub_models.encoding import LABELS, Encoder
from flatfed.hub_models.model_tasks import CAUSAL, IMAGES, REGRESSION, SEQ2SEQ, TOKENS, Kind, kind_of, named_kind
from flatfed.hub_models.pretrained import base_of, loaded_model, loaded_tokenizer
from flatfed.hub_models.tables import Columns, columns_of, count_of, rows_of


def hugging_face(
    model: nn.Module | str | Path,
    tokenizer: Any = None,
    dataset: Any = None,
    clients: Any = None,
    *,
    task: str | None = None,
    test: Any = None,
    tests: Mapping[str, Any] | None = None,
    lora: Any = None,
    text: str | Sequence[str] | None = None,
    target_text: str | None = None,
    label: str | None = None,
    length: int | None = None,
    partition: str | Mapping[str, Any] = "iid",
    seed: int = 0,
    download: bool = False,
    **more: Any,
) -> Task:
    """Return the task of a model of `transformers`, ready for `ff.train`.

    Args:
        model: a model, one with adapters of `peft`, a folder that `save_pretrained` wrote, or a name on the hub. It is
            copied, never changed.
        tokenizer: the tokenizer (for images the processor), its folder or name; by default that of the model's folder.
            None where rows hold `input_ids` or `pixel_values` already.
        dataset: rows that are divided among clients: a list of dicts, a dict of lists or a table of `datasets`.
        clients: with a `dataset` their number, the indices of each one's rows, or the column that says whose a row is;
            without, the rows of each client.
        task: what is learnt, where the model's class does not tell: `sequence-classification`,
            `token-classification`, `causal-lm`, `seq2seq-lm`, `image-classification` or `sequence-regression`.
        test: rows of the test set, or None.
        tests: further test sets by name.
        lora: train adapters alone (and a head of classes): their rank, arguments of `peft.LoraConfig` by name, or a
            configuration of `peft`.
        text: the column of texts or images, or two columns of texts; by default the usual names are looked for.
        target_text: the column of texts that a seq2seq model is to write.
        label: the column of labels: numbers, or names of classes that the model knows. A label of -100 is ignored.
        length: the most tokens of a text; by default as many as the model takes.
        partition: with a number of clients, how rows are divided: an id, or an id and parameters.
        seed: key of that division.
        download: fetch a model of the hub by its name; nothing is fetched otherwise.
        more: further fields of `ff.Task`.
    """
    kind = None if task is None else named_kind(task)
    network = loaded_model(model, kind, download)
    kind = kind or kind_of(base_of(network))
    auto = "AutoImageProcessor" if kind.id == IMAGES else "AutoTokenizer"
    tokenizer = _tokenizer(tokenizer, model, download, auto)
    network = with_lora(network, lora)
    encoder = Encoder(network, kind, tokenizer, text, target_text, label, length)
    _set_pad(network, encoder)
    sources = _sources(dataset, clients, partition, seed, encoder)
    fields: dict[str, Any] = {
        "name": type(base_of(network)).__name__,
        "loss": kind.loss,
        "metrics": kind.metrics(),
        "class_names": _class_names(network, kind),
    }
    return Task(
        network,
        [encoder(rows, f"client {client}") for client, rows in enumerate(sources)],
        None if test is None else encoder(columns_of(test, "test"), "test"),
        tests={name: encoder(columns_of(rows, name), name) for name, rows in (tests or {}).items()},
        pad=encoder.pad,
        **(fields | more),
    )


def _tokenizer(tokenizer: Any, model: Any, download: bool, auto: str) -> Any:
    """Return the tokenizer; a model's folder need not have one, for rows may be encoded already."""
    try:
        return loaded_tokenizer(tokenizer, model, download, auto)
    except ConfigError:
        if tokenizer is not None:
            raise
        return None


def _set_pad(network: nn.Module, encoder: Encoder) -> None:
    """Let a model that looks for the last token of a text know what is behind it."""
    config: Any = base_of(network).config
    if getattr(config, "pad_token_id", 0) is None:
        config.pad_token_id = encoder.pad_id


def _sources(dataset: Any, clients: Any, partition: Any, seed: int, encoder: Encoder) -> list[Columns]:
    """Return the rows of each client."""
    if dataset is None:
        if not isinstance(clients, Sequence) or isinstance(clients, str) or not len(clients):
            raise ConfigError("say clients=[rows of each client], or dataset=rows and clients=their number")
        return [columns_of(rows, f"client {client}") for client, rows in enumerate(clients)]
    columns = columns_of(dataset, "dataset")
    return [rows_of(columns, part) for part in _parts(columns, clients, partition, seed, encoder)]


def _parts(columns: Columns, clients: Any, partition: Any, seed: int, encoder: Encoder) -> Sequence[Any]:
    if isinstance(clients, str):
        if clients not in columns:
            raise ConfigError(f"clients={clients!r}: there are the columns {', '.join(columns)}")
        owners = [str(owner) for owner in columns.pop(clients)]
        return [[row for row, of in enumerate(owners) if of == owner] for owner in dict.fromkeys(owners)]
    if isinstance(clients, int) and not isinstance(clients, bool):
        described = {"id": partition} if isinstance(partition, str) else dict(partition)
        divided = Partitioner.registry.from_dict(described)
        return divided.divide(_classes(columns, encoder), {}, clients, seed)
    if isinstance(clients, Sequence):
        return clients
    raise ConfigError("clients must be their number, the indices of each one's rows, or the column that says whose")


def _classes(columns: Columns, encoder: Encoder) -> Any:
    """Return the class of each row, which a division goes by; texts without one are all of one class."""
    if encoder.kind.id in (CAUSAL, SEQ2SEQ, TOKENS, REGRESSION):
        return np.zeros(count_of(columns), np.int64)
    return np.asarray(encoder(columns, "dataset")[LABELS], np.int64)


def _class_names(network: nn.Module, kind: Kind) -> tuple[str, ...]:
    """Return the names of the classes, where the model's configuration has some of its own."""
    if kind.id in (CAUSAL, SEQ2SEQ, REGRESSION):
        return ()
    names = getattr(getattr(base_of(network), "config", None), "id2label", None) or {}
    listed = tuple(str(names[number]) for number in sorted(names))
    return () if all(name == f"LABEL_{number}" for number, name in enumerate(listed)) else listed
