"""What decides whether two machines compute the same: their flatfed, and the arithmetic that torch does there."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import torch
import torch.nn.functional as F

import flatfed
from flatfed.core.model.devices import single_thread
from flatfed.core.randomness import preserved_global_state
from flatfed.runs.environment import arithmetic_of, describe

STEPS = 3


@functools.cache
def code_fingerprint() -> str:
    """Return a SHA-256 of all of flatfed's own files, by their names and contents."""
    root = Path(flatfed.__file__).parent
    digest = hashlib.sha256(flatfed.__version__.encode())
    for file in sorted(root.rglob("*.py")):
        digest.update(str(file.relative_to(root)).encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


@functools.cache
def arithmetic_fingerprint() -> dict[str, str]:
    """Return what decides the bits of a step, by name, and a digest of some steps really taken."""
    return arithmetic_of(describe()) | {"reference step": _reference_step()[:16]}


def _reference_step() -> str:
    """Return a SHA-256 of a small network after some steps: convolution, normalisation, products, a reduction."""
    with single_thread(), preserved_global_state():
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(8 * 14 * 14, 10),
        )
        inputs, targets = torch.randn(16, 3, 16, 16), torch.arange(16) % 10
        for _ in range(STEPS):
            loss = F.cross_entropy(model(inputs), targets)
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                    parameter.sub_(gradient, alpha=0.1)
        digest = hashlib.sha256()
        for parameter in model.parameters():
            digest.update(parameter.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()
