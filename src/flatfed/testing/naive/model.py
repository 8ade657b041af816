"""The model, Linear(5, 4), tanh, Linear(4, 3) in the order of model.parameters(), and its gradients."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Data = tuple[NDArray[np.float64], NDArray[np.int64]]
Gradient = Callable[[Vector, NDArray[np.float64], NDArray[np.int64]], Vector]

INPUTS, HIDDEN, CLASSES = 5, 4, 3
SHAPES: dict[str, tuple[int, ...]] = {
    "0.weight": (HIDDEN, INPUTS),
    "0.bias": (HIDDEN,),
    "2.weight": (CLASSES, HIDDEN),
    "2.bias": (CLASSES,),
}
DIMENSION = sum(math.prod(shape) for shape in SHAPES.values())
IS_WEIGHT = np.concatenate([np.full(math.prod(shape), "weight" in name) for name, shape in SHAPES.items()])


def unpack(w: Vector) -> dict[str, Vector]:
    """Return the layers' tensors of a flat vector."""
    tensors, at = {}, 0
    for name, shape in SHAPES.items():
        size = math.prod(shape)
        tensors[name] = w[at : at + size].reshape(shape)
        at += size
    return tensors


def softmax(z: Vector) -> Vector:
    """Return the probabilities of each row of scores."""
    e = np.exp(z - z.max(axis=1, keepdims=True))
    probabilities: Vector = e / e.sum(axis=1, keepdims=True)
    return probabilities


def hidden(w: Vector, x: Vector) -> Vector:
    """Return the hidden layer."""
    p = unpack(w)
    return np.tanh(x @ p["0.weight"].T + p["0.bias"])


def logits(w: Vector, x: Vector) -> Vector:
    """Return the scores of the classes."""
    p = unpack(w)
    return hidden(w, x) @ p["2.weight"].T + p["2.bias"]


def backward(w: Vector, x: Vector, dz: Vector) -> Vector:
    """The flat parameter gradient, given the gradient `dz` of the loss with respect to the logits."""
    p, a = unpack(w), hidden(w, x)
    du = (dz @ p["2.weight"]) * (1.0 - a**2)
    parts = {"0.weight": du.T @ x, "0.bias": du.sum(0), "2.weight": dz.T @ a, "2.bias": dz.sum(0)}
    return np.concatenate([parts[name].ravel() for name in SHAPES])


def cross_entropy(w: Vector, x: Vector, y: NDArray[np.int64]) -> float:
    """Return the mean cross-entropy."""
    return float(-np.log(softmax(logits(w, x))[np.arange(len(y)), y]).mean())


def cross_entropy_gradient(w: Vector, x: Vector, y: NDArray[np.int64]) -> Vector:
    """Return the gradient of the mean cross-entropy."""
    dz = softmax(logits(w, x))
    dz[np.arange(len(y)), y] -= 1.0
    return backward(w, x, dz / len(y))


def zero_gradient(w: Vector, x: Vector, y: NDArray[np.int64]) -> Vector:
    """The data gradient of a loss that is constant."""
    return np.zeros_like(w)


def kl(w: Vector, e: Vector, x: Vector, tau: float) -> float:
    """KL(softmax(z_e / tau) || softmax(z_w / tau)), batch mean."""
    teacher, student = softmax(logits(e, x) / tau), softmax(logits(w, x) / tau)
    return float((teacher * (np.log(teacher) - np.log(student))).sum(1).mean())


def kl_gradient(w: Vector, e: Vector, x: Vector, tau: float) -> Vector:
    """Return the gradient of `kl` with respect to `w`."""
    dz = (softmax(logits(w, x) / tau) - softmax(logits(e, x) / tau)) / tau
    return backward(w, x, dz / len(x))
