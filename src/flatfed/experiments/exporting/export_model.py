"""`run.export`: which format goes where, and the model card beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flatfed.core.errors import PARAMETER, ConfigError, nearest
from flatfed.experiments.exporting.exported_model import ExportedModel
from flatfed.experiments.exporting.model_card import CardFile, is_card, model_card
from flatfed.experiments.exporting.onnx_graph import write_onnx
from flatfed.experiments.exporting.pretrained_folder import pretrained_part, write_pretrained
from flatfed.experiments.exporting.state_files import write_safetensors, write_torch
from flatfed.runs.records.files import replace_file

ENDINGS = {"safetensors": ".safetensors", "torch": ".pt", "onnx": ".onnx"}
"""The formats of one file."""
FORMATS = (*ENDINGS, "hf")
OTHER_ENDINGS = {".pth": "torch"}
CARD = "README.md"

Say = Callable[[str], None]


def export_model(
    exported: ExportedModel,
    path: Path,
    format: str | None = None,
    *,
    dtype: str | None = None,
    raw_inputs: bool = False,
    say: Say = lambda text: None,
) -> list[Path]:
    """Write a model and its card, and return the files; `path` is a folder, or a file with the ending of a format."""
    format = _format(path, format)
    if raw_inputs and format != "onnx":
        raise ConfigError(f"{PARAMETER} is for onnx: only a graph can prepare its inputs", parameter="raw_inputs")
    exported = exported.with_dtype(dtype)
    if format == "hf":
        pretrained_part(exported.model)  # refused before a folder is made
        # A run's record has the name of the model's: config.json.
        _refuse_foreign(sorted(path.glob("[!.]*")), path / CARD, always=(path / "history.jsonl").exists())
        files = write_pretrained(exported, path)
        return [
            *files,
            _write_card(exported, path / CARD, CardFile(format, path.name, files=tuple(file.name for file in files))),
        ]
    file, card = _places(path, format)
    _refuse_foreign([file, card], card)
    file.parent.mkdir(parents=True, exist_ok=True)
    note = ""
    match format:
        case "safetensors":
            write_safetensors(exported, file)
        case "torch":
            write_torch(exported, file)
        case _:
            difference = write_onnx(exported, file, raw_inputs)
            note = f"onnxruntime's outputs differ from PyTorch's by {difference:.1e} at most, on real examples"
            say(note)
    return [file, _write_card(exported, card, CardFile(format, file.name, note, raw_inputs))]


def _format(path: Path, format: str | None) -> str:
    """Return the format: as is asked for, or as the file's ending says; the two may not contradict."""
    by_ending = {ending: name for name, ending in ENDINGS.items()} | OTHER_ENDINGS
    said = by_ending.get(path.suffix.lower())
    if format is None:
        return said or "safetensors"
    if format not in FORMATS:
        raise ConfigError(f"{PARAMETER}: {nearest(format, FORMATS, 'format')}", parameter="format")
    if said is not None and said != format:
        raise ConfigError(f"{path} has the ending of {said}, and {PARAMETER} is {format}", parameter="format")
    return format


def _places(path: Path, format: str) -> tuple[Path, Path]:
    """Return where model and card go: into a folder, or the file itself and the card beside it."""
    by_ending = {*ENDINGS.values(), *OTHER_ENDINGS}
    if path.suffix.lower() in by_ending and not path.is_dir():
        return path, path.with_suffix(".md")
    return path / f"model{ENDINGS[format]}", path / CARD


def _refuse_foreign(files: list[Path], card: Path, always: bool = False) -> None:
    """Refuse to write over files that are of no earlier export, as the card beside them tells."""
    there = [file for file in files if file.exists()]
    if there and (always or not is_card(card)):
        raise ConfigError(f"{there[0]} is there already, and no earlier export wrote it; name another place")


def _write_card(exported: ExportedModel, path: Path, file: CardFile) -> Path:
    replace_file(path, model_card(exported, file).encode())
    return path
