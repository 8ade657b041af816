"""What a method sees of one client while the client works: `w`, `start`, `received`, `kept` and the oracle."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from flatfed.core.configuration.base_optimiser import PREFIX, STEPS, StepState
from flatfed.core.configuration.settings import Settings
from flatfed.core.method.algorithm import Direction, Gradient
from flatfed.core.method.messages import Message
from flatfed.core.method.state import State
from flatfed.core.method.vectors import norm
from flatfed.core.model.devices import CPU, seed_device
from flatfed.core.model.layout import Layout
from flatfed.core.model.oracle import ClientOracle
from flatfed.core.randomness import key, torch_generator
from flatfed.core.task.examples import Examples, epoch_batches
from flatfed.core.task.structures import Batch, Structure


class Client:
    """One client during one exchange.

    Attributes:
        id, round, exchange: who and when (all from 0).
        lr, momentum, weight_decay: the learning rate of this round, and the settings' client momentum and decay.
        epochs: passes over the client's examples in this exchange.
        samples: number of examples, `n_k`.
        steps: number of local steps, `K_k = local_epochs * ceil(n_k / batch_size)`.
        step: index of the current step.
        w: the live local model, a flat vector.
        start: where the local steps began (the model received).
        received: the server's message, to read: `received.c` or `received.scalars["rho"]`.
        kept: what this client keeps between rounds, e.g. `kept.sigma`.
        memo: a place for values that live for this exchange only; method and client optimiser share it, so each notes
            under names of its own.
        watch: numbers that a method wants to see in the history, as the mean over the round's clients.
        keeps_local_layers: set it to False in an exchange that is only a probe: local layers stay as they were before.
        is_weight: True on entries of tensors named `*weight*`.
    """

    def __init__(
        self,
        id: int,
        round: int,
        exchange: int,
        lr: float,
        received: Message,
        kept: State,
        examples: Examples,
        oracle: ClientOracle,
        settings: Settings,
        pulse: Callable[[], None],
    ) -> None:
        self.id, self.round, self.exchange = id, round, exchange
        self.lr, self.momentum, self.weight_decay = lr, settings.momentum, settings.weight_decay
        self.received, self.kept, self.memo = received, kept, SimpleNamespace()
        self.watch: dict[str, float] = {}
        self.keeps_local_layers = True
        self.samples, self.epochs = len(examples), settings.local_epochs
        batches = 1 if settings.batch_size is None else math.ceil(self.samples / settings.batch_size)
        self.steps, self.step = settings.local_epochs * batches, 0
        # `w` is the oracle's own vector and moves with every step, so the start must be a copy.
        self.w, self.start, self.is_weight = oracle.w, oracle.w.clone(), oracle.is_weight
        self._examples, self._oracle, self._settings, self._pulse = examples, oracle, settings, pulse
        self._key = (settings.seed, "shuffle", round, exchange, id)
        self._seeds: dict[str, int] = {}
        self._batch: Batch | None = None
        self._step_loss: float | None = None
        self._loss_sum, self._loss_count = 0.0, 0

    # The oracle.

    def gradient(
        self,
        at: Tensor | None = None,
        plus: Callable[[Any], Tensor] | None = None,
        moved: Tensor | None = None,
    ) -> Tensor:
        """Return the gradient of the loss on the current batch, here or `at` another point; one backprop.

        `plus(outputs)` is added to the loss. With `moved`, a vector of the full space, all weights that the model
        computes with are moved by it, also those that are frozen. The result is valid until the call after the next.
        Only the first pass of a step moves BatchNorm statistics.
        """
        inputs, targets = self._current()
        self._draw_from("model", self.step)
        first = self._step_loss is None
        # The generator was keyed by the step, not by the pass: both passes of SAM have the same dropout.
        gradient, loss = self._oracle.gradient(inputs, targets, at, plus, still=not first, moved=moved)
        if first:
            self._step_loss = loss
        return gradient

    def gradient_in_full_space(self) -> Tensor:
        """Return the gradient on the current batch by all weights that the model computes with; one backprop.

        That is a vector of the full space: of frozen weights too, and not of the adapters that add to them (LoRA).
        """
        inputs, targets = self._current()
        self._draw_from("model", self.step)
        first = self._step_loss is None
        gradient, loss = self._oracle.gradient_in_full_space(inputs, targets, still=not first)
        if first:
            self._step_loss = loss
        return gradient

    def outputs(self, at: Tensor | None = None) -> Any:
        """Return the model's outputs on the current batch, without a gradient: a frozen teacher, say."""
        self._draw_from("model", self.step)
        return self._oracle.outputs(self._current()[0], at)

    def scores(self, outputs: Any) -> Tensor:
        """Return the main output of a model, N x classes (x pixels or tokens), whatever else it returns."""
        return self._oracle.task.class_scores(outputs)

    def full_gradient(self, at: Tensor | None = None) -> Tensor:
        """Return the gradient over all of the client's examples, without augmentation; a backprop a batch."""
        size = self._settings.batch_size or self.samples
        total = torch.zeros_like(self.w)
        for number, indices in enumerate(torch.split(torch.arange(self.samples), size)):
            self._draw_from("full data", number)
            inputs, targets = self._oracle.batch(*self._examples.batch(indices))
            self._draw_from("full model", number)
            # This is no step of training, so BatchNorm's statistics stay.
            gradient, _ = self._oracle.gradient(inputs, targets, at, still=True)
            total.add_(gradient, alpha=len(indices) / self.samples)
        return total

    def complete(self, model: Tensor) -> Tensor:
        """Return a received model with this client's own local layers, where there are any; else as it is."""
        shared = self._oracle.layout.shared
        return model if shared == self._oracle.layout.size else torch.cat([model[:shared], self.start[shared:]])

    @property
    def layout(self) -> Layout:
        """Where each parameter of the model lies in `w`."""
        return self._oracle.layout

    # The local steps.

    def descend(self, gradient: Gradient, direction: Direction) -> None:
        """Take the local steps: `q = direction(gradient)`, clip, and the step of the base optimiser."""
        if not self._oracle.takes_steps(Descent(self, gradient, direction)):
            self.take_steps(gradient, direction)
            return
        # As the last of its own steps would have left it: what the method draws from now on is the client's own.
        self._draw_from("data" if self._step_loss is None else "model", self.step - 1)

    def take_steps(self, gradient: Gradient, direction: Direction) -> None:
        """Take the local steps here, one batch after the other."""
        held = self._held()
        for epoch in range(self._settings.local_epochs):
            for indices in self._batches(epoch):
                self._pulse()
                self._take(indices)
                self._move(self._next(gradient, direction), held)
                self._note_loss(indices.shape[-1])
                self.step += 1
        self._keep(held)

    def _held(self) -> StepState:
        """Return what the base optimiser holds before the first step: nothing, or what the client has kept."""
        names = self._settings.base_opt.kept()
        if not names:
            return StepState()
        # The client's own vectors: the steps change them in place.
        return StepState({name: getattr(self.kept, f"{PREFIX}{name}") for name in names}, self._kept_steps())

    def _kept_steps(self) -> int:
        return int(getattr(self.kept, STEPS))

    def _keep(self, held: StepState) -> None:
        """Keep how many steps there are in what the base optimiser holds, where it is kept."""
        if self._settings.base_opt.kept():
            setattr(self.kept, STEPS, held.steps)

    def _next(self, gradient: Gradient, direction: Direction) -> Tensor:
        """Return the direction of this step; corrections are for shared layers, local ones follow the gradient."""
        g = gradient(self)
        shared = self._oracle.layout.shared
        if shared == self._oracle.layout.size:
            return direction(self, g)
        # A copy, made before `direction`: that may work in place, or ask for gradients that overwrite `g`.
        own = g[..., shared:].clone()
        return torch.cat([direction(self, g)[..., :shared], own], dim=-1)

    def _note_loss(self, examples: int) -> None:
        self._loss_sum += (self._step_loss or 0.0) * examples
        self._loss_count += examples

    def _batches(self, epoch: int) -> Iterator[Tensor]:
        """Yield the index batches of an epoch."""
        return epoch_batches(self.samples, self._settings.batch_size, (*self._key, epoch))

    @property
    def train_loss(self) -> float | None:
        """Mean loss over the examples seen, each at its step's first pass; None if no step was taken."""
        return self._loss_sum / self._loss_count if self._loss_count else None

    def _move(self, q: Tensor, held: StepState) -> None:
        """Clip the direction, and let the base optimiser step along it, in place."""
        held.steps += 1
        self._settings.base_opt.step(self, q, self._clipping(q), held)

    def _clipping(self, q: Tensor) -> float:
        """Return `min(1, clip/||q||)`."""
        if self._settings.clip is None:
            return 1.0
        length = norm(q)
        return self._settings.clip / length if length > self._settings.clip else 1.0

    def _draw_from(self, purpose: str, number: int) -> None:
        """Key the global generator, from which dropout and data sets' transforms draw."""
        # Hashed once per exchange: each step adds its number, which costs less than a key of its own.
        if purpose not in self._seeds:
            self._seeds[purpose] = key(self._settings.seed, purpose, self.round, self.exchange, self.id)
        torch.default_generator.manual_seed(self._seeds[purpose] + number)
        if self._oracle.device is not CPU:
            seed_device(self._oracle.device, self._seeds[purpose] + number)

    def _take(self, indices: Tensor) -> None:
        """Make these examples the current batch."""
        self._draw_from("data", self.step)
        self._hold(*self._examples.batch(indices))

    def _hold(self, inputs: Structure, targets: Structure) -> None:
        """Make raw examples the current batch, augmented once for all passes of the step."""
        inputs, targets = self._oracle.placed(inputs, targets)
        if self._oracle.task.augment is not None:
            generator = torch_generator(self._settings.seed, "augment", *self._key[2:], self.step)
            inputs = self._oracle.task.augment(inputs, generator)
        self._batch, self._step_loss = self._oracle.batch(inputs, targets), None
        if self._oracle.task.batch_transform is not None:
            # The name in the key is the one of the first version: another would change every draw.
            generator = torch_generator(self._settings.seed, "joint", *self._key[2:], self.step)
            self._batch = self._oracle.typed(*self._oracle.task.batch_transform(*self._batch, generator))

    def _current(self) -> Batch:
        if self._batch is None:
            raise RuntimeError("there is no current batch outside the local steps; use full_gradient()")
        return self._batch


class Descent(NamedTuple):
    """The local steps that a client wants to take: by the method's gradient and direction."""

    client: Client
    gradient: Gradient
    direction: Direction
