"""The final model of a run as a file that any PyTorch program reads: safetensors, under the model's own names."""

from __future__ import annotations

from pathlib import Path

import safetensors.torch

from flatfed.core.errors import ConfigError
from flatfed.experiments.running.run import Run
from flatfed.runs.records.files import replace_file
from flatfed.tracking.feed import MODEL


def write_model(run: Run) -> Path:
    """Write the evaluated model into the run directory."""
    if run.path is None:
        raise ConfigError("the run has no directory to write its model to")
    state = run.model().state_dict()
    # Tied parameters have one memory and two names, which safetensors does not take.
    tensors = {name: tensor.detach().clone().contiguous() for name, tensor in state.items()}
    replace_file(run.path / MODEL, safetensors.torch.save(tensors))
    return run.path / MODEL
