"""Batches of any structure: dicts, tuples, rows of different length, Datasets of them; outputs of any structure."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import flatfed as ff
from core.bench import close, seeded, train
from core.texts import CLASSES, LENGTHS, Reader, Returning, Tagger, Writer, clients, filled, made, texts
from flatfed.core.task.examples import joined, targets_of
from flatfed.core.task.validation import HeldOut, hold_out

PAD = {"input_ids": 0}
SMALL: dict[str, Any] = {"batch_size": 2, "local_epochs": 2}


def task(sources: Any = None, model: nn.Module | None = None, **changes: Any) -> ff.Task:
    chosen = clients() if sources is None else sources
    return ff.Task(model or made(Reader), chosen, **{"test": texts((4, 2, 6, 1, 3), 9), "pad": PAD, **changes})


class Listed:
    """A map-style Dataset of what a list holds."""

    def __init__(self, examples: list[Any]) -> None:
        self.examples = examples

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> Any:
        return self.examples[index]


class Table(Listed):
    """One that has a method `batch` and names of columns, as tables of the Hugging Face library do."""

    column_names = ("input_ids",)

    def batch(self, size: int) -> None:
        raise AssertionError


def columns(examples: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [example[name] for example in examples] for name in examples[0]}


def by_loops(examples: list[dict[str, Any]]) -> dict[str, Tensor]:
    return filled(examples, max(len(example["input_ids"]) for example in examples))


def nested(examples: list[dict[str, Any]]) -> Any:
    entries = columns(examples)
    labels = torch.tensor(entries.pop("labels"))
    return {name: ff.Ragged(rows, pad=0) for name, rows in entries.items()}, labels


def positional(examples: list[dict[str, Any]]) -> Any:
    inputs, labels = nested(examples)
    return inputs["input_ids"], inputs["attention_mask"], labels


SOURCES: dict[str, tuple[Any, dict[str, Any]]] = {
    "columns": (columns, {"pad": PAD}),
    "one number": (columns, {"pad": 0}),
    "inputs by name": (nested, {"pad": None}),
    "inputs by position": (positional, {"pad": None}),
    "tuples": (lambda examples: [tuple(example.values()) for example in examples], {"pad": 0}),
    "data sets": (Listed, {"pad": PAD}),
    "tables": (Table, {"pad": PAD}),
    "collated": (Listed, {"pad": None, "collate": by_loops}),
    "collated lists": (list, {"pad": None, "collate": by_loops}),
    "named": (lambda e: [{"y": x["labels"], **{k: x[k] for k in x if k != "labels"}} for x in e], {"targets": "y"}),
    "label": (lambda e: [{"label": x["labels"], **{k: x[k] for k in x if k != "labels"}} for x in e], {}),
    "tensors": (lambda e: [{k: torch.tensor(v) for k, v in x.items()} for x in e], {}),
    "arrays": (lambda e: [{k: np.array(v) for k, v in x.items()} for x in e], {}),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_of_the_same_texts_gives_the_same_bits(name: str) -> None:
    expected = train(task(), ff.make("fedsam"), **SMALL)
    as_source, changes = SOURCES[name]
    test = as_source(texts((4, 2, 6, 1, 3), 9))
    same = task([as_source(examples) for examples in clients()], test=test, **changes)
    run = train(same, ff.make("fedsam"), **SMALL)
    assert torch.equal(run.vector, expected.vector)
    assert run.history[-1]["test_loss"] == expected.history[-1]["test_loss"]
    assert run.history[-1]["test_accuracy"] == expected.history[-1]["test_accuracy"]


@pytest.mark.parametrize("name", ["columns", "collated"])
def test_workers_come_to_the_same_bits(name: str) -> None:
    as_source, changes = SOURCES[name]
    problem = task([as_source(examples) for examples in clients()], **changes)
    runs = [train(problem, ff.make("scaffold"), workers=workers, **SMALL) for workers in (0, 2)]
    assert torch.equal(runs[0].vector, runs[1].vector)
    assert runs[0].history[-1]["test_loss"] == runs[1].history[-1]["test_loss"]


def test_what_fills_rows_up_does_not_count() -> None:
    """The reader masks it, so that rows filled up to any width train the same model."""
    wide = task([filled(examples) for examples in clients()], test=filled(texts((4, 2, 6, 1, 3), 9)))
    runs = [train(problem, **SMALL) for problem in (task(), wide)]
    close(runs[0].vector, runs[1].vector)
    assert runs[0].history[-1]["test_loss"] == pytest.approx(runs[1].history[-1]["test_loss"], rel=1e-12)


def test_a_step_is_one_of_plain_torch() -> None:
    model, batch = made(Reader), filled(clients()[0])
    labels = batch.pop("labels")
    slopes = torch.autograd.grad(cross_entropy(model(**batch), labels), list(model.parameters()))
    expected = torch.cat([(p - 0.3 * g).flatten() for p, g in zip(model.parameters(), slopes, strict=True)])
    run = train(task(model=model), cohorts=[[0]])
    close(run.vector, expected.detach())


# --- rows of different length ---------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", [[2, 0], [1], [3, 3, 0, 2], []])
def test_rows_are_taken_and_filled_up_as_by_loops(chosen: list[int]) -> None:
    rows = [[1, 2], [], [3, 4, 5], [6]]
    dense = ff.Ragged(rows, pad=-1).take(torch.tensor(chosen, dtype=torch.int64)).dense()
    width = max((len(rows[i]) for i in chosen), default=0)
    assert dense.tolist() == [rows[i] + [-1] * (width - len(rows[i])) for i in chosen]


def test_rows_may_have_more_dimensions() -> None:
    rows = [torch.ones(2, 3), torch.full((1, 3), 2.0)]
    assert torch.equal(ff.Ragged(rows, pad=7).dense()[1], torch.tensor([[2.0] * 3, [7.0] * 3]))


@pytest.mark.parametrize("changes", [{}, {"collate": by_loops, "pad": None}])
def test_clients_with_texts_of_different_length_are_joined(changes: dict[str, Any]) -> None:
    problem = task(**changes)
    whole = joined(problem.clients)
    inputs, targets = whole.batch(torch.arange(len(whole)))
    expected = filled([example for examples in clients() for example in examples])
    assert torch.equal(inputs["input_ids"], expected["input_ids"])
    assert torch.equal(targets, expected["labels"])
    assert torch.equal(targets_of(whole), expected["labels"])


@pytest.mark.parametrize("name", ["columns", "tuples", "tensors", "arrays"])
def test_clients_whose_own_texts_are_equally_long_are_joined(name: str) -> None:
    as_source, changes = SOURCES[name]
    whole = joined(task([as_source(texts((3,))), as_source(texts((2, 2)))], **changes).clients)
    inputs, _ = whole.batch(torch.arange(3))
    ids = inputs[0] if name == "tuples" else inputs["input_ids"]
    assert torch.equal(ids, filled([*texts((3,)), *texts((2, 2))], 3)["input_ids"])


@pytest.mark.parametrize("name", ["labels", "label"])
@pytest.mark.parametrize("as_source", [list, columns])
def test_labels_of_tokens_are_filled_up_with_what_does_not_count(name: str, as_source: Any) -> None:
    examples = [{"input_ids": [1, 2, 3], name: [2, 1, 2]}, {"input_ids": [4], name: [1]}]
    problem = ff.Task(made(Tagger), [as_source(examples)], loss=ff.token_cross_entropy, pad=0)
    assert problem.clients[0].batch(torch.arange(2))[1].tolist() == [[2, 1, 2], [1, -100, -100]]


def test_several_targets_of_tokens_are_filled_up_with_what_does_not_count() -> None:
    examples = [([1, 2], ([0, 1], [1, 1])), ([3], ([1], [0]))]
    held = ff.Task(made(Tagger), [examples], loss=lambda outputs, targets: outputs.sum(), pad=0).clients[0]
    assert [part.tolist() for part in held.batch(torch.arange(2))[1]] == [[[0, 1], [1, -100]], [[1, 1], [0, -100]]]


@pytest.mark.parametrize("kind", ["lists", "partition"])
def test_what_is_held_out_and_what_is_left_are_filled_up_batch_by_batch(kind: str) -> None:
    """Rows are as they would be for clients that had never had the others."""
    pool = [example for examples in clients() for example in examples]
    parts = torch.arange(len(pool)).split([len(lengths) for lengths in LENGTHS])
    whole = task() if kind == "lists" else task(ff.Partition(*nested(pool), parts))
    held = hold_out(whole, HeldOut(0.3))
    sizes = [(row["attention_mask"].sum(1).tolist(), row["input_ids"].shape[1]) for row in single_rows(held)]
    assert sizes == [([width], width) for _, width in sizes]
    assert sorted(width for _, width in sizes) == sorted(length for lengths in LENGTHS for length in lengths)
    assert "validation_loss" in train(held, **SMALL).history[-1]


def single_rows(problem: ff.Task) -> list[dict[str, Tensor]]:
    held = [*(problem.examples(client) for client in range(problem.population)), problem.tests["validation"]]
    return [part.batch(torch.tensor([i]))[0] for part in held for i in range(len(part))]


def test_pooled_clients_train_as_one() -> None:
    together = [[example for examples in clients() for example in examples]]
    runs = [train(problem, "centralised", [[0]], batch_size=4) for problem in (task(), task(together))]
    close(runs[0].vector, runs[1].vector)  # a batch comes in the order of its holders, and sums round so


@pytest.mark.parametrize("as_example", [tuple, list])
@pytest.mark.parametrize("as_source", [list, Listed])
def test_an_example_of_two_numbers_is_an_input_and_a_target(as_source: Any, as_example: Any) -> None:
    pairs = [as_example((0.5, 1)), as_example((1.5, 0)), as_example((2.5, 1))]
    inputs, targets = ff.Task(made(Reader), [as_source(pairs)]).clients[0].batch(torch.tensor([0, 1, 2]))
    assert inputs.tolist() == [0.5, 1.5, 2.5] and targets.tolist() == [1, 0, 1]


def test_a_partition_divides_a_pool_of_any_structure() -> None:
    pool = [example for examples in clients() for example in examples]
    parts = torch.arange(len(pool)).split([len(lengths) for lengths in LENGTHS])
    runs = [train(task(sources), **SMALL) for sources in (None, ff.Partition(*nested(pool), parts))]
    assert torch.equal(runs[0].vector, runs[1].vector)


def test_tensors_of_a_client_are_not_copied() -> None:
    batch = filled(clients()[0])
    held = task([batch]).clients[0]
    assert held.inputs["input_ids"].data_ptr() == batch["input_ids"].data_ptr()
    assert held.targets.data_ptr() == batch["labels"].data_ptr()


# --- outputs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [cross_entropy, nn.CrossEntropyLoss()])
@pytest.mark.parametrize("kind", ["record", "dict", "one name", "dataclass", "tuple", "tensor"])
def test_losses_of_torch_see_the_scores(kind: str, loss: Any) -> None:
    run = train(task(model=made(Returning, kind), loss=loss), **SMALL)
    expected = train(task(), **SMALL)
    assert torch.equal(run.vector, expected.vector)
    assert run.history[-1]["test_loss"] == expected.history[-1]["test_loss"]
    assert kind == "tuple" or run.history[-1]["test_accuracy"] == expected.history[-1]["test_accuracy"]


def of_record(outputs: Any, targets: Tensor) -> Tensor:
    assert "hidden" in outputs
    return cross_entropy(outputs.logits, targets)


@pytest.mark.parametrize("kind", ["record", "tuple"])
def test_the_model_may_compute_its_loss(kind: str) -> None:
    expected = train(task(), **SMALL)
    own = task(model=made(Returning, kind), loss=ff.model_loss, metrics=ff.Classification())
    run = train(own, **SMALL)
    assert torch.equal(run.vector, expected.vector)
    assert run.history[-1]["test_loss"] == expected.history[-1]["test_loss"]
    assert torch.equal(train(task(model=made(Returning, "record"), loss=of_record), **SMALL).vector, expected.vector)


@pytest.mark.parametrize("method", ["fedgmt", "fedgloss", "scaffold"])
def test_methods_train_on_records_of_outputs(method: str) -> None:
    runs = [train(task(model=model), method, **SMALL) for model in (None, made(Returning, "record"))]
    assert torch.equal(runs[0].vector, runs[1].vector)


# --- metrics --------------------------------------------------------------------------------------------------


def tagged(test_batch: int) -> ff.Task:
    test = texts((4, 2, 6, 1, 3), 9, tags=True)
    model = made(Tagger)
    return task(clients(tags=True), model, test=test, loss=ff.token_cross_entropy, test_batch=test_batch)


class Nothing:
    """Metrics of the user's own that do not say what the loss is a mean over."""

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, Tensor]:
        return {"seen": torch.tensor(1.0)}

    def summarise(self, totals: Any) -> dict[str, Any]:
        return {"batches": float(totals["seen"])}


@pytest.mark.parametrize("loss", [ff.token_cross_entropy, ff.causal_cross_entropy])
def test_the_mean_is_over_tokens_whatever_the_metrics(loss: Any) -> None:
    test = texts((4, 2, 6, 1, 3), 9, tags=True)
    parts = {"model": made(Tagger), "loss": loss, "metrics": Nothing()}
    runs = [train(task(clients(tags=True), test=test, test_batch=size, **parts), **SMALL) for size in (2, 9)]
    assert [run.history[-1]["test_batches"] for run in runs] == [3, 1]
    assert runs[0].history[-1]["test_loss"] == pytest.approx(runs[1].history[-1]["test_loss"], rel=1e-12)


@pytest.mark.parametrize("test_batch", [1, 2, 9])
def test_every_labelled_token_counts_once(test_batch: int) -> None:
    run = train(tagged(test_batch), **SMALL)
    batch = filled(texts((4, 2, 6, 1, 3), 9, tags=True), tags=True)
    labels = batch.pop("labels")
    scores = run.model()(**batch)[labels >= 0].detach()
    row = run.history[-1]
    assert row["test_loss"] == pytest.approx(float(cross_entropy(scores, labels[labels >= 0])), rel=1e-12)
    assert row["test_accuracy"] == float((scores.argmax(-1) == labels[labels >= 0]).double().mean())


def written(**changes: Any) -> ff.Task:
    return task(model=made(Writer), loss=ff.causal_cross_entropy, **changes)


def tokens(examples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"input_ids": example["input_ids"]} for example in examples]


@pytest.mark.parametrize("test_batch", [1, 2, 9])
def test_perplexity_is_over_next_tokens(test_batch: int) -> None:
    test = tokens(texts((4, 2, 6, 1, 3), 9))
    run = train(
        written(sources=[tokens(examples) for examples in clients()], test=test, test_batch=test_batch), **SMALL
    )
    total, count, right = 0.0, 0, 0
    for example in test:
        ids = torch.tensor(example["input_ids"])
        scores = run.model()(ids.unsqueeze(0))[0].detach()
        total += float(cross_entropy(scores[:-1], ids[1:], reduction="sum")) if len(ids) > 1 else 0.0
        count, right = count + len(ids) - 1, right + int((scores[:-1].argmax(-1) == ids[1:]).sum())
    row = run.history[-1]
    assert row["test_loss"] == pytest.approx(total / count, rel=1e-12)
    assert row["test_perplexity"] == pytest.approx(float(np.exp(total / count)), rel=1e-12)
    assert row["test_accuracy"] == right / count


def test_tokens_that_are_filled_up_are_no_targets() -> None:
    wide = []
    for examples in clients():
        batch = filled(examples)
        wide.append({name: batch[name] for name in ("input_ids", "attention_mask")})
    ragged = [tokens(examples) for examples in clients()]
    runs = [train(written(sources=sources, test=None)) for sources in (wide, ragged)]
    close(runs[0].vector, runs[1].vector)


def test_a_batch_without_any_labelled_token_changes_nothing() -> None:
    examples = texts((3, 2), tags=True)
    for example in examples:
        example["labels"] = [-100] * len(example["labels"])
    problem = task([examples], made(Tagger), test=None, loss=ff.token_cross_entropy)
    run = train(problem, cohorts=[[0]])
    assert torch.equal(run.vector, torch.cat([p.detach().flatten() for p in made(Tagger).parameters()]))


def test_fedgmt_distils_over_the_classes_of_tokens() -> None:
    """As it does over the pixels of images whose classes are the second dimension."""

    def transposed(outputs: Tensor, targets: Tensor) -> Tensor:
        return ff.token_cross_entropy(outputs.movedim(1, -1), targets)

    class Channels(Tagger):
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
            return super().forward(input_ids, attention_mask).movedim(-1, 1)

    other = task(clients(tags=True), made(Channels), test=None, loss=transposed)
    runs = [train(problem, "fedgmt", **SMALL) for problem in (tagged(9), other)]
    close(runs[0].vector, runs[1].vector)


@pytest.mark.parametrize("shape", [(7,), (7, 2)])
@pytest.mark.parametrize("test_batch", [3, 100])
def test_a_regression_has_errors_and_a_share_of_explained_variance(shape: tuple[int, ...], test_batch: int) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(7, 3, generator=generator).double(), torch.randn(shape, generator=generator).double() + 5

    def squared(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.view_as(targets) - targets).square().mean()

    model = seeded(lambda: nn.Linear(3, y[0].numel()))
    metrics = ff.Regression()
    run = train(ff.Task(model, [(x, y)], (x, y), squared, metrics=metrics, test_batch=test_batch), cohorts=[[0]])
    errors = run.model()(x).detach().view_as(y) - y
    row = run.history[-1]
    spread = (y - y.mean(dim=0)).square().sum()
    assert row["test_mse"] == pytest.approx(float(errors.square().mean()), rel=1e-12)
    assert row["test_mae"] == pytest.approx(float(errors.abs().mean()), rel=1e-12)
    assert row["test_r2"] == pytest.approx(float(1 - errors.square().sum() / spread), rel=1e-10)


# --- many clients at once -------------------------------------------------------------------------------------


class Both(nn.Module):
    """Two inputs and a norm: what can be computed for several clients at once."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(2, 4)
        self.norm, self.head = nn.LayerNorm(4), nn.Linear(4, CLASSES)

    def forward(self, left: Tensor, right: Tensor) -> Any:
        return {"logits": self.head(torch.tanh(self.norm(self.first(left) + self.second(right))))}


def pairs_of_inputs(sizes: tuple[int, ...]) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(2)
    sources = []
    for n in sizes:
        left, right = (torch.randn(n, width, generator=generator) for width in (3, 2))
        sources.append({"left": left, "right": right, "labels": torch.arange(n) % CLASSES})
    return sources


@pytest.mark.parametrize("sizes", [(4, 4, 4), (3, 5, 4)])
@pytest.mark.parametrize("method", ["fedsam", "fedgmt"])
def test_clients_of_several_inputs_are_vectorised(sizes: tuple[int, ...], method: str) -> None:
    problem = ff.Task(made(Both), pairs_of_inputs(sizes))
    runs = [train(problem, method, vectorised=together, **SMALL) for together in (False, True)]
    close(runs[0].vector, runs[1].vector)


def test_a_pool_of_several_inputs_is_gathered_once() -> None:
    whole = pairs_of_inputs((12,))[0]
    labels = whole.pop("labels")
    problem = ff.Task(made(Both), ff.Partition(whole, labels, torch.arange(12).split(4)))
    runs = [train(problem, vectorised=together, **SMALL) for together in (False, True)]
    close(runs[0].vector, runs[1].vector)


class Scaled(Both):
    """One whose batches say by what number, no tensor, an input is multiplied."""

    def forward(self, left: Tensor, right: Tensor, by: float) -> Any:  # type: ignore[override]
        return super().forward(left * by, right)


def scaled_batch(examples: list[Any]) -> dict[str, Any]:
    left, right, labels = (torch.stack(column) for column in zip(*examples, strict=True))
    return {"left": left, "right": right, "by": float(left[0, 0]), "labels": labels}


@pytest.mark.parametrize("method", ["fedsam", "fedgmt"])
def test_batches_with_other_numbers_are_not_put_together(method: str) -> None:
    sources = [list(zip(*whole.values(), strict=True)) for whole in pairs_of_inputs((4, 4, 4))]
    problem = ff.Task(made(Scaled), sources, collate=scaled_batch)
    runs = [train(problem, method, vectorised=together, **SMALL) for together in (False, True)]
    close(runs[0].vector, runs[1].vector)


class Summed(nn.Module):
    """Adds up what a mask lets through; layers that could be computed for several clients at once."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(2, 4), nn.Linear(4, CLASSES)

    def forward(self, points: Tensor, attention_mask: Tensor) -> Tensor:
        return self.head((torch.tanh(self.body(points)) * attention_mask.unsqueeze(-1)).sum(dim=1))


@pytest.mark.parametrize("method", ["fedsam", "fedgmt"])
def test_clients_with_rows_of_different_length_fall_back(method: str) -> None:
    """Where all clients are as large and hold parts of one pool, their batches still differ in length."""
    lengths = (3, 1, 2, 5, 4, 2, 2, 1, 6)
    generator = torch.Generator().manual_seed(3)
    points = ff.Ragged([torch.randn(n, 2, generator=generator) for n in lengths])
    inputs = {"points": points, "attention_mask": ff.Ragged([[1] * n for n in lengths])}
    whole = ff.Partition(inputs, torch.arange(9) % CLASSES, torch.arange(9).split(3))
    problem = ff.Task(made(Summed), whole)
    runs = [train(problem, method, vectorised=together, **SMALL) for together in (False, True)]
    close(runs[0].vector, runs[1].vector)


def test_a_model_with_its_own_loss_is_not_vectorised() -> None:
    problem = task(model=made(Returning, "record"), loss=ff.model_loss, metrics=ff.Classification())
    with pytest.raises(ff.ConfigError, match="computes its loss itself"):
        train(problem, vectorised=True)


# --- on disk --------------------------------------------------------------------------------------------------


def kept_on_disk(kind: str) -> ff.Task:
    if kind == "tags":
        return tagged(3)
    if kind == "causal":
        return written(sources=[tokens(examples) for examples in clients()], test=tokens(texts((4, 2), 9)))
    if kind == "by position":
        return task([positional(examples) for examples in clients()])
    pool = [example for examples in clients() for example in examples]
    return task(ff.Partition(*nested(pool), [range(4), range(4, 9)]))


@pytest.mark.parametrize("kind", ["tags", "causal", "by position", "partition"])
def test_a_run_is_resumed_from_its_directory(kind: str, tmp_path: Path) -> None:
    cohorts = [[0, 1]] * 4
    whole = train(kept_on_disk(kind), "fedsam", cohorts, **SMALL)
    train(kept_on_disk(kind), "fedsam", cohorts, **SMALL, out=tmp_path / "run", rounds=2)
    gc.collect()  # no task is remembered that the directory does not hold
    run = ff.resume(tmp_path / "run", rounds=4, workers=0)
    assert torch.equal(run.vector, whole.vector)
    assert run.history[-1].keys() == whole.history[-1].keys()
    assert run.history[-1]["test_loss"] == whole.history[-1]["test_loss"]


# --- what is refused ------------------------------------------------------------------------------------------

X = torch.zeros(3, 2)
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no pad rule": ({"pad": None}, "client 0: input_ids differ in length; say Task\\(pad="),
    "no pad rule for pairs": (
        {"pad": None, "clients": [[([1, 2], 0), ([1], 1)]]},
        "client 0: the inputs differ in length; say Task\\(pad=number\\)",
    ),
    "uneven": ({"clients": [{"a": X, "labels": torch.zeros(2)}]}, "client 0: 3 inputs but 2 targets"),
    "no inputs": ({"clients": [{"labels": X}]}, "client 0: examples must have inputs besides 'labels'"),
    "texts": ({"clients": [[{"text": "a b", "labels": 1}]]}, "client 0: text holds str; a model takes numbers"),
    "missing": ({"clients": [[{"a": 1, "labels": 1}, {"labels": 1}]]}, "client 0: some examples have 'a'"),
    "metrics": ({"loss": ff.model_loss}, "name the metrics too"),
    "loss by position": (
        {"clients": [(X, X, X)], "loss": ff.model_loss, "metrics": ff.Classification()},
        "client 0: .*give examples as dicts",
    ),
    "scalar": ({"clients": [{"a": torch.tensor(1.0), "labels": X}]}, "client 0: a tensor without dimensions"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_examples_are_refused_in_one_sentence(name: str) -> None:
    changes, reason = REFUSED[name]
    with pytest.raises(ff.ConfigError, match=reason) as refused:
        ff.Task(**{"model": made(Reader), "clients": clients(), "pad": PAD, **changes})
    assert "\n" not in str(refused.value)


def test_a_model_that_returns_no_loss_or_no_scores_is_refused() -> None:
    with pytest.raises(ff.FlatfedError, match="returns no scalar called loss"):
        train(task(model=made(Returning, "dict"), loss=ff.model_loss, metrics=ff.Classification()))

    class Unclear(Reader):
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
            scores = super().forward(input_ids, attention_mask)
            return {"left": scores, "right": scores}

    with pytest.raises(ff.FlatfedError, match="returns left, right, in which no tensor is called logits"):
        train(task(model=made(Unclear)))
