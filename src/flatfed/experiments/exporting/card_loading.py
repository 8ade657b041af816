"""The lines of a model card that load a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flatfed.data.tables.preprocessing import KEY as PREPROCESSING
from flatfed.data.tables.preprocessing import Preprocessing
from flatfed.data.tables.target_columns import NumberTarget
from flatfed.experiments.exporting.exported_model import ExportedModel


def how_to_load(exported: ExportedModel, format: str, name: str, raw_inputs: bool) -> Iterator[str]:
    """Yield the lines that load a file."""
    yield "```python"
    match format:
        case "onnx":
            yield from _onnx(name)
        case "hf":
            yield from _pretrained(exported)
        case _:
            yield from _state(exported, format, name)
    yield "```"
    prepare = exported.task.prepare
    if prepare is not None:
        yield ""
        yield _preparation(repr(prepare), raw_inputs)
    if PREPROCESSING in exported.config:
        yield from _of_rows(Preprocessing.from_dict(exported.config[PREPROCESSING]))


def _of_rows(preprocessing: Preprocessing) -> Iterator[str]:
    """Yield what the model of a table takes, and what its outputs mean."""
    yield ""
    yield (
        f"It takes {preprocessing.width} numbers that preprocessing makes of a row: `run.preprocessing` of the run, "
        'which `run.preprocessing.save("preprocessing.json")` writes for others. Columns: '
        f"{', '.join(column.name for column in preprocessing.columns)}."
    )
    target = preprocessing.target
    if isinstance(target, NumberTarget):
        yield ""
        yield (
            f"Its output is in standard units: {target.name} is output * {target.std!r} + {target.mean!r}. MAE and MSE "
            "below are in the unit of the data."
        )


def _preparation(prepare: str, raw_inputs: bool) -> str:
    if raw_inputs:
        return f"It takes the data set's raw values and prepares them itself: `{prepare}`."
    return f"It takes prepared inputs: `{prepare}` of the data set's raw values."


def _onnx(name: str) -> Iterator[str]:
    yield "import onnxruntime"
    yield ""
    yield f"session = onnxruntime.InferenceSession({name!r})"
    yield 'outputs = session.run(None, {"input": inputs})  # a NumPy array, any number of examples'


def _pretrained(exported: ExportedModel) -> Iterator[str]:
    from flatfed.experiments.exporting.pretrained_folder import has_adapters, pretrained_part

    part = pretrained_part(exported.model)
    if has_adapters(part):
        yield from _adapters(part)
        return
    cls = type(part)
    yield f"from {cls.__module__.partition('.')[0]} import {cls.__name__}"
    yield ""
    yield f'model = {cls.__name__}.from_pretrained("FOLDER")'


def _adapters(part: Any) -> Iterator[str]:
    """Yield how adapters are put on the model that they were trained on, whose head may have had other classes."""
    base = part.get_base_model()
    labels = getattr(base.config, "num_labels", None)
    head = "" if labels is None else f", num_labels={labels}, ignore_mismatched_sizes=True"
    yield "from peft import PeftModel"
    yield f"from {type(base).__module__.partition('.')[0]} import {type(base).__name__}"
    yield ""
    yield f'base = {type(base).__name__}.from_pretrained("BASE"{head})  # the model that training began with'
    yield 'model = PeftModel.from_pretrained(base, "FOLDER")'


def _state(exported: ExportedModel, format: str, name: str) -> Iterator[str]:
    if format == "safetensors":
        yield "from safetensors.torch import load_file"
    else:
        yield "import torch"
    yield from _built(exported)
    if format == "safetensors":
        yield f"model.load_state_dict(load_file({name!r}))"
    else:
        yield f"model.load_state_dict(torch.load({name!r}, weights_only=True))"
    yield "model.eval()"


def _built(exported: ExportedModel) -> Iterator[str]:
    """Yield how the module is made: from the catalogue, or as the user made it."""
    recipe = exported.config.get("task", {})
    about = exported.config.get("setting", {}).get("model", {})
    if recipe.get("kind") != "catalogue" or ":" in str(about.get("name")):
        yield ""
        yield f"model = ...  # the {type(exported.model).__name__} of the task"
        return
    facts = getattr(getattr(exported.task.origin, "pool", None), "facts", {})
    arguments = [repr(about["name"]), str(exported.config["setting"]["data"]["classes"])]
    options = repr(about.get("options") or {})
    given = [f"{name}={value}" for name, value in facts.items()]
    yield "from flatfed import models"
    yield ""
    yield f"model = models.build({', '.join([*arguments, f'options={options}', *given])})"
