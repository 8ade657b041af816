"""The task: a model, the clients' examples, a test set and a loss."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flatfed.core.errors import ConfigError
from flatfed.core.model.layout import Layout, Local
from flatfed.core.task.examples import Examples, Partition, Pooled, as_examples
from flatfed.core.task.losses import causal_cross_entropy, model_loss
from flatfed.core.task.metrics import Metrics, declared
from flatfed.core.task.origin import Origin
from flatfed.core.task.outputs import Criterion, Loss, scores
from flatfed.core.task.roster import Roster
from flatfed.core.task.sources import LABELS, Collate, Pad, Reading, Split
from flatfed.core.task.structures import Batch, Structure
from flatfed.core.task.token_metrics import CausalLanguageModel, MetricsOfLoss, metrics_of_loss

Augment = Callable[[Structure, torch.Generator], Structure]
BatchTransform = Callable[[Structure, Structure, torch.Generator], Batch]

TEST = "test"
VALIDATION = "validation"
"""The name of the test set that is held out of the clients' examples, to select by."""
TAKEN = ("train", "model", "update", "global", "class")
"""First words of other columns of a history, which a test set cannot be called."""


@dataclass
class Task:
    """What is learnt: any `nn.Module` (its weights are the starting point) over the clients' data.

    Args:
        model: any module; it is copied, never changed.
        clients: per client a pair of tensors, a dict or tuple of them, a list of examples, a torch Dataset, or
            `Examples`; or a `Partition` of one pool; or a `Roster` of clients that are elsewhere.
        test: the same for the test set, or None.
        loss: `loss(outputs, targets)` to a mean scalar. Losses of torch and flatfed see a model's `logits` where it
            returns more than a tensor; one of your own sees the outputs as they are. `ff.model_loss`: the model's own.
        augment: `augment(inputs, generator)` to inputs, drawn once per step (both passes of SAM see the same pixels).
        prepare: `prepare(inputs)` to what the model takes, e.g. bytes to normalised numbers; also used in tests.
        batch_transform: `batch_transform(inputs, targets, generator)` to both, on the prepared training batch: what
            changes targets too, or acts after normalisation (mixup, cutout, scaling of an image with its mask); drawn
            once per step.
        tests: further test sets by name (`{"unseen": (x, y)}`); their metrics are called `unseen_loss` and so on.
        metrics: what a test measures besides the loss, and how reports show it (`ff.Shown`); by default what goes
            with the loss.
        test_batch: examples that are evaluated at a time, at most.
        local: parts of the model that stay on the clients: `"bn"` (FedBN), `"bn-stats"` (SiLoBN) or `ff.Local(...)`.
        name: for people.
        class_names: the name of each class, where they are known.
        joint: the name that `batch_transform` had before.
        origin: where the examples come from, where other machines can have them too.
        collate: `collate(list of examples)` to a batch, for Datasets and lists of examples.
        pad: what fills rows of different length up, in batches without a `collate`: a number, or numbers by the names
            of the entries.
        targets: the name of the targets among the entries of a dict.
    """

    model: nn.Module
    clients: Sequence[Any]
    test: Any = None
    loss: Loss = F.cross_entropy
    augment: Augment | None = None
    prepare: Callable[[Structure], Structure] | None = None
    batch_transform: BatchTransform | None = None
    tests: Mapping[str, Any] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=MetricsOfLoss)
    local: Local | str = field(default_factory=Local)
    name: str = "task"
    test_batch: int = 512
    class_names: Sequence[str] = ()
    joint: InitVar[BatchTransform | None] = None  # the old name
    origin: Origin | None = field(default=None, compare=False, repr=False)
    collate: Collate | None = None
    pad: Pad = None
    targets: str = LABELS

    def __post_init__(self, joint: BatchTransform | None) -> None:
        if joint is not None:
            self.batch_transform = joint
        if isinstance(self.metrics, MetricsOfLoss):
            self.metrics = metrics_of_loss(self.loss)
        self._check_fields()
        self.criterion = Criterion(self.loss)
        is_causal = self.loss is causal_cross_entropy or isinstance(self.metrics, CausalLanguageModel)
        split = Split(self.targets, keeps=self.loss is model_loss, next_tokens=is_causal)
        self._reading = Reading(self.collate, self.pad, split)
        if isinstance(self.local, str):
            self.local = Local.named(self.local, self.model)
        self._take_clients()
        if self.test is not None:
            self.test = self._as_test(self.test, TEST)
        self.tests = {name: self._as_test(test, name) for name, test in self.tests.items()}
        if not any(self.samples(client) for client in range(self.population)):
            raise ConfigError("no client has any data")

    def __getstate__(self) -> dict[str, Any]:
        """Return what goes to another process: it gets the examples, and need not know where they come from."""
        return self.__dict__ | {"origin": None}

    def _check_fields(self) -> None:
        """Refuse what is of another kind than it should be."""
        if not isinstance(self.model, nn.Module):
            raise ConfigError(f"model must be a torch.nn.Module, not {type(self.model).__name__}")
        if isinstance(self.test_batch, bool) or not isinstance(self.test_batch, int) or self.test_batch < 1:
            raise ConfigError(f"test_batch must be a whole number of at least 1, not {self.test_batch!r}")
        if not isinstance(self.tests, Mapping):
            raise ConfigError(f"tests must be test sets by name, {{'unseen': ...}}, not a {type(self.tests).__name__}")
        declared(self.metrics)

    def _take_clients(self) -> None:
        """Let every client's examples be `Examples`."""
        if not isinstance(self.clients, Sequence) or isinstance(self.clients, str):
            raise ConfigError(f"clients must be a list with one entry per client, not a {type(self.clients).__name__}")
        if len(self.clients) == 0:
            raise ConfigError("the task has no clients")
        if not isinstance(self.clients, Partition | Pooled | Roster):
            sources = enumerate(self.clients)
            self.clients = [as_examples(source, f"client {client}", self._reading) for client, source in sources]

    def _as_test(self, source: Any, name: str) -> Examples:
        self._check_test_name(name)
        examples = as_examples(source, name, self._reading)
        if len(examples) == 0:
            raise ConfigError(f"the {name} set is empty; leave it out, or pass test=None to go without")
        return examples

    def _check_test_name(self, name: str) -> None:
        """Refuse a name whose metrics would be mistaken for others in the history."""
        is_word = isinstance(name, str) and name.isidentifier()
        is_second_test = name == TEST and name in self.tests
        if not is_word or is_second_test or name in TAKEN:
            raise ConfigError(f"a further test set cannot be called {name!r}; take another name, such as 'unseen'")
        for other in {TEST, "global", *self.tests} - {name}:
            if name.startswith(f"{other}_"):
                raise ConfigError(f"a test set called {name!r} would mix up with {other!r} in the history; rename it")

    @property
    def test_sets(self) -> dict[str, Examples]:
        """Every test set by name: `test`, where there is one, and the further ones."""
        return ({TEST: self.test} if self.test is not None else {}) | dict(self.tests)

    @property
    def population(self) -> int:
        """Number of clients, N."""
        return len(self.clients)

    def examples(self, client: int) -> Examples:
        """Return one client's examples."""
        examples: Examples = self.clients[client]
        return examples

    def samples(self, client: int) -> int:
        """Return how many examples a client holds: all that a server needs to know of them."""
        return len(self.examples(client))

    @property
    def holds_examples(self) -> bool:
        """Whether the clients' examples are here; if not, they are where the clients are, and only counted here."""
        return not isinstance(self.clients, Roster)

    def pooled(self) -> Task:
        """Return the task of one client that holds everyone's examples; no part of the model stays with anyone."""
        if isinstance(self.clients, Pooled):
            return self
        if not self.holds_examples:
            raise ConfigError("the clients' examples are not here, so they cannot be put together")
        return replace(self, clients=Pooled(self.clients), local=Local())

    def apart(self) -> Task:
        """Return the task with the clients that were pooled."""
        return replace(self, clients=self.clients.apart) if isinstance(self.clients, Pooled) else self

    def class_name(self, number: int) -> str:
        """Return what people call a class: its name, or `class 3` where it has none."""
        return self.class_names[number] if number < len(self.class_names) else f"class {number}"

    def class_scores(self, outputs: Structure) -> Tensor:
        """Return the main output of the model with the classes as its second dimension."""
        found = scores(outputs)
        return found.movedim(-1, 1) if getattr(self.metrics, "classes_last", False) else found

    def fresh_model(self, dtype: torch.dtype) -> nn.Module:
        """Return a copy of the model in this type."""
        return copy.deepcopy(self.model).to(dtype)

    def layout(self) -> Layout:
        """Return where the model's tensors lie in the flat vectors."""
        return Layout(self.model, self.kept_local)

    @property
    def kept_local(self) -> Local:
        """The parts of the model that stay on the clients."""
        assert isinstance(self.local, Local)
        return self.local
