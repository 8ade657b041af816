"""A model as an ONNX graph, compared with the model itself on real examples before anybody gets it."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from flatfed.core.errors import ConfigError
from flatfed.core.model.devices import single_thread
from flatfed.experiments.exporting.exported_model import ExportedModel
from flatfed.runs.records.files import replace_file

OPSET = 18
TOLERANCE = 1e-5
"""Of outputs, relative to the largest of them where that is beyond 1."""
EXAMPLES = 16
"""Real examples that the graph is traced and checked with."""
INPUT, OUTPUT, BATCH = "input", "output", "batch"
LIBRARIES = ("onnx", "onnxscript", "onnxruntime")


def write_onnx(exported: ExportedModel, path: Path, raw_inputs: bool = False) -> float:
    """Write the graph, with any number of examples per batch, and return by how much its outputs differ at most.

    With `raw_inputs` it takes the data set's own values (bytes of pixels) and prepares them itself.
    """
    _require_libraries()
    network, inputs = _network(exported, raw_inputs)
    graph = _graph(network, inputs[:2])
    _add_facts(graph, _facts(exported, raw_inputs))
    data = graph.SerializeToString()
    difference = _difference(data, network, inputs)
    replace_file(path, data)
    return difference


class _Prepared(nn.Module):
    """A model that takes raw inputs."""

    def __init__(self, model: nn.Module, prepare: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
        super().__init__()
        self.model, self.prepare, self.dtype = model, prepare, dtype

    def forward(self, inputs: Tensor) -> Any:
        """Prepare as in training, then infer."""
        prepared = self.prepare(inputs)
        return self.model(prepared.to(self.dtype) if prepared.is_floating_point() else prepared)


def _network(exported: ExportedModel, raw_inputs: bool) -> tuple[nn.Module, Tensor]:
    """Return what the graph computes, and examples of what it takes."""
    raw, prepare = exported.example_inputs(EXAMPLES), exported.task.prepare
    if raw_inputs and prepare is not None:
        return _Prepared(exported.model, prepare, exported.dtype).eval(), raw
    prepared = raw if prepare is None else prepare(raw)
    return exported.model, prepared.to(exported.dtype) if prepared.is_floating_point() else prepared


def _graph(network: nn.Module, inputs: Tensor) -> Any:
    """Return the graph of a network; what cannot be one is an error."""
    # Of one example the number would be taken for a constant.
    if len(inputs) < 2:
        inputs = torch.cat([inputs, inputs])
    try:
        with _quiet(), single_thread():
            program = torch.onnx.export(
                network,
                (inputs,),
                dynamo=True,
                verbose=False,
                opset_version=OPSET,
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_shapes=({0: torch.export.Dim(BATCH)},),
            )
    except Exception as error:  # the exporter raises many kinds
        raise ConfigError(f"the model cannot be written as an ONNX graph: {_first_line(error)}") from error
    assert program is not None
    return program.model_proto


def _difference(data: bytes, network: nn.Module, inputs: Tensor) -> float:
    """Return by how much the graph differs from the network, at most; more than is allowed is an error."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    largest = 0.0
    # Several numbers of examples: the batch must not have become a constant.
    for count in sorted({1, len(inputs)}):
        some = inputs[:count].contiguous()
        with torch.no_grad(), single_thread():
            expected = _tensors(network(some))
        actual = [torch.from_numpy(array) for array in session.run(None, {INPUT: some.numpy()})]
        largest = max([largest, *map(_relative, expected, actual)])
    if not largest <= TOLERANCE:
        raise ConfigError(
            f"the ONNX graph does not compute what the model does: outputs differ by {largest:.2g}, and {TOLERANCE:g} "
            "is allowed; nothing is written. Export with dtype float32, or as safetensors"
        )
    return largest


def _relative(expected: Tensor, actual: Tensor) -> float:
    if expected.shape != actual.shape:
        return float("inf")
    expected, actual = expected.double(), actual.double()
    scale = max(1.0, float(expected.abs().max()))
    return float((expected - actual).abs().max()) / scale


def _tensors(outputs: Any) -> list[Tensor]:
    """Return the tensors of what a model returns, in the order of the graph's outputs."""
    if isinstance(outputs, Tensor):
        return [outputs]
    values = outputs.values() if isinstance(outputs, Mapping) else outputs
    return [tensor for value in values for tensor in _tensors(value)]


def _facts(exported: ExportedModel, raw_inputs: bool) -> dict[str, str]:
    prepare = exported.task.prepare
    facts = exported.facts() | {"class_names": json.dumps(exported.class_names)}
    if prepare is not None:
        facts["preparation"] = "in the graph" if raw_inputs else repr(prepare)
    return facts


def _add_facts(graph: Any, facts: Mapping[str, str]) -> None:
    for name, value in facts.items():
        entry = graph.metadata_props.add()
        entry.key, entry.value = name, value


def _require_libraries() -> None:
    """Refuse where a library is missing, with the command that brings them all."""
    import importlib.util

    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"ONNX needs {' and '.join(missing)}; pip install 'flatfed[export]'")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's remarks about itself and absent libraries from the user."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
