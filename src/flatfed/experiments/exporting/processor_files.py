"""The tokenizer or image processor of the folder that a model came from: files that stand beside the model's own."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from flatfed.core.errors import ConfigError
from flatfed.experiments.exporting.exported_model import ExportedModel
from flatfed.experiments.tasks.recipe import DataSetOrigin
from flatfed.experiments.tasks.recipe_from_options import TOKENIZER
from flatfed.models.hub import is_hub_model, place_of_model

TOKENIZERS = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "vocab.txt", "merges.txt", "bpe.codes", "dict.txt", "emoji.json"),
    *("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "sentencepiece.model", "spm.model"),
    *("source.spm", "target.spm", "chat_template.jinja", "chat_template.json"),
)
"""Files that tokenizers are saved in; code is not among them."""
IMAGE_PROCESSORS = ("preprocessor_config.json", "processor_config.json")


def copy_processor(exported: ExportedModel, folder: Path) -> None:
    """Copy the files that read inputs for the model, where its run named a folder that holds some."""
    source = _source(exported)
    if source is None:
        return
    for name in (*TOKENIZERS, *IMAGE_PROCESSORS):
        if (source / name).is_file():
            try:
                shutil.copyfile(source / name, folder / name)
            except OSError as error:
                raise ConfigError(f"{source / name} cannot be copied: {error.strerror or error}") from None


def _source(exported: ExportedModel) -> Path | None:
    """Return the folder whose tokenizer read the texts; of other data, that of the model."""
    origin = exported.task.origin
    recipe = origin.recipe if isinstance(origin, DataSetOrigin) else None
    if recipe is None or recipe.model is None or not is_hub_model(recipe.model):
        return None
    # Texts may have been read by another tokenizer, or by none: by words of their own.
    place = recipe.data_options.get(TOKENIZER, place_of_model(recipe.model))
    folder = Path(str(place)).expanduser()
    return folder if place and folder.is_dir() else None


def what_reads_inputs(names: Iterable[str]) -> str:
    """Return for a card which of the two the files of an export hold, and how it is loaded."""
    there = set(names)
    kinds = {"tokenizer": (TOKENIZERS, "AutoTokenizer"), "image processor": (IMAGE_PROCESSORS, "AutoImageProcessor")}
    loaded = [
        f'{kind} (`{cls}.from_pretrained("FOLDER")`)' for kind, (files, cls) in kinds.items() if there & set(files)
    ]
    if not loaded:
        return "neither a tokenizer nor an image processor is in the folder; take that of the model it began with"
    return f"{' and '.join(loaded)}, as in the folder that training began with"
